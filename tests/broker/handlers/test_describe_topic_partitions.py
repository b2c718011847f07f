"""DescribeTopicPartitions: topics in order, a page at a time, each partition once."""

from collections.abc import Iterator

import pytest

from broker.network.authorizer import AllowAll, Operation, Resource
from logstore.wire.errors import ErrorCode
from logstore.wire.framing.client import Connection
from logstore.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from tests.broker.network.test_authorizer import Denying
from tests.broker.running import Running, running_broker

DESCRIBE_TOPIC_PARTITIONS = 75
EVERYTHING = [("a", n) for n in range(3)] + [("b", 0)] + [("c", n) for n in range(4)]


@pytest.fixture(scope="module")
def filled() -> Iterator[Running]:
    with running_broker() as running:
        for name, count in (("c", 4), ("a", 3), ("b", 1)):
            running.create_topic(name, count)
        yield running


@pytest.fixture
def pages(filled: Running) -> Iterator[Connection]:
    with filled.connect() as client:
        yield client
    filled.authorizer.rule = AllowAll()


def describe(
    client: Connection, *names: str, limit: int = 2000, cursor: Cursor | None = None
) -> DescribeTopicPartitionsResponse:
    request = DescribeTopicPartitionsRequest([TopicRequest(one) for one in names], limit, cursor)
    response: DescribeTopicPartitionsResponse = client.call(DESCRIBE_TOPIC_PARTITIONS, request, 0)
    return response


def shown(response: DescribeTopicPartitionsResponse) -> list[tuple[str | None, int]]:
    return [(t.name, p.partition_index) for t in response.topics for p in t.partitions]


def test_topics_come_in_order_with_their_partitions(filled: Running, pages: Connection) -> None:
    response = describe(pages, "c", "a")
    first, second = response.topics

    assert shown(response) == [one for one in EVERYTHING if one[0] != "b"]
    assert response.next_cursor is None
    assert first.topic_id == filled.log.topics["a"].topic_id
    assert first.topic_authorized_operations > 0
    partition = second.partitions[3]
    assert (partition.leader_id, partition.leader_epoch) == (1, 0)
    assert (partition.replica_nodes, partition.isr_nodes, partition.offline_replicas) == (
        [1],
        [1],
        [],
    )
    assert (partition.eligible_leader_replicas, partition.last_known_elr) == ([], [])


def test_no_names_ask_for_all(pages: Connection) -> None:
    assert shown(describe(pages)) == EVERYTHING


@pytest.mark.parametrize("limit", range(1, 10))
def test_pages_together_show_every_partition_once(pages: Connection, limit: int) -> None:
    found = []
    cursor = None
    for _ in range(len(EVERYTHING) + 1):
        response = describe(pages, limit=limit, cursor=cursor)
        page = shown(response)
        found += page
        if response.next_cursor is None:
            break
        assert len(page) == limit
        cursor = Cursor(response.next_cursor.topic_name, response.next_cursor.partition_index)

    assert found == EVERYTHING


def test_a_cursor_at_a_topic_that_is_gone_goes_on_with_the_next(pages: Connection) -> None:
    assert shown(describe(pages, cursor=Cursor("aa", 2))) == EVERYTHING[3:]
    assert shown(describe(pages, cursor=Cursor("zz", 0))) == []


def test_what_is_not_there_is_reported(pages: Connection) -> None:
    (gone,) = describe(pages, "nowhere").topics

    assert (gone.error_code, gone.name) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "nowhere")
    assert describe(pages, "a", limit=0).topics[0].error_code == ErrorCode.INVALID_REQUEST
    bad = describe(pages, "a", cursor=Cursor("a", -1))
    assert bad.topics[0].error_code == ErrorCode.INVALID_REQUEST


def test_topics_that_may_not_be_seen_are_left_out_or_denied(
    filled: Running, pages: Connection
) -> None:
    def is_denied(operation: Operation, resource: Resource) -> bool:
        return operation == Operation.DESCRIBE and resource.name == "b"

    filled.authorizer.rule = Denying(is_denied)

    assert shown(describe(pages)) == [one for one in EVERYTHING if one[0] != "b"]
    (denied,) = describe(pages, "b").topics
    assert (denied.error_code, denied.partitions) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, [])
