"""How far readers read ahead: enough to wait no longer, within a bound, shared fairly."""

import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from hypothesis.strategies import booleans, integers

from logstore.reading.planning.read_ahead import PAUSE_S, REQUESTS_MAX, ReadAhead

MB = 1_000_000
GET_S = 0.25


def reading(ahead: ReadAhead, reader: str, bytes_per_s: float, *, takes: int = 50) -> None:
    """A reader that has taken 1 MB after 1 MB at this pace until second 100."""
    for number in range(takes + 1):
        ahead.take(reader, MB, 100.0 - (takes - number) * MB / bytes_per_s)


def add_all(ahead: ReadAhead, reader: str, *, size: int = 8 * MB, first: int = 0) -> int:
    """Adds objects in order as long as it may; their number."""
    number = first
    while ahead.may_add(reader, (reader, number), size, 100.0):
        assert ahead.add(reader, (reader, number), size)
        number += 1
    return number - first


def with_get_times(bytes_max: int) -> ReadAhead:
    ahead = ReadAhead(bytes_max)
    for number in range(50):
        ahead.landed(("earlier", number), 8 * MB, GET_S)
    return ahead


def test_a_reader_has_ahead_twice_what_it_takes_during_a_request() -> None:
    ahead = with_get_times(1_000 * MB)
    reading(ahead, "one", 100 * MB)

    assert ahead.wanted_bytes("one") == pytest.approx(2 * 100 * MB * GET_S, rel=0.05)
    assert add_all(ahead, "one") == 6  # 48 of 50 MB


def test_a_reader_that_waits_is_given_twice_as_much_each_time() -> None:
    """What it takes is what it was given in the time of a request."""
    ahead = with_get_times(1_000 * MB)
    paces = []
    for given in (32, 64, 128):
        reader = f"given {given}"
        reading(ahead, reader, given * MB / GET_S)
        paces.append(ahead.wanted_bytes(reader) / (given * MB))

    assert paces == pytest.approx([2.0, 2.0, 2.0], rel=0.05)


def test_a_slow_reader_has_the_object_that_it_reads_and_the_next() -> None:
    ahead = with_get_times(1_000 * MB)
    reading(ahead, "slow", 0.1 * MB)

    assert add_all(ahead, "slow") == 2


def test_waits_for_the_store_do_not_slow_a_reader_down() -> None:
    ahead = with_get_times(1_000 * MB)
    for number in range(20):
        ahead.take("one", 10 * MB, 0.5 * number, 0.4)

    assert ahead.wanted_bytes("one") == pytest.approx(2 * 100 * MB * GET_S, rel=0.05)


def test_requests_of_small_objects_are_bounded_by_number() -> None:
    ahead = with_get_times(1_000 * MB)
    reading(ahead, "one", 100 * MB)

    assert add_all(ahead, "one", size=1_000) == REQUESTS_MAX
    ahead.landed(("one", 0), 1_000, GET_S)
    assert add_all(ahead, "one", size=1_000, first=100) == 1


def test_slow_requests_count_more_than_fast_ones() -> None:
    ahead = ReadAhead(1_000 * MB)
    for number in range(100):
        ahead.landed(number, MB, 0.1 if number % 2 else 0.5)
    reading(ahead, "one", 100 * MB)

    assert ahead.wanted_bytes("one") > 2 * 100 * MB * 0.5


def test_nothing_is_read_ahead_of_a_reader_that_is_not_known_or_without_room() -> None:
    assert not ReadAhead(100 * MB).may_add("unknown", 0, MB, 0.0)
    ahead = with_get_times(0)
    reading(ahead, "one", 100 * MB)
    assert not ahead.may_add("one", 0, MB, 100.0)


def test_twenty_readers_share_the_bytes() -> None:
    ahead = with_get_times(160 * MB)
    readers = [f"reader {number}" for number in range(20)]
    for reader in readers:
        reading(ahead, reader, 400 * MB)
    counts = [add_all(ahead, reader) for reader in readers]

    assert counts == [1] * 20
    assert ahead.byte_count == 160 * MB


