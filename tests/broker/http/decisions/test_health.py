"""Who is healthy, who is ready, and what is said of those who are not."""

from collections.abc import Callable, Collection, Hashable, Iterator
from dataclasses import replace

import pytest

from broker.http import app, observed
from broker.http.decisions.health import (
    SLICE_PARTITIONS,
    UNLED_MAX_S,
    Patience,
    ServingStatus,
    State,
    why_not_healthy,
    why_not_ready,
)
from broker.http.observed import serving_status
from logstore.errors import DISK_IS_FULL, FREE_SPACE
from logstore.slices import Slices, finish
from tests.broker.http.pages import Pages, ask, pages_of
from tests.broker.running import Running, running_broker

WELL = ServingStatus(state=State.SERVING, named=3, led=3, has_read_lease=True, put_age_s=0.1)


@pytest.fixture
def pages() -> Iterator[Pages]:
    with running_broker() as running, pages_of(running) as pages:
        yield pages


@pytest.mark.parametrize("state", State)
def test_only_the_fenced_are_not_healthy(state: State) -> None:
    assert bool(why_not_healthy(state)) == (state is State.FENCED)


def test_who_does_all_of_it_is_ready() -> None:
    assert not why_not_ready(WELL)
    assert not why_not_ready(replace(WELL, led=0, named=0))


@pytest.mark.parametrize("state", [one for one in State if one is not State.SERVING])
def test_who_does_not_serve_is_not_ready(state: State) -> None:
    (reason,) = why_not_ready(replace(WELL, state=state))
    assert state.value in reason


def test_every_reason_is_reported() -> None:
    ill = replace(WELL, led=2, unled=1, has_read_lease=False, put_age_s=7.0)
    reported = "\n".join(why_not_ready(ill))
    assert "led=2 named=3" in reported
    assert "lease" in reported
    assert "oldest put=7.0 s" in reported


def test_a_full_disk_is_the_one_reason_for_all_that_waits_for_it() -> None:
    full = replace(WELL, has_no_room=True, has_read_lease=False, put_age_s=7.0)
    assert why_not_ready(full) == [f"{DISK_IS_FULL}: {FREE_SPACE}"]


def patiently() -> Callable[[Collection[Hashable], float], int]:
    patience = Patience()
    return lambda unled, now_s: finish(patience.overdue(unled, now_s))


def test_a_partition_on_its_way_does_not_make_a_broker_unready() -> None:
    """Topics that are made one after the other are as many partitions on their way."""
    overdue = patiently()
    assert overdue([], 0.0) == 0
    for now_s in range(0, 100, 5):
        assert overdue([("t", now_s), ("t", now_s - 5)], float(now_s)) == 0
    assert overdue([("t", 95)], 95.0 + UNLED_MAX_S) == 0
    assert overdue([("t", 95), ("t", 0)], 95.5 + UNLED_MAX_S) == 1
    assert overdue([], 200.0) == 0
    assert overdue([("t", 95)], 300.0) == 0


def test_a_broker_that_has_not_led_all_yet_is_not_ready_from_the_first_on() -> None:
    overdue = patiently()
    assert overdue(["a", "b"], 0.0) == 2
    assert overdue(["b"], 1.0) == 1
    assert overdue([], 2.0) == 0
    assert overdue(["b"], 3.0) == 0


def test_many_partitions_that_are_not_led_yet_are_looked_at_in_slices() -> None:
    unled = range(3 * SLICE_PARTITIONS)

    assert sum(1 for _ in Patience().overdue(unled, 0.0)) == 3


def test_a_broker_that_serves_says_so(pages: Pages) -> None:
    pages.running.create_topic("t", 3)
    assert ask(pages.port, "/healthz")[::2] == (200, "healthy\n")
    assert ask(pages.port, "/readyz")[::2] == (200, "ready\n")


def test_a_process_without_an_epoch_yet_is_healthy_and_not_ready(running: Running) -> None:
    pages = Pages(running, {})
    try:
        assert ask(pages.port, "/healthz").status == 200
        assert ask(pages.port, "/readyz")[::2] == (503, "not accepting: starting\n")
        assert 'logstore_broker_state{state="starting"} 1.0' in ask(pages.port, "/metrics").body
    finally:
        running.do(pages.door.close)


def test_a_broker_that_was_asked_to_stop_is_healthy_and_not_ready(pages: Pages) -> None:
    pages.running.do(pages.stop.set)
    assert ask(pages.port, "/healthz").status == 200
    assert ask(pages.port, "/readyz")[::2] == (503, "not accepting: stopping\n")


def test_a_partition_that_its_row_names_and_no_broker_serves_is_reported(pages: Pages) -> None:
    topic = pages.running.create_topic("t", 2)
    pages.running.do(lambda: topic.leaders.pop(1))
    status, _, body = ask(pages.port, "/readyz")
    assert (status, body) == (503, "partitions are not led yet: led=1 named=2\n")


def test_partitions_are_looked_at_in_slices(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observed, "AT_ONCE", 2)
    topic = pages.running.create_topic("t", 6)
    pages.running.do(lambda: topic.leaders.pop(5))

    def slices() -> tuple[int, ServingStatus]:
        making = serving_status(pages.observed)
        count = 0
        while True:
            try:
                next(making)
            except StopIteration as end:
                return count, end.value
            count += 1

    count, status = pages.running.do(slices)
    assert count == 3
    assert (status.named, status.led, status.unled) == (6, 5, 1)


def test_a_topic_that_is_deleted_between_two_slices_does_not_make_a_broker_unready(
    pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observed, "AT_ONCE", 2)
    topic = pages.running.create_topic("t", 6)
    pages.running.do(lambda: topic.leaders.pop(5))
    making = serving_status(pages.observed)
    pages.running.do(lambda: next(making))
    pages.running.wait_for(pages.running.log.delete_topic("t"))
    pages.running.wait_until(lambda: topic.is_deleted)

    status = pages.running.do(lambda: finish(making))
    assert (status.named, status.led, status.unled) == (2, 2, 0)


def test_a_fault_ends_one_look_at_readiness(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> Slices[ServingStatus]:
        yield
        raise ValueError("planted")

    with monkeypatch.context() as patched:
        patched.setattr(app, "serving_status", broken)
        assert ask(pages.port, "/readyz")[::2] == (500, "fault in the broker\n")
    assert ask(pages.port, "/readyz").status == 200


def test_a_fenced_broker_is_neither(pages: Pages) -> None:
    pages.running.do(pages.running.log.writer.stop)
    assert ask(pages.port, "/healthz").status == 503
    assert ask(pages.port, "/readyz")[::2] == (503, "not accepting: fenced\n")
