"""A broker whose host has a wrong clock stamps nothing older than it is."""

from collections.abc import Iterator

import pytest

from tests.broker.group_calls import commit, coordinating_broker
from tests.broker.running import NOW_MS, Running, batch_of, produce
from tools.full_wire import Connection

DAY_MS = 86_400_000


@pytest.fixture(scope="module")
def shared() -> Iterator[Running]:
    with coordinating_broker() as running:
        running.create_topic("t", 3)
        yield running


def test_append_time_is_not_behind_with_the_clock_of_the_host(
    running: Running, client: Connection
) -> None:
    """Retention of the other brokers would delete the records early."""
    running.create_topic("stamped-behind", 1, {"message.timestamp.type": "LogAppendTime"})
    running.clock.ahead_ms = -DAY_MS
    one = produce(client, "stamped-behind", batch_of(b"x"))
    running.clock.ahead_ms = DAY_MS
    late = produce(client, "stamped-behind", batch_of(b"x"))

    assert abs(one.log_append_time_ms - NOW_MS) < DAY_MS // 2
    assert late.log_append_time_ms - NOW_MS > DAY_MS // 2


def test_a_commit_is_not_older_than_the_store_says(running: Running, client: Connection) -> None:
    """A coordinator whose clock is right expires it, perhaps: `offsets.retention.minutes`."""
    running.clock.ahead_ms = -DAY_MS
    assert commit(client, "behind", 42) == 0
    running.clock.ahead_ms = 0
    (group,) = running.do(
        lambda: [
            one.states.groups["behind"]
            for one in running.broker.groups.loaded()
            if "behind" in one.states.groups
        ]
    )
    (offset,) = group.offsets.values()

    assert abs(offset.commit_ms - running.clock.now_ms()) < DAY_MS // 2
