"""Segments of a task, or parts of them, fetched ahead in the order in which the task reads them.

    places   0   1   2   3   4   5   6   7   8 …
             read    │   arrived │ on their way │ not begun

How many bytes may be ahead, on their way or unread: `reading.planning.read_ahead`. A task reads all
that it was given, so it begins at full pace: with a few requests, and where the first is not
answered at once, as from a directory, with all that there is room for. A large segment comes in
parts, side by side: one connection to a bucket gives some 40 to 90 MB/s. Where a plan does not say
how large a whole segment is, the largest one so far stands for it.
"""

import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from functools import partial
from types import TracebackType
from typing import NamedTuple

from logstore.errors import NotFound
from logstore.formats.keys import segment_key
from logstore.ports.clock import Clock, SystemClock, blocking_sleep_s
from logstore.ports.objects import BlockingObjectStore
from logstore.reading.planning.batch_places import joined
from logstore.reading.planning.read_ahead import ReadAhead
from logstore.reading.planning.segment_gone import SegmentGone
from logstore.reading.planning.tasks import SeqRange
from logstore.retry import RetryDelays, retry

MiB = 1024 * 1024
AHEAD_BYTES_MAX = 64 * MiB
"""Of one task: what a store with 90 ms to a whole segment needs for 700 MB/s."""

REQUESTS_MAX = 32
"""Threads of one task: segments of 100 KB are bound by it, not by bytes."""

FIRST_REQUESTS = 4
"""Before it is known how far the store is, or how large segments are."""

FAR_S = 0.005
"""A store that has not answered by then is far: a directory takes 1 ms for 2 MB."""

PART_BYTES = 2 * MiB
"""Of segments that are larger than two of them. S3 takes some 25 ms to the first byte, 80 ms for
2 MiB, 250 ms for 8; a request costs us 0.5 ms of CPU."""

GET_ATTEMPTS_MAX = 8
_GETS = RetryDelays(attempts_max=GET_ATTEMPTS_MAX)  # some six seconds
_READER = "task"


class FetchPlace(NamedTuple):
    """Bytes [start, end) of a segment; `end` 0: the whole segment, of `size_bytes` if they are
    known.
    """

    chain: int
    seq: int
    start: int = 0
    end: int = 0
    size_bytes: int = 0

    @property
    def is_whole(self) -> bool:
        return not self.end

    @property
    def byte_count(self) -> int:
        """0: not known."""
        return self.size_bytes if self.is_whole else self.end - self.start


class _FetchedBytes(NamedTuple):
    data: bytes
    took_s: float


class _BegunFetch(NamedTuple):
    """One place ahead; `number` is its own in the order, `parts` are its bytes in order."""

    number: int
    place: FetchPlace
    parts: Sequence["Future[_FetchedBytes]"]

    def is_done(self) -> bool:
        return all(part.done() for part in self.parts)

    def data(self) -> bytes:
        """Waits for them. Raises as the first part does that failed."""
        found = [part.result().data for part in self.parts]
        return found[0] if len(found) == 1 else b"".join(found)


def places_of(seq_ranges: Iterable[SeqRange]) -> Iterator[FetchPlace]:
    """The places to fetch for them, in order."""
    for seq_range in seq_ranges:
        for seq in range(seq_range.first_seq, seq_range.last_seq + 1):
            if not seq_range.places.has(seq):
                yield whole_place(seq_range, seq)
                continue
            for one in joined(seq_range.places.of(seq)):
                yield FetchPlace(seq_range.chain, seq, one.start, one.end)


def whole_place(seq_range: SeqRange, seq: int) -> FetchPlace:
    return FetchPlace(seq_range.chain, seq, size_bytes=seq_range.places.sizes.get(seq, 0))


def parts_of_place(place: FetchPlace) -> list[FetchPlace]:
    """Requests for it: the place, or ranges of a large segment; of one for which there is no room
    beside others, the place: requests are bounded whatever a plan says of sizes.

    The last range asks for a byte more than the segment should have, so that a longer one is
    noticed by its reader.
    """
    if not place.is_whole or not 2 * PART_BYTES < place.size_bytes <= AHEAD_BYTES_MAX:
        return [place]
    starts = range(0, place.size_bytes, PART_BYTES)
    return [
        FetchPlace(place.chain, place.seq, start, min(start + PART_BYTES, place.size_bytes + 1))
        for start in starts
    ]


