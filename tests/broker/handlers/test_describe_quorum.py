"""DescribeQuorum: the controller as the leader, its term, the change feed's version."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from broker.cluster.controller import Controller
from broker.cluster.settings import ControllerSettings
from broker.network.authorizer import Operation
from logstore.config.broker import BrokerSettings
from logstore.wire.errors import ErrorCode
from logstore.wire.framing.client import Connection
from logstore.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    PartitionData,
    TopicData,
)
from tests.broker.network.test_authorizer import deny
from tests.broker.running import NOW_MS, Running
from tests.broker.running_cluster import running_cluster

DESCRIBE_QUORUM = 55
METADATA = "__cluster_metadata"


def describe(
    client: Connection, *asked: tuple[str, list[int]], version: int = 2
) -> DescribeQuorumResponse:
    topics = [
        TopicData(name, [PartitionData(number) for number in numbers])
        for name, numbers in asked or [(METADATA, [0])]
    ]
    response: DescribeQuorumResponse = client.call(
        DESCRIBE_QUORUM, DescribeQuorumRequest(topics), version
    )
    return response


@contextmanager
def controlled(running: Running) -> Iterator[None]:
    """A broker with its controller, which comes to hold the lease or sees its holder."""

    async def begin() -> Controller:
        controller = Controller(running.log, ControllerSettings.of(BrokerSettings({})))
        running.broker.controller = controller
        tasks.append(running.broker.tasks.create_task(controller.run()))
        return controller

    tasks: list[asyncio.Task[None]] = []
    controller = running.wait_for(begin())
    running.wait_until(lambda: controller.holder is not None)
    try:
        yield
    finally:
        running.do(controller.stop)
        running.wait_until(tasks[0].done)
        running.broker.controller = None


@pytest.mark.parametrize("version", range(3))
def test_the_controller_leads_its_quorum(
    running: Running, client: Connection, version: int
) -> None:
    running.create_topic(f"known-{version}")
    with controlled(running):
        answer = describe(client, version=version)
        feed_version = running.do(lambda: running.log.feed_version)
        lease = running.shared.rows.peek("lease", "controller")
    (topic,) = answer.topics
    (partition,) = topic.partitions
    (voter,) = partition.current_voters

    assert (answer.error_code, topic.topic_name) == (0, METADATA)
    assert (partition.partition_index, partition.error_code) == (0, 0)
    assert (partition.leader_id, partition.leader_epoch) == (1, lease["epoch"])
    assert (voter.replica_id, voter.log_end_offset) == (1, feed_version)
    assert partition.high_watermark == feed_version > 0
    assert partition.observers == []
    if version:
        assert voter.last_caught_up_timestamp == voter.last_fetch_timestamp >= NOW_MS
    if version == 2:
        (node,) = answer.nodes
        places = [(one.host, one.port) for one in node.listeners]
        assert (node.node_id, places) == (1, [("127.0.0.1", running.listener.port)])


def test_without_a_controller_the_client_asks_again(client: Connection) -> None:
    (topic,) = describe(client).topics
    (partition,) = topic.partitions

    assert (topic.topic_name, partition.partition_index) == (METADATA, 0)
    assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(
    "asked",
    [[("t", [0])], [(METADATA, [1, 1])], [(METADATA, [0, 1])], [(METADATA, [0]), ("t", [0])]],
    ids=["topic", "partition", "two", "topics"],
)
def test_there_is_no_other_quorum(client: Connection, asked: list[tuple[str, list[int]]]) -> None:
    answer = describe(client, *asked)
    codes = {
        (topic.topic_name, one.partition_index): one.error_code
        for topic in answer.topics
        for one in topic.partitions
    }
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    assert codes == {(name, number): unknown for name, numbers in asked for number in numbers}
    assert sum(len(topic.partitions) for topic in answer.topics) == len(codes)


def test_it_needs_describe_on_the_cluster(running: Running, client: Connection) -> None:
    deny(running, Operation.DESCRIBE)

    assert describe(client).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@pytest.mark.slow
def test_every_broker_names_the_controller_and_knows_how_far_it_is_itself() -> None:
    with (
        running_cluster(3) as brokers,
        controlled(brokers[2]),
        controlled(brokers[1]),
        brokers[1].connect() as client,
    ):
        (partition,) = describe(client).topics[0].partitions
        feed_version = brokers[1].do(lambda: brokers[1].log.feed_version)

    assert partition.leader_id == 2
    assert [one.replica_id for one in partition.current_voters] == [2]
    ends = {one.replica_id: one.log_end_offset for one in partition.observers}
    assert ends == {1: feed_version, 3: -1}
