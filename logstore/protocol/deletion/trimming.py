"""Trims chains: publishes trim points, deletes the segments below after a grace. Rules 6 and 7.

`Trimmer.steps` runs every minute: by the controller for sealed chains, by each broker for its own,
by `logstore gc` without a broker for all. Several at once do no harm: every step asks the registry
again and changes it conditionally; what decides (`rules.trim`) sees stored bytes and rows only.

The caller looks up the ends of tables before a pass and passes them in: nothing here reads a table.
Older ends suffice to raise a trim point; before a deletion they are looked up again.

The order of reading matters: chain rows, then partitions and topics, then checkpoints named by
those chain rows. So each topic in a checkpoint had a row when topics were read. A topic without
one was deleted, if a topic record says so; else the registry is older than the log.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from logstore.errors import Corrupt, NotFound, Refused
from logstore.formats.chain_row import CHAIN, ChainRow, ChainStatus, chain_sk
from logstore.formats.chain_state import EpochKey
from logstore.formats.checkpoint import Checkpoint
from logstore.formats.keys import segment_key
from logstore.formats.partition_row import PartitionRow
from logstore.formats.segment import HEADER_BYTES, SegmentKind, decode_header
from logstore.formats.topic_partition import TopicPartition
from logstore.formats.topic_row import TopicRow, TopicStatus
from logstore.protocol.chain.opening import OLD_REGISTRY, read_cluster
from logstore.protocol.chain.seal import read_chain_row
from logstore.protocol.chain.walk import MissingCheckpoint, get_retrying
from logstore.protocol.deletion.segments import delete_below_trim, publish_trim
from logstore.protocol.partitions.index_cache import IndexCache
from logstore.protocol.partitions.lookup import checkpoints_of
from logstore.protocol.rows.metadata import read_partition_rows, read_topics_by_id
from logstore.protocol.rules.disposal import Fate, fate_of
from logstore.protocol.rules.trim import (
    Hold,
    HoldReason,
    Needs,
    TrimStep,
    above_its_row,
    has_more,
    hold_in_slices,
    is_trim_point,
    next_of,
)
from logstore.protocol.steps import (
    BelievedMs,
    GetRow,
    GraceStartMs,
    NowMs,
    QueryRows,
    Steps,
    sliced,
)
from logstore.protocol.topics.witnesses import read_deletions

GRACE_MS = 3_600_000
HOLDS_KEPT_MAX = 10_000
DELETED_KEPT_MAX = 10_000
NOTHING: Mapping[TopicPartition, int] = {}
"""Ends of tables if there are none."""

Wanted = Callable[[int, ChainRow], bool]


@dataclass(slots=True)
class TrimPass:
    """Result of one pass: trim points published, by chain, and the number of objects deleted."""

    published: dict[int, int] = field(default_factory=dict)
    deleted: dict[int, int] = field(default_factory=dict)
    waiting: int = 0
    """Chains whose trim point is published and whose grace has not passed."""
    due: int = 0
    """Chains whose grace has passed, of which nothing was deleted because this pass might not."""
    due_topics: set[bytes] = field(default_factory=set)
    """Topics in those chains, whose tables must be looked up again."""


class _Kept(NamedTuple):
    """The reason not to trim a chain at `checkpoint`, found by the last pass."""

    checkpoint: int
    key: EpochKey
    floor: int


def sealed(_epoch: int, row: ChainRow) -> bool:
    """The chains that are the controller's to trim."""
    return row.status is ChainStatus.SEALED


def only(epoch: int) -> Wanted:
    """One broker's own chain."""
    return lambda chain, row: chain == epoch and row.status is ChainStatus.OPEN


def every(_epoch: int, row: ChainRow) -> bool:
    """All but those that are just being taken over."""
    return row.status is not ChainStatus.FENCED