def test_what_others_do_not_want_may_be_used_and_is_given_back() -> None:
    ahead = with_get_times(160 * MB)
    reading(ahead, "slow", 0.1 * MB)
    reading(ahead, "fast", 400 * MB)
    assert add_all(ahead, "fast") == 19  # all but what the slow one wants
    reading(ahead, "late", 400 * MB)
    assert add_all(ahead, "late") == 1  # the last room there is

    for number in range(19):
        ahead.landed(("fast", number), 8 * MB, GET_S)
        ahead.remove("fast", ("fast", number))
        ahead_count = add_all(ahead, "fast", first=100 + number)
        assert ahead_count <= 1
        add_all(ahead, "late", first=100 + 20 * number)
    assert ahead.byte_count <= 160 * MB
    late = sum(1 for number in range(500) if ahead.may_add("late", ("late", number), 0, 100.0))
    assert late >= 53 // 8  # a third of the bytes


def test_an_object_that_several_readers_want_is_fetched_and_counted_once() -> None:
    ahead = with_get_times(100 * MB)
    for reader in "abcd":
        reading(ahead, reader, 400 * MB)
    fetched = [ahead.add(reader, "object", 8 * MB) for reader in "abcd"]

    assert fetched == [True, False, False, False]
    assert ahead.byte_count == 8 * MB
    assert ahead.landed("object", 9 * MB, GET_S)
    for reader in "abc":
        ahead.remove(reader, "object")
        assert ahead.byte_count == 9 * MB
    ahead.forget("d")
    assert ahead.byte_count == 0


def test_what_is_on_its_way_for_a_reader_that_went_counts_until_it_lands() -> None:
    ahead = with_get_times(100 * MB)
    reading(ahead, "one", 100 * MB)
    assert ahead.add("one", "object", 8 * MB)
    ahead.forget("one")

    assert ahead.byte_count == 8 * MB
    assert not ahead.landed("object", 8 * MB, GET_S)
    assert ahead.byte_count == 0


def test_after_a_failure_nothing_is_begun_for_a_while() -> None:
    ahead = with_get_times(100 * MB)
    reading(ahead, "one", 100 * MB)
    assert ahead.add("one", 1, 8 * MB)
    ahead.failed(1, 100.0)

    assert ahead.byte_count == 0
    assert not ahead.may_add("one", 2, 8 * MB, 100.0 + PAUSE_S / 2)
    assert ahead.may_add("one", 2, 8 * MB, 100.0 + PAUSE_S)


def test_an_object_that_is_gone_delays_nothing() -> None:
    ahead = with_get_times(100 * MB)
    reading(ahead, "one", 100 * MB)
    assert ahead.add("one", 1, 8 * MB)
    ahead.gone(1)

    assert ahead.byte_count == 0
    assert ahead.may_add("one", 2, 8 * MB, 100.0)


READERS, PLACES = integers(0, 4), integers(0, 7)


class AnyOrder(RuleBasedStateMachine):
    """Whatever happens in whatever order: bounded, and all bytes are given back."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead = ReadAhead(50)
        self.now_s = 0.0
        self.flying: set[int] = set()

    @rule(reader=READERS, size=integers(1, 100), seconds=integers(0, 3))
    def take(self, reader: int, size: int, seconds: int) -> None:
        self.now_s += seconds
        self.ahead.take(reader, size, self.now_s)

    @rule(reader=READERS, place=PLACES)
    def add(self, reader: int, place: int) -> None:
        if self.ahead.may_add(reader, place, 10, self.now_s):
            is_new = self.ahead.add(reader, place, 10)
            assert not (is_new and place in self.flying)
            if is_new:
                self.flying.add(place)

    @rule(place=PLACES, is_well=booleans())
    def end(self, place: int, is_well: bool) -> None:
        if place in self.flying:
            self.flying.discard(place)
            if is_well:
                self.ahead.landed(place, 10, 1.0)
            else:
                self.ahead.failed(place, self.now_s)

    @rule(reader=READERS, place=PLACES)
    def remove(self, reader: int, place: int) -> None:
        self.ahead.remove(reader, place)

    @rule(reader=READERS)
    def forget(self, reader: int) -> None:
        self.ahead.forget(reader)

    @invariant()
    def bounded(self) -> None:
        assert 10 * len(self.flying) <= self.ahead.byte_count <= 50

    def teardown(self) -> None:
        for place in sorted(self.flying):
            self.ahead.landed(place, 10, 1.0)
        for reader in range(5):
            self.ahead.forget(reader)
        assert self.ahead.byte_count == 0


AnyOrder.TestCase.settings = settings(max_examples=50, stateful_step_count=30)
test_any_order = AnyOrder.TestCase
