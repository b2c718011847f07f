"""Liveness: who counts as alive, by rows that move and an observer's own clock."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from logstore.formats.broker_row import BrokerRow, BrokerStatus
from logstore.protocol.rules.liveness import Liveness

LEASE_S = 3.0
ROW = BrokerRow(epoch=7, heartbeat=1, host="h", port=1, rack="", lock="l")


def look(liveness: Liveness, rows: dict[int, BrokerRow], start_s: float, looks: int) -> float:
    """Look every half second; the time of the last look."""
    for number in range(looks):
        liveness.observe(rows, start_s + number * 0.5)
    return start_s + (looks - 1) * 0.5


def beating(heartbeat: int, **changes: object) -> BrokerRow:
    return replace(ROW, heartbeat=heartbeat, **changes)  # type: ignore[arg-type]


def test_a_broker_seen_for_the_first_time_is_alive_until_it_was_silent_for_a_lease() -> None:
    liveness = Liveness(LEASE_S)

    look(liveness, {1: ROW}, 1000.0, 6)
    assert liveness.alive == {1}
    liveness.observe({1: ROW}, 1003.0)

    assert not liveness.is_alive(1)
    assert liveness.silent_s(1) == 3.0


def test_one_that_missed_a_heartbeat_is_silent_until_it_is_heard_or_dead() -> None:
    liveness, silent = Liveness(LEASE_S), []
    for number, heartbeat in enumerate([1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2]):
        stopped = beating(1, status=BrokerStatus.STOPPED)
        rows = {1: beating(heartbeat), 2: beating(number), 3: stopped}
        liveness.observe(rows, number * 0.5)
        silent.append(liveness.is_one_silent)

    assert silent == [False] * 4 + [True] + [False] * 4 + [True] * 2 + [False]
    assert liveness.alive == {2}


def test_a_heartbeat_brings_a_silent_broker_back() -> None:
    liveness = Liveness(LEASE_S)
    end_s = look(liveness, {1: ROW}, 0, 10)
    assert not liveness.is_alive(1)

    liveness.observe({1: beating(2)}, end_s + 0.5)

    assert liveness.is_alive(1)


@given(offset_s=st.floats(-1e6, 1e6), silent_looks=st.integers(1, 12))
def test_an_observers_clock_that_is_off_changes_nothing(offset_s: float, silent_looks: int) -> None:
    right, off = Liveness(LEASE_S), Liveness(LEASE_S)

    look(right, {1: ROW}, 0.0, silent_looks)
    look(off, {1: ROW}, 4096.0 * round(offset_s), silent_looks)

    assert off.alive == right.alive


def test_no_broker_is_dead_because_the_observer_stood_still() -> None:
    liveness = Liveness(LEASE_S)
    look(liveness, {1: ROW, 2: ROW}, 0, 2)

    liveness.observe({1: ROW, 2: beating(60)}, 60.0)

    assert liveness.alive == {1, 2}
    assert liveness.silent_s(1) == 1.5


def test_a_broker_that_stopped_is_dead_at_once() -> None:
    liveness = Liveness(LEASE_S)
    draining = beating(1, status=BrokerStatus.DRAINING)

    liveness.observe({1: draining, 2: beating(1, status=BrokerStatus.STOPPED)}, 0)

    assert liveness.alive == {1}


def test_a_broker_without_a_row_is_not_alive() -> None:
    liveness = Liveness(LEASE_S)
    liveness.observe({1: ROW}, 0)
    liveness.observe({}, 0.5)

    assert not liveness.is_alive(1)
    assert liveness.silent_s(1) == float("inf")
    assert not liveness.mark_dead(1, 7)


def test_a_broker_marked_dead_is_dead_at_once_and_stays_dead() -> None:
    liveness = Liveness(LEASE_S)
    liveness.observe({1: ROW}, 0)

    assert liveness.mark_dead(1, 7)
    assert not liveness.is_alive(1)
    look(liveness, {1: ROW}, 0.5, 3)

    assert not liveness.is_alive(1)


def test_news_of_an_earlier_life_marks_no_broker() -> None:
    liveness = Liveness(LEASE_S)
    liveness.observe({1: ROW}, 0)

    assert not liveness.mark_dead(1, 6)
    assert liveness.is_alive(1)


def test_a_mark_outlives_the_heartbeat_that_was_under_way_when_the_process_died() -> None:
    liveness = Liveness(LEASE_S)
    liveness.observe({1: ROW}, 0)
    liveness.mark_dead(1, 7)

    liveness.observe({1: beating(2)}, 0.5)
    liveness.observe({1: beating(3)}, 1.0)

    assert not liveness.is_alive(1)


def test_a_mark_is_void_once_the_process_goes_on_beating() -> None:
    liveness = Liveness(LEASE_S)
    liveness.observe({1: ROW}, 0)
    liveness.mark_dead(1, 7)

    for second in range(1, 4):
        liveness.observe({1: beating(1 + second)}, second)

    assert liveness.is_alive(1)


def test_a_mark_is_void_once_the_broker_has_started_again() -> None:
    liveness = Liveness(LEASE_S)
    liveness.observe({1: ROW}, 0)
    liveness.mark_dead(1, 7)

    liveness.observe({1: replace(ROW, epoch=8)}, 0.5)

    assert liveness.is_alive(1)
    assert liveness.mark_dead(1, 8)


@given(
    beats=st.lists(st.integers(1, 5), min_size=1, max_size=40),
    periods=st.lists(st.floats(0.05, 0.95), min_size=40, max_size=40),
)
def test_a_broker_that_beats_within_every_lease_is_never_dead(
    beats: list[int], periods: list[float]
) -> None:
    """`beats`: for how many looks its row stands still each time; five take less than a lease."""
    liveness, now_s = Liveness(LEASE_S), 0.0
    for heartbeat, (silent, period) in enumerate(zip(beats, periods, strict=False)):
        for _ in range(silent):
            liveness.observe({1: beating(heartbeat)}, now_s)
            now_s += period / 2

            assert liveness.is_alive(1)