class Trimmer:
    """Remembers between passes what held chains back, so that a pass without news is cheap."""

    def __init__(self, cluster_id: bytes, *, grace_ms: int = GRACE_MS) -> None:
        self._cluster_id = cluster_id
        self._grace_ms = grace_ms
        self._kept: dict[int, _Kept] = {}
        self._deleted: set[bytes] = set()
        """Topics whose deletion is recorded, which is final."""

    def steps(
        self,
        wanted: Wanted = every,
        durable_ends: Mapping[TopicPartition, int] = NOTHING,
        *,
        may_delete: bool = True,
        asked_ms: int | None = None,
    ) -> Steps[TrimPass]:
        """One pass over the `wanted` chains; `durable_ends` are the ends that tables hold durably.

        Each chain waits, has segments deleted, or has its trim point raised: one of these. Pass
        `may_delete` only if `durable_ends` was looked up for this pass, at `asked_ms`. A grace that
        ends later waits for the next pass: another process may have published its trim point by
        what tables hold since then, while this process was frozen or its clock was corrected.

        Raises `Refused` when the registry is older than the log, `Corrupt` when a published trim
        point turns out to be too high; nothing is deleted then. Else as store and registry do.
        """
        rows = [(int(sk), ChainRow.of(row)) for sk, row in (yield QueryRows(CHAIN))]
        chains = [(epoch, row) for epoch, row in rows if wanted(epoch, row) and has_more(row)]
        done = TrimPass()
        if not chains:
            return done
        yield from _check_registry_is_newest(self._cluster_id)
        partitions, rows_of_topics = yield from _read_rows()
        if len(self._deleted) >= DELETED_KEPT_MAX:
            self._deleted.clear()
        topics = _Topics(rows_of_topics, self._deleted)
        ends = dict(durable_ends)
        cache = IndexCache()
        needs = Needs(topics.live, partitions, {}, ends, self._deleted, topics.deleting)
        for epoch, row in chains:
            try:
                yield from self._trim_chain(
                    cache, epoch, row, needs, topics, done, may_delete, asked_ms
                )
            except MissingCheckpoint:
                if (yield from read_chain_row(epoch)).trim <= row.trim:
                    raise
                done.waiting += 1  # another process trims this chain, further than our row says
        return done

    def _trim_chain(
        self,
        cache: IndexCache,
        epoch: int,
        row: ChainRow,
        needs: Needs,
        topics: "_Topics",
        done: TrimPass,
        may_delete: bool,
        asked_ms: int | None,
    ) -> Steps[None]:
        now_ms: int = yield NowMs()
        match next_of(row, now_ms, self._grace_ms):
            case TrimStep.WAIT:
                done.waiting += 1
            case TrimStep.DELETE if not (yield from self._is_over(row, asked_ms)):
                done.waiting += 1
            case TrimStep.DELETE if not may_delete:
                front = yield from cache.front(epoch, row.trim)
                done.due += 1
                done.due_topics.update(key.topic_id for key in front.epoch_ranges)
            case TrimStep.DELETE:
                if not (yield from _is_still_allowed(cache, epoch, row, needs, topics)):
                    done.waiting += 1
                    return
                known = yield from checkpoints_of(cache, epoch, row.checkpoint)
                done.deleted[epoch] = yield from delete_below_trim(epoch, row, known)
            case TrimStep.RAISE:
                if self._holds_unchanged(epoch, needs):
                    return
                trim = yield from self._highest(cache, epoch, row, needs, topics)
                if not is_trim_point(row, trim):
                    return
                stamp_ms: int = yield GraceStartMs()
                if (yield from publish_trim(epoch, row, trim, stamp_ms)):
                    done.published[epoch] = trim
                    done.waiting += 1

    def _is_over(self, row: ChainRow, asked_ms: int | None) -> Steps[bool]:
        """Whether the grace has passed, by the accepted time too (`believed_time`)."""
        now_ms: int = yield BelievedMs()
        now_ms = now_ms if asked_ms is None else min(now_ms, asked_ms)
        return next_of(row, now_ms, self._grace_ms) is TrimStep.DELETE

    def _highest(
        self, cache: IndexCache, epoch: int, row: ChainRow, needs: Needs, topics: "_Topics"
    ) -> Steps[int]:
        """The last checkpoint at which nothing holds the chain back; its trim point without one."""
        known = yield from checkpoints_of(cache, epoch, row.checkpoint)
        candidates = [seq for seq in known if seq > row.trim]
        low, high = 0, len(candidates)
        held_by: Hold | None = None
        while low < high:
            middle = (low + high) // 2
            front = yield from cache.front(epoch, candidates[middle])
            hold = yield from _hold(cache, front, needs, topics)
            if hold is None:
                low = middle + 1
            else:
                high, held_by = middle, hold
        self._remember(epoch, candidates[low] if held_by else 0, held_by, needs)
        return candidates[low - 1] if low else row.trim

    def _remember(self, epoch: int, checkpoint: int, hold: Hold | None, needs: Needs) -> None:
        self._kept.pop(epoch, None)
        if hold is not None and hold.why is HoldReason.DATA and len(self._kept) < HOLDS_KEPT_MAX:
            floor = needs.floor(hold.key.topic_partition)
            self._kept[epoch] = _Kept(checkpoint, hold.key, floor)

    def _holds_unchanged(self, epoch: int, needs: Needs) -> bool:
        """Whether what held the chain just above its trim point does so unchanged."""
        kept = self._kept.get(epoch)
        if kept is None or kept.key.topic_id not in needs.live:
            return False
        partition = kept.key.topic_partition
        return partition in needs.rows and needs.floor(partition) == kept.floor


