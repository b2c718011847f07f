"""A coordinator whose chain was sealed and that has not noticed promises and says nothing."""

from collections.abc import Callable, Iterator

import pytest

from logstore.protocol.leading.takeover import Successor, take_over
from logstore.wire.errors import ErrorCode
from logstore.wire.framing.client import Connection
from tests.broker.group_calls import (
    SETTINGS,
    commit,
    describe,
    fetch_offset,
    heartbeat,
    join,
    member_of,
    prepare_cluster,
)
from tests.broker.running import Running
from tests.broker.running_cluster import running_cluster
from tests.broker.test_group_cluster import coordinators
from tests.broker.test_zombies import forget_the_lease

Asked = tuple[Running, str, str]
"""The broker, a group that it coordinated, and the group's member."""


@pytest.fixture
def both() -> Iterator[tuple[Asked, Running]]:
    """Broker 1, which was taken over after its group had committed a 7, and broker 2, which has."""
    with running_cluster(2, SETTINGS) as brokers:
        prepare_cluster(brokers)
        one, two = brokers[1], brokers[2]
        one.create_topic("t")
        two.wait_until(lambda: "t" in two.log.topics)
        group = next(g for g, node in coordinators(one).items() if node == 1)
        with one.connect() as client:
            member_id = member_of(client, group)
            assert commit(client, group, 7, member_id=member_id, generation=1) == 0
        work = two.log.runner.run(
            take_over(two.log.cluster_id, one.log.epoch, 2, lambda *_: Successor(2, two.log.epoch))
        )
        taken = two.wait_for(work)
        two.wait_for(two.log.lead_recovered(taken))
        yield (one, group, member_id), two


@pytest.fixture
def zombie(both: tuple[Asked, Running]) -> Asked:
    return both[0]


@pytest.mark.slow
@pytest.mark.parametrize("ask", [heartbeat, lambda c, g, _: describe(c, g).error_code])
def test_what_may_be_out_of_date_is_said_after_a_look_for_a_seal(
    zombie: Asked, ask: Callable[[Connection, str, str], int]
) -> None:
    running, group, member_id = zombie
    with running.connect() as client:
        forget_the_lease(running)
        assert ask(client, group, member_id) == ErrorCode.NOT_COORDINATOR
        assert running.log.fenced.is_set()


@pytest.mark.slow
@pytest.mark.parametrize(
    "ask",
    [
        lambda c, g, m: commit(c, g, 8, member_id=m, generation=1),
        lambda c, g, m: join(c, g, m).error_code,
    ],
    ids=["commit", "join"],
)
def test_nothing_is_promised_that_cannot_be_committed(
    zombie: Asked, ask: Callable[[Connection, str, str], int]
) -> None:
    running, group, member_id = zombie
    with running.connect() as client:
        assert ask(client, group, member_id) == ErrorCode.NOT_COORDINATOR


def test_a_broker_that_was_not_taken_over_goes_on() -> None:
    with running_cluster(1, SETTINGS) as brokers, brokers[1].connect() as client:
        running = brokers[1]
        running.create_topic("t")
        prepare_cluster(brokers)
        member_id = member_of(client, "g")
        forget_the_lease(running)
        assert heartbeat(client, "g", member_id) == 0
        forget_the_lease(running)
        assert fetch_offset(client, "g") == -1


@pytest.mark.slow
def test_the_group_goes_on_at_the_broker_that_took_over(both: tuple[Asked, Running]) -> None:
    (one, group, member_id), two = both
    two.wait_until(lambda: len(two.broker.groups.loaded()) == 50)
    with one.connect() as stale, two.connect() as client:
        late = commit(stale, group, 99, member_id=member_id, generation=1)
        assert late == ErrorCode.NOT_COORDINATOR
        assert heartbeat(client, group, member_id) == 0
        assert fetch_offset(client, group) == 7
        assert commit(client, group, 8, member_id=member_id, generation=1) == 0
        assert join(client, group, member_id).generation_id == 2
