"""Plan reads of the log without a broker: Spark and tools. Committed records only.

The driver asks the registry which chains hold a partition, follows those still open, and turns
offsets into segment ranges: (chain, seqs, offsets). An executor needs nothing but the segment
ranges and the store: `logstore.reading.direct.segment_fetch`.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TypeVar

from logstore.errors import Corrupt, NotFound, Retryable
from logstore.formats.broker_row import BrokerStatus
from logstore.formats.chain_state import EpochKey, EpochRange, SegmentSpan
from logstore.formats.feed_row import FeedRow
from logstore.formats.index_rows import find_offset, row_at
from logstore.formats.keys import segment_key
from logstore.formats.levels import OLDEST_LEVEL, check_known
from logstore.formats.offset_range import OffsetRange
from logstore.formats.partition_row import EpochEntry, PartitionRow
from logstore.formats.segment import (
    HEADER_BYTES,
    decode_header,
)
from logstore.formats.segment_ranges import SegmentRange, SplitPoint
from logstore.formats.table_row import TableRow
from logstore.formats.topic_partition import TopicPartition
from logstore.formats.topic_row import TopicRow, TopicStatus
from logstore.ports.objects import BlockingObjectStore
from logstore.protocol.chain.follow import ROW_AGE_S_MAX
from logstore.protocol.chain.seal import read_chain_row
from logstore.protocol.chain.walk import get_retrying
from logstore.protocol.partitions.lookup import (
    BelowTrimPoint,
    NotListed,
    fronts_or_trimmed,
    rows_for_offset,
)
from logstore.protocol.partitions.split_offsets import (
    ChainSplit,
    chain_split,
    end_in_memory,
    ends_in_checkpoints,
)
from logstore.protocol.rows.changes import read_feed
from logstore.protocol.rows.metadata import (
    read_brokers,
    read_partition_row,
    read_partition_rows,
    read_table_rows,
    read_topics,
)
from logstore.protocol.rows.view import read_level
from logstore.protocol.steps import Steps
from logstore.protocol.topics.witnesses import TopicFate, read_fates
from logstore.reading.direct.followed_chains import FollowedChains
from logstore.reading.direct.time_lookups import TimeLookup, offsets_for_time
from logstore.reading.planning.layout import ChainLayout, LayoutBuilder
from logstore.reading.planning.layout_steps import add_checkpoint
from logstore.reading.planning.segment_gone import SegmentGone
from logstore.version import VERSION
from logstore.wiring.open import ReadableLog

__all__ = ["BelowTrimPoint", "LogReader", "PartitionView", "inherited_configs"]

T = TypeVar("T")
V = TypeVar("V")

FRONTS_TOGETHER = 32
ROW_READS_MAX = 8


@dataclass(frozen=True, slots=True)
class PartitionView:
    """One partition as it stands: offsets [log start, end) are committed and readable."""

    row: PartitionRow
    end: int
    topic_defaults: Mapping[str, str] = field(default_factory=dict)
    """Configs that the topic has where it says nothing, by its leader's settings."""

    @property
    def log_start(self) -> int:
        return self.row.log_start


def inherited_configs(views: Iterable[PartitionView]) -> Mapping[str, str]:
    """Of one topic, the configs that it has where it says nothing: as that of its leaders was set
    that started last. Empty: the product's own.
    """
    newest = max(views, key=lambda view: view.row.chain, default=None)
    return {} if newest is None else newest.topic_defaults