class TaskSegments:
    """The bodies at `places`, which come in the order of reading; some may be passed over.

    Used by one thread. Nothing is fetched before the first is asked for.
    """

    def __init__(
        self,
        store: BlockingObjectStore,
        places: Iterable[FetchPlace],
        *,
        clock: Clock | None = None,
        threads: Executor | None = None,
        sleep_s: Callable[[float], None] = blocking_sleep_s,
    ) -> None:
        self._store = store
        self._places = enumerate(places)
        self._clock = clock or SystemClock()
        self._sleep_s = sleep_s
        self._threads = threads or ThreadPoolExecutor(
            REQUESTS_MAX, thread_name_prefix="logstore-fetch"
        )
        self._ahead = ReadAhead(AHEAD_BYTES_MAX)
        self._begun: deque[_BegunFetch] = deque()
        self._on_their_way: list[_BegunFetch] = []
        self._next: tuple[int, FetchPlace] | None = next(self._places, None)
        self._largest_bytes = 0
        self._is_far = False
        self._has_landed = False

    def __enter__(self) -> "TaskSegments":
        now_s = self._clock.monotonic_s()
        self._ahead.take(_READER, 0, now_s)
        self._ahead.take(_READER, AHEAD_BYTES_MAX, now_s)  # as fast as it gets them
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._threads.shutdown(cancel_futures=True)

    def get(self, place: FetchPlace) -> bytes:
        """Its bytes, fewer where the object ends; what comes before it in the order is given up.

        `place` must come later in the order than the one before. Raises `SegmentGone`, or as the
        store does after several attempts.
        """
        self._pass_over(place)
        self._note_arrived()
        self._begin_more()
        if not self._begun:  # those passed over, still on their way, leave no room
            return self._fetch(place).data
        began_s = self._clock.monotonic_s()
        self._widen_if_far()
        first = self._begun.popleft()
        try:
            data = first.data()
        finally:
            self._note_arrived()
            self._ahead.remove(_READER, first.number)
        now_s = self._clock.monotonic_s()
        self._ahead.take(_READER, len(data), now_s, now_s - began_s)
        self._begin_more()
        return data

    def _pass_over(self, place: FetchPlace) -> None:
        while self._begun and self._begun[0].place != place:
            self._ahead.remove(_READER, self._begun.popleft().number)
        while not self._begun and self._next is not None and self._next[1] != place:
            self._next = next(self._places, None)
        assert self._begun or self._next is not None, f"a place outside the order: {place}"

    def _widen_if_far(self) -> None:
        if self._is_far or self._has_landed:
            return
        # The first part alone: of a directory it would be here by now.
        if not wait(self._begun[0].parts[:1], FAR_S).done:
            self._is_far = True
            self._begin_more()

    def _begin_more(self) -> None:
        while self._next is not None and self._may_begin(*self._next):
            number, place = self._next
            self._next = next(self._places, None)
            self._ahead.add(_READER, number, self._size_of(place))
            parts = [self._threads.submit(self._fetch, part) for part in parts_of_place(place)]
            begun = _BegunFetch(number, place, parts)
            self._begun.append(begun)
            self._on_their_way.append(begun)

    def _size_of(self, place: FetchPlace) -> int:
        return place.byte_count or self._largest_bytes

    def _may_begin(self, number: int, place: FetchPlace) -> bool:
        if sum(len(begun.parts) for begun in self._on_their_way) >= REQUESTS_MAX:
            return False
        size_bytes = self._size_of(place)
        if self._has_landed:
            now_s = self._clock.monotonic_s()
            return self._ahead.may_add(_READER, number, size_bytes, now_s)
        if self._begun and self._ahead.byte_count + size_bytes > AHEAD_BYTES_MAX:
            return False
        return (self._is_far and size_bytes > 0) or len(self._begun) < FIRST_REQUESTS

    def _note_arrived(self) -> None:
        still: list[_BegunFetch] = []
        for begun in self._on_their_way:
            if not begun.is_done():
                still.append(begun)
            elif any(part.exception() is not None for part in begun.parts):
                self._ahead.gone(begun.number)
            else:
                found = [part.result() for part in begun.parts]
                byte_count = sum(len(part.data) for part in found)
                self._ahead.landed(begun.number, byte_count, max(part.took_s for part in found))
                self._largest_bytes = max(self._largest_bytes, byte_count)
                self._has_landed = True
        self._on_their_way = still

    def _fetch(self, place: FetchPlace) -> _FetchedBytes:
        began_s = self._clock.monotonic_s()
        key, length = segment_key(place.chain, place.seq), place.end - place.start
        get = partial(self._store.get, key)
        if not place.is_whole:
            get = partial(self._store.get_range, key, place.start, length)
        try:
            data = retry(get, _GETS, random.Random(), sleep_s=self._sleep_s)
        except NotFound as error:
            raise SegmentGone(place.chain, place.seq) from error
        return _FetchedBytes(data, self._clock.monotonic_s() - began_s)
