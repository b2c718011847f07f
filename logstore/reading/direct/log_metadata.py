"""Metadata of a log for a planner: topics, extents, locations of ranges. With retries.

Made in the process that asks and never pickled. An error that leaves here ends the query, so what
may pass is asked again first. While nothing is written it asks ever more rarely, up to a second
apart: a long poll instead of the hundred questions a second that Spark would ask.

    each poll      the next segment of each chain; once idle, the brokers' rows instead
    every 5 s      the change feed, and all rows if it names a wanted topic
    every minute   all rows, since an entry of the feed may be lost with its writer
"""

import math
import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Protocol, TypeVar

from logstore.formats.segment_ranges import SegmentRange, SplitPoint
from logstore.formats.table_row import TableRow
from logstore.formats.topic_partition import TopicPartition
from logstore.formats.topic_row import TopicRow
from logstore.history.forms.snapshot import Snapshot
from logstore.ports.clock import Clock, SystemClock, blocking_sleep_s
from logstore.protocol.chain.follow import ROW_AGE_S_MAX
from logstore.protocol.partitions.lookup import BelowTrimPoint
from logstore.protocol.topics.witnesses import TopicFate
from logstore.reading.direct.reader import LogReader, PartitionView
from logstore.reading.direct.snapshots import OpenTables, SnapshotCache, open_tables
from logstore.reading.direct.time_lookups import TimeLookup
from logstore.reading.planning.extents import Extent, Extents, TopicExtent, TopicRange
from logstore.reading.planning.layout import ChainLayout
from logstore.reading.planning.table_ranges import TableRange, table_range
from logstore.reading.planning.tasks import Located
from logstore.reading.table_times import first_offset_at_or_after
from logstore.retry import RetryDelays, retry
from logstore.wiring.open import ReadableLog, open_readable

T = TypeVar("T")

OpenReadable = Callable[[str, Mapping[str, str]], ReadableLog]

PATIENCE_S = 60.0
_DELAYS = RetryDelays(deadline_s=PATIENCE_S)
"""How long a store or registry that is away may stay away before the query fails."""

FEED_INTERVAL_S = 5.0
"""How often a poll reads the change feed: rows are read again where it names a wanted topic."""

ROWS_INTERVAL_S = 60.0
"""Maximum age of rows that polls go by: a change whose writer died may be missing in the feed."""

POLL_FIRST_S, POLL_MAX_S, POLL_GROWTH = 0.01, 1.0, 1.25
IDLE_S = 30.0
"""Without anything new for so long, a poll asks the brokers' rows instead of each chain."""


class TopicFilter(Protocol):
    """Which topics, and which of their partitions, a reader wants."""

    def of(self, existing: Iterable[str]) -> list[str]:
        """Those of the existing topics that are wanted."""
        ...

    def means_partition(self, topic: str, partition: int) -> bool:
        """Of a topic that is wanted."""
        ...