class LogReader:
    """Plans reads of one log. Not for several threads at once."""

    def __init__(self, log: ReadableLog, *, row_age_s_max: float = ROW_AGE_S_MAX) -> None:
        """`row_age_s_max`: as for `Follower`; at most half of the grace of deletion."""
        self._log = log
        self._chains = FollowedChains(log.identity.cluster_id, row_age_s_max)

    @property
    def cluster_id(self) -> bytes:
        return self._log.identity.cluster_id

    def format_level(self) -> int:
        """The finalized format level.

        Raises `Refused` where the cluster may write forms that this version does not read.
        """
        level = self._log.runner.run(read_level())
        if level is None:  # the registry is empty, which others report
            return OLDEST_LEVEL
        check_known(level, VERSION)
        return level

    def topics(self) -> dict[str, TopicRow]:
        """Topics that are live, by name."""
        rows = self._log.runner.run(read_topics())
        return {name: row for name, row in rows.items() if row.status is TopicStatus.LIVE}

    def fates(self, topic_ids: Collection[bytes]) -> dict[bytes, TopicFate]:
        """Fates of topics that may be deleted: by their rows, then by their records."""
        return self._log.runner.run(read_fates(topic_ids))

    def brokers(self) -> list[tuple[str, int]]:
        """Host and port of every broker, alive or not; those that say they serve come first."""
        brokers = sorted(
            self._log.runner.run(read_brokers()).values(),
            key=lambda broker: broker.status is not BrokerStatus.SERVING,
        )
        return [(broker.host, broker.port) for broker in brokers]

    @property
    def objects(self) -> BlockingObjectStore:
        return self._log.runner.store

    def table_rows(self) -> dict[bytes, TableRow]:
        """The table pointer of every topic that has a table, or had one, by topic id.

        Hints: the table's own log is the truth (`formats.table_row`).
        """
        return self._log.runner.run(read_table_rows())

    def partition_row(self, key: TopicPartition) -> PartitionRow | None:
        """As the registry has it now; None when the topic's life is over."""
        return self._log.runner.run(read_partition_row(*key))

    def partitions(self, topics: Mapping[str, TopicRow]) -> dict[TopicPartition, PartitionView]:
        """Every partition of `topics`, as far as it is committed now.

        A partition whose topic was deleted while its chain was read is left out. Raises `Retryable`
        while rows keep changing.
        """
        wanted = {row.topic_id for row in topics.values()}
        return self._log.runner.run(self._partitions(wanted))

    def feed(self) -> FeedRow:
        """The change feed: which topics and partitions changed last."""
        return self._log.runner.run(read_feed())

    def follow(
        self, views: Mapping[TopicPartition, PartitionView], *, ask_brokers: bool = False
    ) -> Mapping[TopicPartition, PartitionView] | None:
        """The same partitions as far as they are committed now, without reading their rows.

        None when one of their chains has been sealed or holds nothing of a partition, whose topic
        may be deleted: `partitions` reads the rows again.

        With `ask_brokers` the brokers' rows say first which chains have grown, up to a heartbeat
        ago: one query, instead of a GET for each chain that has not.
        """
        chains = {view.row.chain for view in views.values()}
        if ask_brokers:
            chains -= self._log.runner.run(self._chains.unchanged(chains))
        new_segments = self._log.runner.run(self._chains.advance(chains))
        if any(self._chains.follower(chain).is_sealed for chain in chains):
            return None
        if not new_segments:
            return views
        if any(self._epoch_range(key, view.row) is None for key, view in views.items()):
            return None
        return {key: replace(view, end=self._end(key, view.row)) for key, view in views.items()}

    def segment_ranges(
        self, key: TopicPartition, row: PartitionRow, start: int, end: int
    ) -> list[SegmentRange]:
        """Where offsets [start, end) lie, in order.

        Raises `BelowTrimPoint` where what is known is too old: read rows, then the table.
        `NotListed`, one of these, below the first epoch range of `row`: there a partition lies in
        its table, if anywhere. `Corrupt` when some that the row lists cannot be found.
        """
        return self._log.runner.run(self._segment_ranges(key, row, start, end))

    def layout_of(self, chain: int, segment_ranges: Sequence[SegmentRange]) -> ChainLayout:
        """Which bytes of which segments of a chain hold what `segment_ranges` want.

        Raises `Corrupt` where no checkpoint covers a segment, `BelowTrimPoint` as they do.
        """
        return self._log.runner.run(self._layout_of(chain, segment_ranges))

    def spans(self, chain: int, first_seq: int, last_seq: int) -> list[SegmentSpan]:
        """Sizes of the segments [first seq, last seq] of a chain."""
        return self._log.runner.run(self._spans(chain, first_seq, last_seq))

    def offsets_at(self, splits: Sequence[SplitPoint]) -> list[int]:
        """Per split, the first offset of its segment range that lies in segment `seq` or a later
        one.

        So both parts are known by offsets, whatever becomes of their segments. Raises `Corrupt`
        where the index no longer tells, `BelowTrimPoint` where its checkpoints have been deleted.
        """
        return self._log.runner.run(self._offsets_at(splits))

    def written_ms(self, chain: int, seq: int) -> int:
        """When the first batch of a segment came, by its broker's clock; never falls in a chain.

        Raises `SegmentGone`.
        """
        return self._log.runner.run(_read_written_ms(chain, seq))

    def offset_for_time(
        self, key: TopicPartition, view: PartitionView, timestamp: int, start: int | None = None
    ) -> int | None:
        """Offset of the first committed record at or after `timestamp` (ms); None without one.

        Searches offsets from `start` on; from log start without one. Raises `BelowTrimPoint` if
        that lies below the first epoch range that the row lists: look in the topic's table, where
        those offsets are unless they are lost.
        """
        first = view.log_start if start is None else start
        return self.offsets_for_time([TimeLookup(key, view.row, timestamp, first, view.end)])[0]

    def offsets_for_time(self, wanted: Sequence[TimeLookup]) -> list[int | None]:
        """The same of many partitions, side by side."""
        return self._log.runner.run(offsets_for_time(self._chains, wanted))

    def side_by_side(self, call: Callable[[V], T], items: Sequence[V]) -> list[T]:
        """Blocking `call` of each item in threads; it must not call this reader."""
        return self._log.runner.side_by_side(call, items)

    def _partitions(self, wanted: Collection[bytes]) -> Steps[dict[TopicPartition, PartitionView]]:
        """Of the topic ids `wanted`. A chain is read after the rows that name it.

        An epoch range that its chain does not hold is empty, as its leadership-begin entry is not
        committed, or was forgotten, as its row is gone or lists it no more. A row that reads the
        same after its chain was read says that the epoch range is empty.
        """
        rows = yield from self._rows_of(wanted)
        for _ in range(ROW_READS_MAX):
            chains = {row.chain for row in rows.values()}
            yield from self._chains.advance(chains)
            absent = [key for key, row in rows.items() if self._epoch_range(key, row) is None]
            again = (yield from self._rows_of(wanted)) if absent else rows
            if all(again.get(key) == rows[key] for key in absent):
                self._chains.forget_others(chains)
                return {key: self._view(key, row) for key, row in rows.items()}
            rows = again
        raise Retryable(f"partition rows change while chains are read: read={ROW_READS_MAX} times")

    def _rows_of(self, wanted: Collection[bytes]) -> Steps[dict[TopicPartition, PartitionRow]]:
        rows = yield from read_partition_rows()
        return {key: row for key, row in rows.items() if key.topic_id in wanted}

    def _epoch_range(self, key: TopicPartition, row: PartitionRow) -> EpochRange | None:
        """The last epoch range of `row`.

        None where its chain holds no leadership-begin entry or forgot it.
        """
        return self._chains.follower(row.chain).state.epoch_ranges.get(
            EpochKey(key.topic_id, key.partition, row.leader_epoch)
        )

    def _view(self, key: TopicPartition, row: PartitionRow) -> PartitionView:
        defaults = self._chains.follower(row.chain).topic_defaults
        return PartitionView(row, self._end(key, row), defaults)

    def _end(self, key: TopicPartition, row: PartitionRow) -> int:
        epoch_range = self._epoch_range(key, row)
        return row.epoch_ranges[-1].start if epoch_range is None else epoch_range.end

    def _segment_ranges(
        self, key: TopicPartition, row: PartitionRow, start: int, end: int
    ) -> Steps[list[SegmentRange]]:
        if start < min(end, row.epoch_ranges[0].start):
            raise NotListed(
                f"offset is in no chain: {key} "
                f"offset={start} chains from={row.epoch_ranges[0].start}; is it in the table?"
            )
        segment_ranges = []
        for number, ref in enumerate(row.epoch_ranges):
            following = row.end_of(number)
            low = max(start, ref.start)
            high = end if following is None else min(end, following)
            if low < high:
                first = yield from self._seq_of(key, ref, low)
                last = yield from self._seq_of(key, ref, high - 1)
                offsets = OffsetRange(key, low, high)
                segment_ranges.append(
                    SegmentRange(offsets, ref.leader_epoch, ref.chain, first, last)
                )
        return segment_ranges

    def _seq_of(self, key: TopicPartition, ref: EpochEntry, offset: int) -> Steps[int]:
        epoch_range_key = EpochKey(key.topic_id, key.partition, ref.leader_epoch)
        follower = yield from self._chains.enter(ref.chain)
        if follower is not None:
            epoch_range = follower.state.epoch_ranges.get(epoch_range_key)
            here = None if epoch_range is None else find_offset([epoch_range.rows], offset)
            if here is not None:
                return row_at(*here).seq
        checkpoints = yield from self._chains.checkpoints(ref.chain)
        located = yield from rows_for_offset(
            self._chains.cache, ref.chain, checkpoints, epoch_range_key, offset
        )
        if located is None:
            row = yield from read_partition_row(*key)
            if row is None or all(ref.leader_epoch != one.leader_epoch for one in row.epoch_ranges):
                raise BelowTrimPoint(
                    f"epoch range is no longer listed: chain={ref.chain} offset={offset}"
                )
            # By the chain's row: fronts that are kept do not tell that they were deleted since.
            if (yield from read_chain_row(ref.chain)).trim > max(checkpoints, default=0):
                raise BelowTrimPoint(
                    f"index is trimmed: chain={ref.chain} offset={offset}; look again"
                )
            raise Corrupt(
                f"offset is nowhere in its chain: topic={key.topic_id.hex()} "
                f"partition={key.partition} offset={offset} chain={ref.chain}"
            )
        return row_at(located.rows, located.number).seq

    def _layout_of(self, chain: int, segment_ranges: Sequence[SegmentRange]) -> Steps[ChainLayout]:
        builder = LayoutBuilder(chain, segment_ranges)
        follower = yield from self._chains.enter(chain)
        known = yield from self._chains.checkpoints(chain)
        seqs = [seq for from_seq, seq in pairwise((0, *known)) if builder.ranges_in(from_seq, seq)]
        cache = self._chains.cache
        for at in range(0, len(seqs), FRONTS_TOGETHER):
            together = seqs[at : at + FRONTS_TOGETHER]
            for front in (yield from fronts_or_trimmed(cache, chain, together)):
                yield from add_checkpoint(builder, cache, front)
        if follower is not None:
            builder.add_followed(follower.state)
        return builder.layout()

    def _spans(self, chain: int, first_seq: int, last_seq: int) -> Steps[list[SegmentSpan]]:
        spans: dict[int, SegmentSpan] = {}
        follower = yield from self._chains.enter(chain)
        if follower is not None:
            spans.update(enumerate(follower.state.spans, follower.state.checkpoint))
        known = yield from self._chains.checkpoints(chain)
        wanted = [
            seq
            for from_seq, seq in pairwise((0, *known))
            if from_seq <= last_seq and first_seq < seq
        ]
        for at in range(0, len(wanted), FRONTS_TOGETHER):
            together = wanted[at : at + FRONTS_TOGETHER]
            for front in (yield from fronts_or_trimmed(self._chains.cache, chain, together)):
                spans.update(enumerate(front.spans, front.from_seq))
        missing = [seq for seq in range(first_seq, last_seq + 1) if seq not in spans]
        if missing:
            raise Corrupt(f"no checkpoint covers a segment: chain={chain} seq={missing[0]}")
        return [spans[seq] for seq in range(first_seq, last_seq + 1)]

    def _offsets_at(self, splits: Sequence[SplitPoint]) -> Steps[list[int]]:
        by_chain: dict[int, set[ChainSplit]] = {}
        for split in splits:
            by_chain.setdefault(split.segments.chain, set()).add(chain_split(split))
        ends: dict[tuple[int, ChainSplit], int] = {}
        for chain, mine in by_chain.items():
            follower = yield from self._chains.enter(chain)
            recent: set[ChainSplit] = set()
            if follower is not None:
                state = follower.state
                recent = {split for split in mine if split.seq >= state.checkpoint}
                ends.update(((chain, split), end_in_memory(state, split)) for split in recent)
            known = yield from self._chains.checkpoints(chain)
            older = yield from ends_in_checkpoints(self._chains.cache, chain, known, mine - recent)
            ends.update(((chain, split), end) for split, end in older.items())
        split_ends = (
            (split.segments, ends[split.segments.chain, chain_split(split)]) for split in splits
        )
        return [
            min(max(end, segments.offsets.start), segments.offsets.end)
            for segments, end in split_ends
        ]


def _read_written_ms(chain: int, seq: int) -> Steps[int]:
    try:
        front = yield from get_retrying(segment_key(chain, seq), 0, HEADER_BYTES)
    except NotFound as error:
        raise SegmentGone(chain, seq) from error
    return decode_header(front).created_ms
