"""Groups in a cluster: all brokers agree who coordinates which, and state goes where leaders go."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from broker.groups.decisions.group import Phase
from logstore.wire.errors import ErrorCode
from tests.broker.group_calls import (
    SETTINGS,
    commit,
    fetch_offset,
    find_coordinator,
    heartbeat,
    join,
    member_of,
    prepare_cluster,
)
from tests.broker.running import DEADLINE_S, Running
from tests.broker.running_cluster import running_cluster

GROUPS = [f"group-{number}" for number in range(20)]


@pytest.fixture
def brokers() -> Iterator[dict[int, Running]]:
    with running_cluster(2, SETTINGS) as brokers:
        prepare_cluster(brokers)
        yield brokers


def coordinators(running: Running) -> dict[str, int]:
    """Node by group, as `running` says."""
    with running.connect() as client:
        return {group: find_coordinator(client, group).node_id for group in GROUPS}


def test_all_brokers_agree_and_share_the_groups(brokers: dict[int, Running]) -> None:
    reported = [coordinators(running) for running in brokers.values()]

    assert reported[0] == reported[1]
    assert set(reported[0].values()) == {1, 2}


def test_only_the_coordinator_answers(brokers: dict[int, Running]) -> None:
    for group, node in list(coordinators(brokers[1]).items())[:6]:
        with brokers[node].connect() as client:
            assert join(client, group).error_code == 0
        with brokers[3 - node].connect() as client:
            assert join(client, group).error_code == ErrorCode.NOT_COORDINATOR
            assert heartbeat(client, group, "m") == ErrorCode.NOT_COORDINATOR
            assert commit(client, group, 1) == ErrorCode.NOT_COORDINATOR


@pytest.mark.slow
def test_a_group_goes_where_the_leader_of_its_partition_goes(brokers: dict[int, Running]) -> None:
    brokers[1].create_topic("t")
    group = next(g for g, node in coordinators(brokers[1]).items() if node == 2)
    brokers[2].wait_until(lambda: "t" in brokers[2].log.topics)
    with (
        brokers[2].connect() as client,
        brokers[2].connect() as other,
        ThreadPoolExecutor() as pool,
    ):
        member_id = member_of(client, group)
        assert commit(client, group, 42, member_id=member_id, generation=1) == 0
        waiting = pool.submit(join, other, group)
        brokers[2].wait_until(lambda: _is_rebalancing(brokers[2], group))
        brokers[2].wait_for(brokers[2].log.drain(DEADLINE_S, lambda: lambda topic, partition: 1))
        assert waiting.result().error_code == ErrorCode.NOT_COORDINATOR
        assert heartbeat(client, group, member_id) == ErrorCode.NOT_COORDINATOR

    brokers[1].wait_until(lambda: len(brokers[1].broker.groups.loaded()) == 50)
    with brokers[1].connect() as client:
        assert find_coordinator(client, group).node_id == 1
        assert heartbeat(client, group, member_id) == 0
        assert fetch_offset(client, group) == 42
        assert commit(client, group, 43, member_id=member_id, generation=1) == 0
        assert join(client, group, member_id).generation_id == 2


def _is_rebalancing(running: Running, group: str) -> bool:
    coordinator = running.broker.groups.find(group)
    assert not isinstance(coordinator, ErrorCode)
    found = coordinator.states.get(group)
    return found is not None and found.phase is Phase.PREPARING
