"""How far a chain may be trimmed: safety rule 7. Pure.

A trim point is always the seq of a checkpoint, which covers all segments below it, so its list of
epoch ranges decides whether one of them is still needed. Four things hold segments back:

    a topic that is not known to be deleted, by the registry and by a topic record (`disposal`)
    a range of a live topic above log start, and above what its table holds
    a leadership end whose successor has no committed leadership-begin entry: its state is read here
    the state chunks of a leadership-begin entry: no checkpoint lies between the chunks and their
    entry, so replay from a checkpoint never needs chunks below it

If a checkpoint may be the trim point, so may every earlier one. The last checkpoint of a chain, the
one at its trim point, its opening and its seal are never deleted: they prove what the chain held.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum

from logstore.formats.chain_row import NO_SEAL, ChainRow
from logstore.formats.chain_state import EpochKey
from logstore.formats.checkpoint import Checkpoint, EpochRangeSummary
from logstore.formats.partition_row import PartitionRow
from logstore.formats.topic_partition import TopicPartition
from logstore.protocol.rules.disposal import confirmed_start
from logstore.slices import Slices, finish

FIRST_SEGMENT = 1
"""Seq 0 is the opening, which stays."""
SLICE_EPOCH_RANGES = 1_000
"""Some two milliseconds of work."""


@dataclass(frozen=True, slots=True)
class Needs:
    """Evidence in rows and tables of the data that is still needed; read after the rows of chains.

    `rows` are those of partitions. `live` are ids of live topics; `deleted` those of topics whose
    data may all be deleted, as far as they were looked up; `deleting` have a row that is not live:
    their deletion is recorded, or is about to be. `taken` has, by partition, the newest leader
    epoch known to have a committed leadership-begin entry, as far as it was looked up.
    `durable_ends` are the ends up to which tables held offsets a grace ago and hold them now, by
    their own snapshots (`logstore.history.durable_ends`).
    """

    live: Collection[bytes]
    rows: Mapping[TopicPartition, PartitionRow]
    taken: Mapping[TopicPartition, int]
    durable_ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    deleted: Collection[bytes] = frozenset()
    deleting: Collection[bytes] = frozenset()

    def floor(self, partition: TopicPartition) -> int:
        """Offset below which no segment is needed, of a partition that has a row."""
        return max(confirmed_start(self.rows[partition]), self.durable_ends.get(partition, 0))


class HoldReason(Enum):
    """Why an epoch range holds segments back."""

    DATA = "offsets above log start that no table holds durably"
    LEADERSHIP_END = "a leadership end without a committed successor"
    NO_ROW = "a live topic, and no row of the partition"
    NO_TOPIC = "a topic that is not live, and no record of its deletion"
    DELETING = "a topic that is being deleted, until that is recorded"


@dataclass(frozen=True, slots=True)
class Hold:
    """An epoch range that needs a segment below a checkpoint."""

    key: EpochKey
    why: HoldReason


def hold_of(checkpoint: Checkpoint, needs: Needs) -> Hold | None:
    """The reason not to trim the chain at `checkpoint`; None: it may be trimmed.

    `DELETING` only if nothing else holds it. It does not contradict a trim point published before:
    rows of such a topic are being deleted, and it is no longer read.
    """
    return finish(hold_in_slices(checkpoint, needs))


def hold_in_slices(checkpoint: Checkpoint, needs: Needs) -> Slices[Hold | None]:
    """As `hold_of`."""
    waiting: Hold | None = None
    for number, (key, summary) in enumerate(checkpoint.epoch_ranges.items(), 1):
        if number % SLICE_EPOCH_RANGES == 0:
            yield
        why = _why(key, summary, needs)
        if why is HoldReason.DELETING:
            waiting = Hold(key, why)
        elif why is not None:
            return Hold(key, why)
    return waiting


def _why(key: EpochKey, summary: EpochRangeSummary, needs: Needs) -> HoldReason | None:
    if key.topic_id not in needs.live:
        if key.topic_id in needs.deleted:
            return None
        return HoldReason.DELETING if key.topic_id in needs.deleting else HoldReason.NO_TOPIC
    partition = key.topic_partition
    row = needs.rows.get(partition)
    if row is None:
        return HoldReason.NO_ROW
    if summary.end > max(summary.start, needs.floor(partition)):
        return HoldReason.DATA
    if summary.released and needs.taken.get(partition, -1) <= key.leader_epoch:
        return HoldReason.LEADERSHIP_END
    return None


def above_its_row(checkpoint: Checkpoint, needs: Needs) -> Slices[EpochKey | None]:
    """An epoch range whose leader epoch its row, read later, does not know: an old registry.

    Only of topics that live: the first row of a partition, given up as lost, may land when its
    topic has been deleted.
    """
    for number, key in enumerate(checkpoint.epoch_ranges, 1):
        if number % SLICE_EPOCH_RANGES == 0:
            yield
        row = needs.rows.get(key.topic_partition)
        is_known = row is None or key.leader_epoch <= row.leader_epoch
        if not is_known and key.topic_id in needs.live:
            return key
    return None


def is_trim_point(row: ChainRow, seq: int) -> bool:
    """Whether the chain's row allows `seq` as its next trim point; below 2 nothing would go."""
    if seq <= FIRST_SEGMENT:
        return False
    return row.trim < seq <= row.checkpoint and (row.seal == NO_SEAL or seq <= row.seal)


def has_more(row: ChainRow) -> bool:
    """Whether there may be anything to trim or delete, judged by the row."""
    return row.checkpoint > max(row.deleted, FIRST_SEGMENT)


class TrimStep(Enum):
    """Next step of trimming a chain."""

    WAIT = "for the grace of the last trim point to pass"
    DELETE = "segments below the trim point"
    RAISE = "the trim point, if possible"


def next_of(row: ChainRow, now_ms: int, grace_ms: int) -> TrimStep:
    """One trim point at a time: the next is published once all below the last is deleted."""
    if row.deleted >= row.trim:
        return TrimStep.RAISE
    return TrimStep.DELETE if now_ms - row.trim_ms >= grace_ms else TrimStep.WAIT


def segments_to_delete(row: ChainRow) -> range:
    """Seqs below the trim point that may still be there."""
    return range(max(FIRST_SEGMENT, row.deleted), row.trim)
