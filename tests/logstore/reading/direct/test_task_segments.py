"""Segments of a task: in order, each once, as many ahead as the store needs and memory allows."""

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any

import pytest

from logstore.errors import Denied, LogstoreError, NotFound
from logstore.formats.keys import segment_key
from logstore.objects.memory import MemoryObjects
from logstore.ports.clock import SystemClock
from logstore.reading.direct.task_segments import (
    AHEAD_BYTES_MAX,
    FIRST_REQUESTS,
    PART_BYTES,
    REQUESTS_MAX,
    FetchPlace,
    TaskSegments,
    parts_of_place,
    places_of,
    whole_place,
)
from logstore.reading.planning.batch_places import BatchPlaces
from logstore.reading.planning.segment_gone import SegmentGone
from logstore.reading.planning.tasks import SeqRange

KiB, MiB = 1024, 1024 * 1024
GET_S, WAIT_S = 0.05, 30.0


class Put(SystemClock):
    """It is when it was put to."""

    now_s = 0.0

    def monotonic_s(self) -> float:
        return self.now_s


class Rounds(Executor):
    """Carries out all calls that wait when the result of one is asked for, side by side."""

    def __init__(self, clock: Put) -> None:
        self.clock = clock
        self.call_count = 0
        self.rounds: list[int] = []
        self._waiting: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future = Asked(self)
        self.call_count += 1
        self._waiting.append((future, partial(fn, *args, **kwargs)))
        return future

    def carry_out(self) -> None:
        waiting, self._waiting = self._waiting, []
        self.rounds.append(len(waiting))
        began_s = self.clock.now_s
        for future, call in waiting:
            self.clock.now_s = began_s
            try:
                future.set_result(call())
            except LogstoreError as error:
                future.set_exception(error)


class Asked(Future[Any]):
    def __init__(self, rounds: Rounds) -> None:
        super().__init__()
        self._rounds = rounds

    def result(self, timeout: float | None = None) -> Any:
        if not self.done():
            self._rounds.carry_out()
        return super().result(timeout)


class Chain(MemoryObjects):
    """Segments 1 to `count` of chain 1, and which of them were requested."""

    def __init__(self, count: int, size_bytes: int, failing: dict[int, LogstoreError]) -> None:
        super().__init__(SystemClock())
        self.clock = Put()
        self.threads = Rounds(self.clock)
        self.requested: list[int] = []
        self._data = bytes(size_bytes)
        self._keys = {segment_key(1, seq): seq for seq in range(1, count + 1)}
        self._failing = failing

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self.get(key)[start : start + length]

    def get(self, key: str) -> bytes:
        seq = self._keys[key]
        self.clock.now_s += GET_S
        self.requested.append(seq)
        if seq in self._failing:
            raise self._failing[seq]
        return self._data


def task(chain: Chain, *runs: tuple[int, int]) -> TaskSegments:
    places = places_of([SeqRange(1, first, last, ()) for first, last in runs])
    return TaskSegments(chain, places, clock=chain.clock, threads=chain.threads)


@pytest.mark.parametrize("size_bytes", [KiB, 2 * MiB, 80 * MiB])
def test_segments_are_fetched_once_in_the_order_of_reading(size_bytes: int) -> None:
    chain = Chain(60, size_bytes, {})

    with task(chain, (3, 20), (22, 22), (40, 60)) as segments:
        read = [*range(3, 21), 22, *range(40, 61)]
        sizes = [len(segments.get(FetchPlace(1, seq))) for seq in read]

    assert sizes == [size_bytes] * len(read)
    assert chain.requested == read


def test_a_task_begins_with_a_few_requests_and_goes_on_with_many() -> None:
    chain = Chain(100, 100 * KiB, {})

    with task(chain, (1, 100)) as segments:
        assert chain.threads.call_count == 0
        for seq in range(1, 101):
            segments.get(FetchPlace(1, seq))

    rounds = chain.threads.rounds
    assert rounds[:3] == [FIRST_REQUESTS, REQUESTS_MAX, REQUESTS_MAX]
    assert sum(rounds) == 100