class _Topics:
    """Topic rows as one pass read them, by topic id; `deleted` are known to be, by records too."""

    def __init__(self, rows: Mapping[bytes, TopicRow], deleted: set[bytes]) -> None:
        self._rows = rows
        self._deleted = deleted
        self.live = frozenset(i for i, row in rows.items() if row.status is TopicStatus.LIVE)
        self.deleting = frozenset(rows.keys() - self.live)

    def ask(self, front: Checkpoint) -> Steps[None]:
        """Ask records of those in `front` that are not live. Raises `Refused`: an old registry."""
        asked = {key.topic_id for key in front.epoch_ranges} - self.live - self._deleted
        recorded = yield from read_deletions(asked)
        for topic_id in sorted(asked):
            row = self._rows.get(topic_id)
            match fate_of(row, deletion_recorded=topic_id in recorded):
                case Fate.DELETED:
                    self._deleted.add(topic_id)
                case Fate.UNKNOWN as fate:
                    raise Refused(
                        f"chain {front.epoch} holds records of a topic that is not known: "
                        f"{fate.value}: topic={topic_id.hex()}; {OLD_REGISTRY}"
                    )
                case _:
                    pass  # its deletion will be recorded in a moment


def _read_rows() -> Steps[tuple[dict[TopicPartition, PartitionRow], dict[bytes, TopicRow]]]:
    """Partitions before topics: a topic that is live still had all of its rows before."""
    rows = yield from read_partition_rows()
    topics = yield from read_topics_by_id()
    return rows, {topic_id: topic for topic_id, (_, topic) in topics.items()}


def _check_registry_is_newest(cluster_id: bytes) -> Steps[None]:
    """Stops on an old copy of a registry, which may lack topics and partitions that are live."""
    cluster = yield from read_cluster(cluster_id)
    epoch = cluster.next_epoch
    try:
        # A chain with a seal at seq 1 holds nothing: its maker died before it raised the row.
        while (yield from _kind_at(epoch, 1)) is SegmentKind.SEAL:
            epoch += 1
    except NotFound:
        return
    if (yield from read_cluster(cluster_id)).next_epoch == cluster.next_epoch:
        raise Refused(f"chain {epoch} is there already: {OLD_REGISTRY}")


def _kind_at(epoch: int, seq: int) -> Steps[SegmentKind]:
    return decode_header((yield from get_retrying(segment_key(epoch, seq), 0, HEADER_BYTES))).kind


def _hold(
    cache: IndexCache, front: Checkpoint, needs: Needs, topics: _Topics
) -> Steps[Hold | None]:
    """The reason that holds the chain back at `front`; `None` if there is none. Topics and
    released epoch ranges are asked about once more before one of them counts.
    """
    unknown = yield from sliced(above_its_row(front, needs))
    if unknown is not None:
        raise Refused(
            f"chain {front.epoch} knows leader epoch {unknown.leader_epoch} of a partition and the "
            f"registry does not: {unknown.topic_partition}; "
            f"{OLD_REGISTRY}"
        )
    taken: dict[TopicPartition, int] = {}
    has_asked = False
    while True:
        hold = yield from sliced(hold_in_slices(front, replace(needs, taken=taken)))
        if (
            hold is not None
            and hold.why in (HoldReason.NO_TOPIC, HoldReason.DELETING)
            and not has_asked
        ):
            yield from topics.ask(front)
            has_asked = True
            continue
        if hold is None or hold.why is not HoldReason.LEADERSHIP_END:
            return hold
        partition = hold.key.topic_partition
        if partition in taken:
            return hold
        taken[partition] = yield from _newest_taken(cache, hold.key, needs.rows[partition])


def _newest_taken(cache: IndexCache, key: EpochKey, row: PartitionRow) -> Steps[int]:
    """Newest leader epoch with a committed leadership-begin entry, by row or checkpoint."""
    # A row drops an epoch range only when a later one is known to have been taken.
    listed = {ref.leader_epoch for ref in row.epoch_ranges}
    dropped = set(range(key.leader_epoch, row.leader_epoch)) - listed
    newest = max(dropped, default=key.leader_epoch - 1) + 1
    for ref in reversed(row.epoch_ranges):
        if ref.leader_epoch <= newest:
            break
        last = yield from _last_checkpoint(ref.chain)
        if last:
            front = yield from cache.front(ref.chain, last)
            if EpochKey(key.topic_id, key.partition, ref.leader_epoch) in front.epoch_ranges:
                return ref.leader_epoch
    return newest


def _last_checkpoint(epoch: int) -> Steps[int]:
    row = yield GetRow(CHAIN, chain_sk(epoch))
    return 0 if row is None else ChainRow.of(row).checkpoint


def _is_still_allowed(
    cache: IndexCache, epoch: int, row: ChainRow, needs: Needs, topics: _Topics
) -> Steps[bool]:
    """Deletion asks again. Nothing that became deletable can be needed later; or all is wrong.

    False: a topic is being deleted just now, so ask again once that is recorded.
    """
    front = yield from cache.front(epoch, row.trim)
    hold = yield from _hold(cache, front, needs, topics)
    if hold is not None and hold.why is HoldReason.DELETING:
        return False
    if hold is not None:
        raise Corrupt(
            f"trim point is too high, nothing is deleted: chain={epoch} trim={row.trim} "
            f"{hold.key.topic_partition}: {hold.why.value}; "
            "run: logstore fsck"
        )
    return True
