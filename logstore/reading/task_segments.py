"""Segments of a task, or parts of them, fetched ahead in the order in which the task reads them.

    places   0   1   2   3   4   5   6   7   8 …
             read    │   arrived │ on their way │ not begun

How many bytes may be ahead, on their way or unread: `reading.read_ahead`. A task reads all that it
was given, so it begins at full pace. The size of a whole segment is not known before it arrives;
the largest one so far stands for those on their way.
"""

import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import NamedTuple

from logstore.errors import NotFound
from logstore.formats.keys import segment_key
from logstore.ports.clock import Clock, SystemClock, blocking_sleep_s
from logstore.ports.objects import BlockingObjectStore
from logstore.reading.batch_places import joined
from logstore.reading.read_ahead import ReadAhead
from logstore.reading.segment_gone import SegmentGone
from logstore.reading.tasks import SeqRange
from logstore.retry import RetryDelays, retry

MiB = 1024 * 1024
AHEAD_BYTES_MAX = 64 * MiB
"""Of one task: what a store with 90 ms to a whole segment needs for 700 MB/s."""

REQUESTS_MAX = 32
"""Threads of one task: segments of 100 KB are bound by it, not by bytes."""

FIRST_REQUESTS = 4
"""Before the time of a request and the size of a segment are known."""

GET_ATTEMPTS_MAX = 8
_GETS = RetryDelays(attempts_max=GET_ATTEMPTS_MAX)  # some six seconds
_READER = "task"


class FetchPlace(NamedTuple):
    """Bytes [start, end) of a segment; `end` 0: the whole segment."""

    chain: int
    seq: int
    start: int = 0
    end: int = 0

    @property
    def is_whole(self) -> bool:
        return not self.end


class _FetchedBytes(NamedTuple):
    data: bytes
    took_s: float


class _BegunFetch(NamedTuple):
    """One place ahead; `number` is its own in the order."""

    number: int
    place: FetchPlace
    fetched: "Future[_FetchedBytes]"


def places_of(seq_ranges: Iterable[SeqRange]) -> Iterator[FetchPlace]:
    """The places to fetch for them, in order."""
    for seq_range in seq_ranges:
        for seq in range(seq_range.first_seq, seq_range.last_seq + 1):
            if not seq_range.places.has(seq):
                yield FetchPlace(seq_range.chain, seq)
                continue
            for one in joined(seq_range.places.of(seq)):
                yield FetchPlace(seq_range.chain, seq, one.start, one.end)


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
        first = self._begun.popleft()
        began_s = self._clock.monotonic_s()
        try:
            data = first.fetched.result().data
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

    def _begin_more(self) -> None:
        while self._next is not None and self._may_begin(*self._next):
            number, place = self._next
            self._next = next(self._places, None)
            self._ahead.add(_READER, number, self._size_of(place))
            fetched = self._threads.submit(self._fetch, place)
            begun = _BegunFetch(number, place, fetched)
            self._begun.append(begun)
            self._on_their_way.append(begun)

    def _size_of(self, place: FetchPlace) -> int:
        return self._largest_bytes if place.is_whole else place.end - place.start

    def _may_begin(self, number: int, place: FetchPlace) -> bool:
        if len(self._on_their_way) >= REQUESTS_MAX:
            return False
        if not self._largest_bytes:
            return len(self._begun) < FIRST_REQUESTS
        now_s = self._clock.monotonic_s()
        return self._ahead.may_add(_READER, number, self._size_of(place), now_s)

    def _note_arrived(self) -> None:
        still: list[_BegunFetch] = []
        for begun in self._on_their_way:
            if not begun.fetched.done():
                still.append(begun)
            elif begun.fetched.exception() is not None:
                self._ahead.gone(begun.number)
            else:
                data, took_s = begun.fetched.result()
                self._ahead.landed(begun.number, len(data), took_s)
                self._largest_bytes = max(self._largest_bytes, len(data))
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
