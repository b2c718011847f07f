"""Progress as a consumer group: what is committed, and that nothing that fails disturbs a query."""

import logging
from collections.abc import Iterator, Sequence

import pytest

from logstore.errors import Invalid, Retryable
from logstore.wire.errors import ErrorCode
from spark_source.group_commit import PAUSE_S, Address, GroupCommits, addresses_of
from spark_source.planning.offsets import Position, TopicPosition
from tests.broker.group_calls import coordinating_broker, fetch_offsets
from tests.servers.child import free_port
from tests.spark_source.scripted_broker import ScriptedBroker, scripted_broker
from tests.spark_source.stepped_time import SteppedTime

ID = b"i" * 16


def position(**topics: list[int]) -> Position:
    return {name: TopicPosition(ID, dict(enumerate(next_))) for name, next_ in topics.items()}


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with scripted_broker() as broker:
        yield broker


def commits(
    addresses: Sequence[Address], time: SteppedTime | None = None, *, timeout_s: float = 5
) -> GroupCommits:
    return GroupCommits("lag", lambda: addresses, time or SteppedTime(), timeout_s=timeout_s)


def committed(broker: ScriptedBroker) -> list[dict[tuple[str, int], int]]:
    return [
        {
            (topic.name, one.partition_index): one.committed_offset
            for topic in request.topics
            for one in topic.partitions
        }
        for request in broker.commits
    ]


def test_next_offsets_are_committed_as_one_who_is_no_member(broker: ScriptedBroker) -> None:
    commits([broker.address]).tell(position(orders=[5, 7], returns=[0]))

    (request,) = broker.commits
    assert (request.group_id, request.member_id) == ("lag", "")
    assert request.generation_id_or_member_epoch == -1
    assert committed(broker) == [{("orders", 0): 5, ("orders", 1): 7, ("returns", 0): 0}]


def test_a_broker_too_old_for_our_client_is_named_in_the_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with scripted_broker(find_version_max=5) as broker, caplog.at_level(logging.WARNING):
        commits([broker.address]).tell(position(orders=[5]))

    (warning,) = caplog.messages
    assert "no common version of FindCoordinator: broker=0-5 ours=6" in warning


def test_the_same_position_is_committed_once_and_the_coordinator_is_looked_up_once(
    broker: ScriptedBroker,
) -> None:
    group = commits([broker.address])
    for end in (1, 1, 2, 2, 3):
        group.tell(position(orders=[end]))

    assert committed(broker) == [{("orders", 0): end} for end in (1, 2, 3)]
    assert broker.finds == 1


def test_a_broker_that_is_away_is_passed_over(broker: ScriptedBroker) -> None:
    commits([("127.0.0.1", free_port()), broker.address]).tell(position(orders=[1]))

    assert len(broker.commits) == 1


def test_a_failure_is_reported_once_and_tried_again_after_a_while(
    broker: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    time = SteppedTime()
    group = commits([broker.address], time)
    broker.commit_error = ErrorCode.NOT_COORDINATOR
    with caplog.at_level(logging.WARNING):
        for end in range(3):
            group.tell(position(orders=[end]))
        time.pass_s(PAUSE_S)
        group.tell(position(orders=[3]))
        broker.commit_error = ErrorCode.NONE
        time.pass_s(PAUSE_S)
        group.tell(position(orders=[3]))

    assert [found["orders", 0] for found in committed(broker)] == [0, 3, 3]
    assert broker.finds == 3, "who refused is not asked again without looking"
    (reported,) = caplog.messages
    assert "group=lag" in reported
    assert "topic=orders partition=0 error=NOT_COORDINATOR" in reported


@pytest.mark.parametrize("why", ["no brokers", "registry", "no coordinator"])
def test_nothing_that_goes_wrong_is_raised(
    why: str, broker: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    def find() -> Sequence[Address]:
        if why == "registry":
            raise Retryable("registry is away")
        return [] if why == "no brokers" else [broker.address]

    broker.find_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    with caplog.at_level(logging.WARNING):
        GroupCommits("lag", find, SteppedTime()).tell(position(orders=[1]))

    said = {
        "no brokers": "names no broker",
        "registry": "registry is away",
        "no coordinator": "error=COORDINATOR_NOT_AVAILABLE",
    }
    assert said[why] in caplog.text
    assert "the query continues" in caplog.text


def test_a_broker_of_ours_keeps_what_is_committed() -> None:
    with coordinating_broker() as running:
        running.create_topic("orders", 2)
        commits([("127.0.0.1", running.listener.port)]).tell(position(orders=[5, 7]))
        with running.connect() as client:
            found = fetch_offsets(client, "lag")

    assert {place: one.committed_offset for place, one in found.items()} == {
        ("orders", 0): 5,
        ("orders", 1): 7,
    }


def test_bootstrap_servers_are_read_as_kafka_clients_do() -> None:
    assert addresses_of("") == []
    assert addresses_of("a:1, PLAINTEXT://b:2,[::1]:3") == [("a", 1), ("b", 2), ("::1", 3)]
    with pytest.raises(Invalid, match=r"servers is not HOST:PORT,…: a:1,b"):
        addresses_of("a:1,b")
