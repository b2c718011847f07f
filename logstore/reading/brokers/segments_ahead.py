"""Has the next segments of partitions that are read in order on their way into the segment cache.

Where a fetch of a consumer goes on where its last one ended, the segments after it are put on their
way; after any other, a seek, those that were ahead are given up. How many is decided by
`reading.planning.read_ahead`; which ones the index says, as to any read, in a task of its own. A
failure is silent here: the fetch that needs the segment requests it itself, meets the error, and
reports it.

    read [begin, end)   the reader's segments
                        │ being read │ arrived │ on its way │ on its way │
                        begin … end                                      planned_to

A reader that reaches the high watermark gives up what it has ahead; one whose fetches end without a
word does `IDLE_S` later, when another's fetch comes, or the log forgets what is over (each minute).
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from logstore.errors import LogstoreError, NotFound
from logstore.formats.index_rows import Rows, first_row_for_seq, row_at, row_count
from logstore.ports.clock import Clock
from logstore.protocol.partitions.lookup import FoundRows
from logstore.reading.brokers.cache import BODY_OVERHEAD_BYTES, SegmentCache
from logstore.reading.brokers.readable import Readable
from logstore.reading.brokers.segment_parts import SegmentPart, SegmentParts, TopicParts
from logstore.reading.planning.read_ahead import ReadAhead
from logstore.runners.step_runner import outcome_of

READERS_MAX = 2_000
IDLE_S = 30.0

ReaderKey = tuple[str, bytes, int]
"""Consumer, topic id, partition."""
FindRows = Callable[[Readable, int], Coroutine[Any, Any, FoundRows]]


@dataclass(slots=True, eq=False)
class _SequentialReader:
    """Of one consumer and partition; `eq=False`: it is its own name."""

    partition: Readable
    begin: int
    end: int
    """Of its last fetch, in offsets."""
    last_s: float
    up_to: int = 0
    planned_to: int = 0
    """Below this offset its segments are ahead, or were."""
    waited_s: float = 0.0
    segments: deque[tuple[SegmentPart, int]] = field(default_factory=deque)
    """Parts of them that are ahead, in order, each with the first offset that is not in it."""
    is_looking: bool = False
    is_over: bool = False

    def goes_on(self, partition: Readable, offset: int) -> bool:
        """Where its last fetch ended, or in it: that may be repeated, or was cut short."""
        return self.partition is partition and self.begin <= offset <= self.end


class SegmentsAhead:
    """Reads ahead for all readers of one broker epoch."""

    def __init__(
        self,
        cache: SegmentCache,
        find_rows: FindRows,
        parts: SegmentParts,
        clock: Clock,
        *,
        bytes_max: int,
    ) -> None:
        self._cache = cache
        self._find_rows = find_rows
        self._parts = parts
        self._clock = clock
        self._ahead = ReadAhead(bytes_max)
        self._readers: OrderedDict[ReaderKey, _SequentialReader] = OrderedDict()
        """The one that has been idle for longest first."""
        self._group: asyncio.TaskGroup | None = None
        self._segment_bytes = 0
        """Of the last one that arrived: others are believed to be as large."""

    @property
    def byte_count(self) -> int:
        """On their way, or arrived and not read."""
        return self._ahead.byte_count

    async def run(self) -> None:
        """Read ahead until this is cancelled."""
        async with asyncio.TaskGroup() as self._group:
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                self._group = None
                for key in list(self._readers):
                    self._close(key)

    def note_in_memory(
        self, consumer: str, partition: Readable, offset: int, end_offset: int, up_to: int
    ) -> None:
        """As `note`, of offsets that are served from memory: for readers that came from the store
        and are not at the end.
        """
        if self._readers and _key(consumer, partition) in self._readers:
            self.note(consumer, partition, offset, end_offset, up_to)

    def note(
        self, consumer: str, partition: Readable, offset: int, end_offset: int, up_to: int
    ) -> None:
        """A fetch takes offsets [`offset`, `end_offset`) of those below `up_to`."""
        if self._group is None:
            return
        self.forget_idle()
        now_s = self._clock.monotonic_s()
        key = _key(consumer, partition)
        reader = self._readers.get(key)
        if reader is not None and (end_offset >= up_to or not reader.goes_on(partition, offset)):
            self._close(key)
            reader = None
        if reader is not None:
            self._readers.move_to_end(key)
            reader.last_s, reader.up_to = now_s, up_to
            reader.begin, reader.end = offset, end_offset
            self._give_up_read(reader, now_s)
            self._look(reader)
        elif end_offset < up_to:
            reader = self._readers[key] = _SequentialReader(partition, offset, end_offset, now_s)
            self._ahead.take(reader, 0, now_s)
            if len(self._readers) > READERS_MAX:
                self._close(next(iter(self._readers)))

    def note_wait(self, consumer: str, partition: Readable, waited_s: float) -> None:
        """A fetch waited so long for its segments."""
        reader = self._readers.get(_key(consumer, partition))
        if reader is not None:
            reader.waited_s += waited_s

    # Readers

    def forget_idle(self) -> None:
        """Give up what is ahead of consumers that have not fetched for `IDLE_S`."""
        now_s = self._clock.monotonic_s()
        while self._readers:
            key, oldest = next(iter(self._readers.items()))
            if now_s - oldest.last_s < IDLE_S:
                return
            self._close(key)

    def _close(self, key: ReaderKey) -> None:
        reader = self._readers.pop(key)
        reader.is_over = True
        self._ahead.forget(reader)
        for place, _ in reader.segments:
            self._unpin_unwanted(place)
        reader.segments.clear()

    def _give_up_read(self, reader: _SequentialReader, now_s: float) -> None:
        """Segments that the reader has taken all it wants of."""
        read_bytes = 0
        while reader.segments and reader.segments[0][1] <= reader.begin:
            place, _ = reader.segments.popleft()
            body = self._cache.peek_part(place)
            read_bytes += 0 if body is None else len(body)
            self._ahead.remove(reader, place)
            self._unpin_unwanted(place)
        if read_bytes:
            self._ahead.take(reader, read_bytes, now_s, reader.waited_s)
            reader.waited_s = 0.0

    def _unpin_unwanted(self, place: SegmentPart) -> None:
        if not self._ahead.holds(place):
            self._cache.unpin(place)

    # What follows

    def _look(self, reader: _SequentialReader) -> None:
        if not reader.is_looking and self._may_add_more(reader):
            reader.is_looking = self._start(self._look_ahead(reader))

    def _may_add_more(self, reader: _SequentialReader) -> bool:
        now_s = self._clock.monotonic_s()
        is_room = self._ahead.may_add(reader, None, self._segment_bytes, now_s)
        return not reader.is_over and reader.planned_to < reader.up_to and is_room

    async def _look_ahead(self, reader: _SequentialReader) -> None:
        """Put segments on their way until the reader has enough ahead."""
        try:
            while self._may_add_more(reader):
                reader.planned_to = max(reader.planned_to, reader.begin)
                located = await self._find_rows(reader.partition, reader.planned_to)
                parts = await self._parts.of(located)
                if not self._add_segments(reader, located, parts):
                    return
        except LogstoreError:
            return  # the fetch that comes there meets it too
        finally:
            reader.is_looking = False

    def _add_segments(
        self, reader: _SequentialReader, located: FoundRows, parts: TopicParts
    ) -> bool:
        """Whether all of those that are found were added."""
        number, count = located.number, row_count(located.rows)
        while number < count:
            first = row_at(located.rows, number)
            part = parts.part(first.seq, first.position, first.position + first.length)
            after = _first_row_beyond(located.rows, number, part)
            last = row_at(located.rows, after - 1)
            size = self._size_of(part, parts, last.position + last.length)
            now_s = self._clock.monotonic_s()
            is_wanted = not reader.is_over and first.base_offset < reader.up_to and not first.place
            if not is_wanted or not self._ahead.may_add(reader, part, size, now_s):
                return False
            self._add(reader, part, size, last.last_offset + 1)
            number = after
        return True

    def _size_of(self, part: SegmentPart, parts: TopicParts, least: int) -> int:
        known = parts.size_of(part)
        return max(least, self._segment_bytes) if known is None else known + BODY_OVERHEAD_BYTES

    def _add(
        self, reader: _SequentialReader, place: SegmentPart, size: int, end_offset: int
    ) -> None:
        is_new = self._ahead.add(reader, place, size)
        if not reader.segments or reader.segments[-1][0] != place:
            reader.segments.append((place, end_offset))
        else:
            reader.segments[-1] = (place, end_offset)  # its rows lie on two pages
        reader.planned_to = end_offset
        if is_new:
            self._cache.pin(place)
            body = self._cache.peek_part(place)
            if body is not None:
                self._ahead.landed(place, len(body) + BODY_OVERHEAD_BYTES)
            elif not self._start(self._fetch(place)):
                self._ahead.gone(place)

    async def _fetch(self, place: SegmentPart) -> None:
        """Get it into the cache; readers that need it before wait for this same request."""
        began_s = self._clock.monotonic_s()
        try:
            body = await outcome_of(self._cache.part(place))
        except asyncio.CancelledError:
            self._ahead.gone(place)
            self._unpin_unwanted(place)
            raise
        now_s = self._clock.monotonic_s()
        if isinstance(body, NotFound):
            self._ahead.gone(place)
        elif isinstance(body, LogstoreError):
            self._ahead.failed(place, now_s)
        else:
            size = len(body) + BODY_OVERHEAD_BYTES
            self._segment_bytes = size if place.is_whole else self._segment_bytes
            self._ahead.landed(place, size, now_s - began_s)
        self._unpin_unwanted(place)

    def _start(self, work: Coroutine[Any, Any, None]) -> bool:
        if self._group is None:
            work.close()
            return False
        self._group.create_task(work)
        return True


def _first_row_beyond(rows: Rows, number: int, part: SegmentPart) -> int:
    """Number of the first row from `number` on that does not lie in `part`."""
    after = first_row_for_seq(rows, part.seq + 1)
    if part.is_whole or row_at(rows, after - 1).position < part.end:
        return after  # a partition's batches lie in a body in their order
    return next(n for n in range(number, after) if row_at(rows, n).position >= part.end)


def _key(consumer: str, partition: Readable) -> ReaderKey:
    return consumer, partition.topic_id, partition.partition