class LogMetadata:
    """Topics of one log. Not for several threads at once."""

    def __init__(
        self,
        url: str,
        topics: TopicFilter,
        storage: Mapping[str, str] | None = None,
        *,
        clock: Clock | None = None,
        sleep_s: Callable[[float], None] = blocking_sleep_s,
        open_log: OpenReadable = open_readable,
        open_tables: OpenTables = open_tables,
        row_age_s_max: float = ROW_AGE_S_MAX,
    ) -> None:
        """`row_age_s_max`: as for `LogReader`."""
        self._url = url
        self._wanted = topics
        self._storage = storage or {}
        self._clock = clock or SystemClock()
        self._sleep_s = sleep_s
        self._open_log = open_log
        self._row_age_s_max = row_age_s_max
        self._rng = random.Random()
        self._reader: LogReader | None = None
        self._snapshots = SnapshotCache(lambda: open_tables(url, self._storage))
        self._rows: dict[str, TopicRow] = {}
        self._copies: Mapping[bytes, TableRow] = {}
        self._views: Mapping[TopicPartition, PartitionView] = {}
        self._feed_version = 0
        self._feed_at_s = self._read_at_s = self._poll_at_s = -math.inf
        self._active_at_s = self._clock.monotonic_s()
        self._poll_delay_s = POLL_FIRST_S

    @property
    def clock(self) -> Clock:
        return self._clock

    def look(self, *, reload_tables: bool = False) -> Extents:
        """Extents now, by the registry and the chains; topics that do not exist are left out.

        With `reload_tables` all tables are looked at: what was wanted is not where it was thought
        to be.
        """
        self._retry(self._read_registry)
        if reload_tables:
            for row in self._rows.values():
                self.newest_table(row.topic_id)
        return self.extents()

    def fates(self, topic_ids: Collection[bytes]) -> dict[bytes, TopicFate]:
        """Fates of topics that the registry does not show. Rows first, then records."""
        return self._retry(self._log().fates, topic_ids)

    def newest_table(self, topic_id: bytes) -> Snapshot | None:
        """A topic's table as it is now; None without one."""
        return self._retry(self._snapshots.newest, topic_id)

    def extents(self) -> Extents:
        """As of the last look or poll."""
        partitions: dict[bytes, dict[int, Extent]] = {}
        for key, view in sorted(self._views.items()):
            extent = Extent(min(view.log_start, view.end), view.end)
            partitions.setdefault(key.topic_id, {})[key.partition] = extent
        return {
            name: TopicExtent(row.topic_id, partitions.get(row.topic_id, {}))
            for name, row in sorted(self._rows.items())
        }

    def wait_for_update(self, is_update: Callable[[Extents], bool], timeout_s: float) -> Extents:
        """Extents as soon as `is_update` says so of them, or after `timeout_s`."""
        deadline_s = self._clock.monotonic_s() + timeout_s
        while True:
            now_s = self._clock.monotonic_s()
            if now_s >= self._poll_at_s:
                extents = self._poll(now_s)
                if is_update(extents):
                    self._poll_delay_s = POLL_FIRST_S
                    return extents
                self._poll_at_s = self._clock.monotonic_s() + self._poll_delay_s
                self._poll_delay_s = min(self._poll_delay_s * POLL_GROWTH, POLL_MAX_S)
            elif is_update(extents := self.extents()):
                return extents
            now_s = self._clock.monotonic_s()
            if now_s >= deadline_s:
                return extents
            self._sleep_s(max(0.0, min(self._poll_at_s, deadline_s) - now_s))

    def places(self, ranges: Iterable[TopicRange]) -> Located:
        """Where the offsets of `ranges` lie, which must be in the extents.

        Raises `Corrupt`, `NotFound` or `BelowTrimPoint` if they cannot be found; the metadata may
        then be too old.
        """
        history: list[TableRange] = []
        segment_ranges: list[SegmentRange] = []
        for one in ranges:
            key, start, end = one.offsets
            part = self._held(key, start, end)
            if part is not None:
                history.append(part)
                start = part.offsets.end
            if start < end:
                segment_ranges += self._retry(self._segment_ranges_of, key, start, end)
        return Located(history, segment_ranges)

    def layout_of(self, chain: int, segment_ranges: Sequence[SegmentRange]) -> ChainLayout:
        """The parts of segments to read, by their index. Raises `Corrupt` as `places` does."""
        return self._retry(self._log().layout_of, chain, segment_ranges)

    def offsets_at(self, splits: Sequence[SplitPoint]) -> list[int]:
        """Where tasks divide segment ranges, by offsets. Raises `Corrupt` as `places` does."""
        return self._retry(self._log().offsets_at, splits)

    def offset_for_time(self, topic_id: bytes, partition: int, time_ms: int) -> int | None:
        """Of the first record at or after a time, among those in the extents; None without one."""
        key = TopicPartition(topic_id, partition)
        return self.offsets_for_times({key: time_ms})[key]

    def offsets_for_times(
        self, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | None]:
        """The same of many partitions, side by side; times in ms."""
        offsets: dict[TopicPartition, int | None] = {}
        in_tables: list[TableRange] = []
        in_segments: list[TimeLookup] = []
        for key, time_ms in times.items():
            view = self._views[key]
            held = self._held(key, view.log_start, view.end)
            start = view.log_start if held is None else held.offsets.end
            if held is not None:
                in_tables.append(held)
            in_segments.append(TimeLookup(key, view.row, time_ms, start, view.end))
        for held, offset in zip(
            in_tables,
            self._log().side_by_side(partial(self._in_table, times), in_tables),
            strict=True,
        ):
            offsets[held.offsets.partition] = offset
        left = [one for one in in_segments if offsets.get(one.key) is None]
        found = self._retry(self._log().offsets_for_time, left) if left else []
        offsets.update(zip((one.key for one in left), found, strict=True))
        return offsets

    def _in_table(self, times: Mapping[TopicPartition, int], held: TableRange) -> int | None:
        time_ms = times[held.offsets.partition]
        objects = self._log().objects
        return self._retry(first_offset_at_or_after, objects, held.offsets, held.files, time_ms)

    def _poll(self, now_s: float) -> Extents:
        if now_s - self._read_at_s >= ROWS_INTERVAL_S or (
            now_s - self._feed_at_s >= FEED_INTERVAL_S and self._have_rows_changed()
        ):
            return self.look()
        is_idle = now_s - self._active_at_s >= IDLE_S
        views = self._retry(partial(self._log().follow, ask_brokers=is_idle), self._views)
        if views is None:
            return self.look()
        if views is not self._views:
            self._active_at_s = now_s
        self._views = views
        return self.extents()

    def _have_rows_changed(self) -> bool:
        """Whether the change feed names a topic that is wanted, or does not go back so far."""
        feed = self._retry(self._log().feed)
        self._feed_at_s = self._clock.monotonic_s()
        changes = feed.since(self._feed_version)
        if changes is None:
            return True
        ids = {row.topic_id for row in self._rows.values()}
        wanted = self._wanted.of(sorted({change.topic for change in changes}))
        if any(change.topic in wanted or change.topic_id in ids for change in changes):
            return True
        self._feed_version = feed.version
        return False

    def _read_registry(self) -> None:
        reader = self._log()
        reader.format_level()  # refuses a newer log
        # Before the rows: what changes while they are read is looked at again.
        self._feed_version = reader.feed().version
        known = reader.topics()
        self._rows = {name: known[name] for name in self._wanted.of(known)}
        names = {row.topic_id: name for name, row in self._rows.items()}
        self._views = {
            key: view
            for key, view in reader.partitions(self._rows).items()
            if key.partition < self._rows[names[key.topic_id]].partitions  # else not grown yet
            and self._wanted.means_partition(names[key.topic_id], key.partition)
        }
        self._copies = reader.table_rows()
        self._feed_at_s = self._read_at_s = self._clock.monotonic_s()

    def _held(self, key: TopicPartition, start: int, end: int) -> TableRange | None:
        """The part of [start, end) in a table, which is read if its table pointer says so.

        That row is a hint: what a table holds beyond it is in segments too, or was looked for.
        """
        copied = self._copies.get(key.topic_id)
        if copied is not None and copied.ends.get(key.partition, 0) > start:
            self._retry(self._snapshots.at_least, key.topic_id, copied.version)
        known = self._snapshots.known(key.topic_id)
        edited_end = self._views[key].row.edited_end
        if start < edited_end and (known is None or (known.end(key.partition) or 0) < edited_end):
            self.newest_table(key.topic_id)
        return table_range(self._snapshots.known(key.topic_id), key.partition, start, end)

    def _segment_ranges_of(self, key: TopicPartition, start: int, end: int) -> list[SegmentRange]:
        return self._log().segment_ranges(key, self._views[key].row, start, end)

    def _log(self) -> LogReader:
        if self._reader is None:
            log = self._open_log(self._url, self._storage)
            self._reader = LogReader(log, row_age_s_max=self._row_age_s_max)
        return self._reader

    def _retry(self, call: Callable[..., T], *arguments: object) -> T:
        return retry(
            partial(call, *arguments),
            _DELAYS,
            self._rng,
            sleep_s=self._sleep_s,
            monotonic_s=self._clock.monotonic_s,
            unless=(BelowTrimPoint,),  # waiting does not help: newer rows and tables are needed
        )