@pytest.mark.parametrize("size_bytes", [3 * MiB, 20 * MiB])
def test_what_is_ahead_is_bounded_by_bytes(size_bytes: int) -> None:
    chain, ahead = Chain(100, size_bytes, {}), []

    with task(chain, (1, 100)) as segments:
        for seq in range(1, 60):
            segments.get(FetchPlace(1, seq))
            ahead.append(chain.threads.call_count - seq)

    assert set(ahead) == {AHEAD_BYTES_MAX // size_bytes}


def test_a_task_that_takes_little_has_little_ahead() -> None:
    chain = Chain(100, MiB, {})

    with task(chain, (1, 100)) as segments:
        for seq in range(1, 60):
            segments.get(FetchPlace(1, seq))
            chain.clock.now_s += 1.0

    assert chain.threads.call_count < 59 + 8


def test_requests_are_on_their_way_together() -> None:
    all_there = threading.Barrier(FIRST_REQUESTS)

    class Waiting(Chain):
        def get(self, key: str) -> bytes:
            all_there.wait(WAIT_S)
            return super().get(key)

    segments = TaskSegments(
        Waiting(FIRST_REQUESTS, KiB, {}), places_of([SeqRange(1, 1, FIRST_REQUESTS, ())])
    )
    with segments:
        for seq in range(1, FIRST_REQUESTS + 1):
            assert len(segments.get(FetchPlace(1, seq))) == KiB


class Far(MemoryObjects):
    """Answers none before so many requests are on their way."""

    def __init__(self, together: int, size_bytes: int) -> None:
        super().__init__(SystemClock())
        self._together = threading.Semaphore(together - 1)
        self._all_there = threading.Event()
        self._size_bytes = size_bytes

    def get(self, key: str) -> bytes:
        if not self._together.acquire(blocking=False):
            self._all_there.set()
        assert self._all_there.wait(WAIT_S)
        return key.encode().ljust(self._size_bytes, b".")

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self.get(key)[start : start + length]


def sized(count: int, size_bytes: int) -> SeqRange:
    sizes = dict.fromkeys(range(1, count + 1), size_bytes)
    return SeqRange(1, 1, count, (), BatchPlaces(sizes=sizes))


@pytest.mark.parametrize(
    ("size_bytes", "together"),
    [
        (KiB, REQUESTS_MAX),
        (4 * MiB, AHEAD_BYTES_MAX // (4 * MiB)),
        pytest.param(16 * MiB, REQUESTS_MAX, marks=pytest.mark.slow),
    ],
    ids=["small", "by their bytes", "in parts"],
)
def test_of_a_store_that_is_far_all_that_there_is_room_for_is_requested_at_once(
    size_bytes: int, together: int
) -> None:
    """Where sizes are known. One request fewer, and the first would never be answered."""
    wanted = sized(64, size_bytes)
    segments = TaskSegments(Far(together, size_bytes), places_of([wanted]))
    with segments:
        for seq in range(1, 65):
            data = segments.get(whole_place(wanted, seq))
            assert len(data) == size_bytes
            assert data.startswith(segment_key(1, seq).encode())


def test_a_far_store_is_asked_for_no_more_than_there_is_room_for() -> None:
    chain = Chain(100, 20 * MiB, {})
    wanted = sized(100, 20 * MiB)

    with TaskSegments(
        chain, places_of([wanted]), clock=chain.clock, threads=chain.threads
    ) as segments:
        segments.get(whole_place(wanted, 1))
    assert chain.threads.rounds[0] <= AHEAD_BYTES_MAX // PART_BYTES


@pytest.mark.parametrize("extra_bytes", [-1, 0, 1])
def test_the_parts_of_a_large_segment_are_all_of_it_and_show_that_it_is_longer(
    extra_bytes: int,
) -> None:
    size_bytes = 5 * PART_BYTES + 1
    wanted = sized(1, size_bytes)
    there = bytes(range(256)) * (size_bytes // 256 + 1)
    store = MemoryObjects(SystemClock())
    store.create(segment_key(1, 1), [there[: size_bytes + extra_bytes]])

    with TaskSegments(store, places_of([wanted])) as segments:
        assert segments.get(whole_place(wanted, 1)) == there[: size_bytes + extra_bytes]


def test_a_segment_that_is_not_large_comes_in_one_request() -> None:
    assert len(parts_of_place(FetchPlace(1, 1, size_bytes=2 * PART_BYTES))) == 1
    assert len(parts_of_place(FetchPlace(1, 1, size_bytes=2 * PART_BYTES + 1))) == 3
    assert len(parts_of_place(FetchPlace(1, 1, 0, 9 * PART_BYTES))) == 1
    assert len(parts_of_place(FetchPlace(1, 1, size_bytes=1 << 60))) == 1


def test_segments_that_are_passed_over_are_given_up() -> None:
    chain = Chain(200, KiB, {})

    with task(chain, (1, 200)) as segments:
        segments.get(FetchPlace(1, 1))
        segments.get(FetchPlace(1, 150))
        for seq in range(151, 201):
            segments.get(FetchPlace(1, seq))

    ahead = [seq for seq in chain.requested if seq < 150]
    assert len(ahead) <= FIRST_REQUESTS + REQUESTS_MAX
    assert [seq for seq in chain.requested if seq >= 150] == list(range(150, 201))


def test_a_segment_that_is_gone_or_denied_is_said_when_it_is_its_turn() -> None:
    chain = Chain(20, KiB, {3: NotFound("no object"), 5: Denied("no")})

    with task(chain, (1, 20)) as segments:
        assert segments.get(FetchPlace(1, 1)) == segments.get(FetchPlace(1, 2)) == bytes(KiB)
        with pytest.raises(SegmentGone, match="chain=1 seq=3"):
            segments.get(FetchPlace(1, 3))
        assert segments.get(FetchPlace(1, 4)) == bytes(KiB)
        with pytest.raises(Denied):
            segments.get(FetchPlace(1, 5))
        assert [len(segments.get(FetchPlace(1, seq))) for seq in range(6, 21)] == [KiB] * 15
    assert len(chain.requested) == 20


def test_a_segment_that_is_gone_is_said_so_while_those_passed_over_are_on_their_way() -> None:
    """They take every request there is, so that it is fetched by itself, with nothing ahead."""
    chain = Chain(200, KiB, {150: NotFound("no object")})

    with task(chain, (1, 200)) as segments:
        segments.get(FetchPlace(1, 1))
        with pytest.raises(SegmentGone, match="chain=1 seq=150"):
            segments.get(FetchPlace(1, 150))
        assert [len(segments.get(FetchPlace(1, seq))) for seq in range(151, 201)] == [KiB] * 50
    assert [seq for seq in chain.requested if seq >= 150] == list(range(150, 201))


def test_a_place_outside_the_order_is_a_mistake_of_the_caller() -> None:
    with task(Chain(3, KiB, {}), (1, 3)) as segments:
        segments.get(FetchPlace(1, 2))
        with pytest.raises(AssertionError, match="outside the order"):
            segments.get(FetchPlace(1, 1))
