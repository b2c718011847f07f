"""Invariants of a chain's bytes, its row and the rows of partitions: pure checks.

`logstore fsck` runs them on a stored log, the simulator on the logs of its brokers.

    S1  a key is bound once: every segment matches its key and follows the one before
    S2  segments have no gap from the trim point to the end; segments beyond it do not count
    S4  every epoch drawn has its opening, every sealed chain its seal
    S5  trim point and checkpoint are in order, and nothing below the trim point is needed
    S8  checksums hold, and a checkpoint is what its chain replays to, byte for byte
    leadership-begin entries match their partition's row; its epoch ranges meet
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from logstore.formats.chain_row import NO_SEAL, ChainRow, ChainStatus
from logstore.formats.chain_state import ChainState, EpochKey
from logstore.formats.checkpoint import Checkpoint, encode_checkpoint
from logstore.formats.partition_row import PartitionRow
from logstore.formats.topic_partition import TopicPartition
from logstore.protocol.rules.trim import HoldReason, Needs, hold_of


class ProblemKind(Enum):
    """Kinds of damage, the worst first."""

    LOST = "records lost"
    BAD_ROW = "row cannot be read"
    OLD_REGISTRY = "registry older than the log"
    OUT_OF_ORDER = "registry contradicts itself"
    STRETCHES = "epoch ranges do not meet"
    LOG_START = "log start without a reason"
    NO_TOPIC = "partition without a topic"
    NO_PARTITION = "topic without a partition"
    NO_RECORD = "topic without its record"
    NO_OPENING = "opening missing"
    NO_SEAL = "seal missing"
    MISSING = "segment missing"
    DAMAGED = "damaged"
    FOREIGN = "foreign object"
    STRANGE_KEY = "strange key"
    CHECKPOINT = "checkpoint missing or false"
    TRIMMED_TOO_FAR = "trimmed too far"
    TABLE = "table cannot be read"
    TABLE_FILE = "file of a table missing or false"
    TABLE_CLEANED = "key compaction of a table false"
    TABLE_SETTLED = "settled end of a table false"
    TABLE_COMMITS = "commit of a table overwritten"
    TABLE_BEHIND = "table behind its table pointer"
    TABLE_CHECKPOINT = "checkpoint of a table's log damaged"
    STAGING = "staged batch of a sink missing or false"


_RESTORE = "stop every broker and run: logstore restore"
_COPY = "put the file back from a copy of any age; objects never change"

_UNSAFE = "stop what writes to the table without conditional creates; nothing is trimmed by it"

CURES = {
    ProblemKind.LOST: "put segments, or files of the table, back from a copy of any age",
    ProblemKind.BAD_ROW: f"put the row back as it was; or {_RESTORE}",
    ProblemKind.OLD_REGISTRY: _RESTORE,
    ProblemKind.OUT_OF_ORDER: _RESTORE,
    ProblemKind.STRETCHES: f"put back objects and registry of one moment; or {_RESTORE}",
    ProblemKind.LOG_START: f"{_RESTORE}; it puts log start where chains and tables begin",
    ProblemKind.NO_TOPIC: _RESTORE,
    ProblemKind.NO_PARTITION: _RESTORE,
    ProblemKind.NO_RECORD: f"{_COPY}; or change a setting of the topic: that writes a new record",
    ProblemKind.NO_OPENING: _COPY,
    ProblemKind.NO_SEAL: _COPY,
    ProblemKind.MISSING: _COPY,
    ProblemKind.DAMAGED: _COPY,
    ProblemKind.FOREIGN: f"{_COPY}; find the other program that writes here",
    ProblemKind.STRANGE_KEY: "move it away; nothing reads it",
    ProblemKind.CHECKPOINT: _COPY,
    ProblemKind.TRIMMED_TOO_FAR: (
        f"stop logstore gc, nothing is deleted before the grace; {_RESTORE}"
    ),
    ProblemKind.TABLE: (
        "follow the error, or put the table back from a copy; nothing is trimmed by it"
    ),
    ProblemKind.TABLE_FILE: "put the file back from a copy",
    ProblemKind.TABLE_CLEANED: (
        "set cleanup.policy=delete and retention.ms=-1, and take the table back to the version "
        "before, while its files are there: RESTORE TABLE … TO VERSION AS OF"
    ),
    ProblemKind.TABLE_SETTLED: (
        "each run says it again: let logstore compact --now clean the topic, and until "
        "delete.retention.ms has passed since then, have that setting higher by the time since "
        "the version was made, so that no deletion goes too early"
    ),
    ProblemKind.TABLE_COMMITS: _UNSAFE,
    ProblemKind.TABLE_BEHIND: f"put the table back from a copy; else {_RESTORE}. {_UNSAFE}",
    ProblemKind.TABLE_CHECKPOINT: (
        "move it away; readers take the entries, the next one has another name"
    ),
    ProblemKind.STAGING: (
        "no record of the log is touched; put the file back from a copy, or write the batch with "
        "a new sinkId"
    ),
}
"""Repair of each."""


class Problem(NamedTuple):
    """`where` is an object's key or a row, `which` names the part of it that is wrong if it has
    several; `chains` are the epochs to look at once more."""

    what: ProblemKind
    where: str
    detail: str
    chains: tuple[int, ...]
    which: str = ""


class WrittenRange(NamedTuple):
    """Offsets [start, end) of one epoch range in a chain."""

    start: int
    end: int
    is_released: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenChain:
    """A chain as read from its objects.

    `end` is the first seq that is not committed: the seal's, or the first gap's. `is_whole`: all
    of it could be replayed, so that `epoch_ranges` are true.
    """

    epoch: int
    broker: int | None
    end: int
    seal: int | None
    epoch_ranges: Mapping[EpochKey, WrittenRange]
    is_whole: bool = True


def extents_of(state: ChainState) -> dict[EpochKey, WrittenRange]:
    return {key: WrittenRange(s.start, s.end, s.released) for key, s in state.epoch_ranges.items()}


def checkpoint_of_replay(state: ChainState) -> bytes:
    """The checkpoint that belongs at `state.next_seq`; the replay continues from it."""
    data = encode_checkpoint(state)
    state.checkpoints.append(state.next_seq)
    state.spans, state.places, state.entry_count = [], [], 0
    for epoch_range in state.epoch_ranges.values():
        epoch_range.rows = bytearray()
    return data


def chain_row_problems(row: ChainRow, chain: SeenChain) -> Iterator[Problem]:
    """Contradictions between the row of a chain and its objects."""
    where = f"row chain/{chain.epoch}"

    def problem(what: ProblemKind, detail: str) -> Problem:
        return Problem(what, where, detail, (chain.epoch,))

    if row.status is ChainStatus.SEALED and row.seal != chain.seal:
        yield problem(ProblemKind.NO_SEAL, f"row says seal={row.seal}, chain says {chain.seal}")
    if chain.broker is not None and row.broker != chain.broker:
        detail = f"row says broker={row.broker}, its opening says {chain.broker}"
        yield problem(ProblemKind.FOREIGN, detail)
    if not row.deleted <= row.trim <= row.checkpoint:
        detail = f"deleted={row.deleted} trim={row.trim} checkpoint={row.checkpoint}"
        yield problem(ProblemKind.OUT_OF_ORDER, f"trim point above the last checkpoint: {detail}")
    if row.seal != NO_SEAL and row.checkpoint > row.seal:
        detail = f"checkpoint={row.checkpoint} seal={row.seal}"
        yield problem(ProblemKind.OUT_OF_ORDER, f"checkpoint above the seal: {detail}")
    if row.checkpoint > chain.end and chain.is_whole:
        detail = f"checkpoint={row.checkpoint} end={chain.end}"
        yield problem(ProblemKind.MISSING, f"checkpoint above the end of its chain: {detail}")


def newest_taken(chains: Mapping[int, SeenChain]) -> dict[TopicPartition, int]:
    """By partition, the newest leader epoch with a committed leadership-begin entry."""
    taken: dict[TopicPartition, int] = {}
    for chain in chains.values():
        for key in chain.epoch_ranges:
            partition = key.topic_partition
            taken[partition] = max(key.leader_epoch, taken.get(partition, -1))
    return taken


def trim_problem(checkpoint: Checkpoint, needs: Needs, deleted: int = 0) -> Problem | None:
    """S5 of the checkpoint at a trim point: nothing below it is needed.

    `deleted`: segments below it are gone. Records that neither log start nor a table accounts for
    are lost then.
    """
    hold = hold_of(checkpoint, needs)
    if hold is None or hold.why is HoldReason.DELETING:
        return None
    is_lost = hold.why is HoldReason.DATA and deleted >= checkpoint.seq
    return Problem(
        ProblemKind.LOST if is_lost else ProblemKind.TRIMMED_TOO_FAR,
        f"row chain/{checkpoint.epoch}",
        f"trim={checkpoint.seq} {hold.key.topic_partition}: {hold.why.value}",
        (checkpoint.epoch,),
    )


def partition_problems(
    topic_id: bytes, number: int, row: PartitionRow, chains: Mapping[int, SeenChain]
) -> Iterator[Problem]:
    """The epoch ranges of a row against the chains it names.

    Those not in `chains` are passed by.
    """
    where = f"row partition/{topic_id.hex()}/{number}"
    involved = tuple(sorted({ref.chain for ref in row.epoch_ranges}))
    for place, ref in enumerate(row.epoch_ranges):
        chain = chains.get(ref.chain)
        if chain is None or not chain.is_whole:
            continue
        epoch_range = chain.epoch_ranges.get(EpochKey(topic_id, number, ref.leader_epoch))
        following = row.end_of(place)
        which = f"leader_epoch={ref.leader_epoch} chain={ref.chain}"
        text = f"{which} start={ref.start}"
        if epoch_range is None:
            if following is not None and following != ref.start:
                detail = (
                    "an epoch range without a leadership-begin entry is not empty: "
                    f"{text} end={following}"
                )
                yield Problem(ProblemKind.STRETCHES, where, detail, involved, which)
        elif epoch_range.start != ref.start:
            detail = f"leadership-begin entry at another offset: {text} found={epoch_range.start}"
            yield Problem(ProblemKind.STRETCHES, where, detail, involved, which)
        elif following is not None and epoch_range.end != following:
            detail = f"epoch ranges do not meet: {text} end={epoch_range.end} next={following}"
            yield Problem(ProblemKind.STRETCHES, where, detail, involved, which)


def take_problem(
    key: EpochKey, extent: WrittenRange, epoch: int, row: PartitionRow, durable_end: int = 0
) -> Problem | None:
    """A committed leadership-begin entry of chain `epoch` that contradicts the row, read later.

    Rows drop earlier epoch ranges that have no offsets from log start on, and those that the
    topic's table holds: `durable_end` is its end for the partition, read before the row. A row
    drops an epoch range a grace after the table has it, so an end that was read within a grace is
    high enough. An empty one may have the number of a listed one: `logstore restore` has left it
    out.
    """
    named = {ref.leader_epoch: ref.chain for ref in row.epoch_ranges}
    is_earlier = key.leader_epoch < row.leader_epoch
    if key.leader_epoch in named:
        is_left_out = is_earlier and extent.end == extent.start
        is_known = named[key.leader_epoch] == epoch or is_left_out
    else:
        has_offsets = extent.end > max(extent.start, row.log_start, durable_end)
        is_known = is_earlier and not has_offsets
    if is_known:
        return None
    return Problem(
        ProblemKind.OLD_REGISTRY,
        f"row partition/{key.topic_id.hex()}/{key.partition}",
        f"leadership-begin entry without its row: chain={epoch} "
        f"leader_epoch={key.leader_epoch}, row has "
        f"leader_epoch={row.leader_epoch} chain={row.chain}",
        (epoch, *sorted(set(named.values()))),
    )
