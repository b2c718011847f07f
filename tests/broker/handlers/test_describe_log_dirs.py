"""DescribeLogDirs: what the records of each replica take, in segments and in the topic's table."""

import pytest

from broker.network.authorizer import Operation
from broker.network.turns import SLICE_S, Turns
from logstore.formats.table_row import TABLE, TableRow
from logstore.history.delta import Tables
from logstore.wire.errors import ErrorCode
from logstore.wire.framing.client import Connection
from logstore.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from logstore.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from tests.broker.network.test_authorizer import deny
from tests.broker.running import Running, Shared, batch_of, produce
from tests.broker.running_cluster import running_cluster
from tests.broker.test_cluster_admin import make
from tests.broker.test_history import MOVED, batch, move

DELETE_RECORDS, DESCRIBE_LOG_DIRS = 21, 35
BATCH = batch_of(b"x" * 100, b"y" * 100)


def describe(
    client: Connection, *asked: tuple[str, list[int]], version: int = 5
) -> DescribeLogDirsResult:
    topics = [DescribableLogDirTopic(*one) for one in asked] if asked else None
    response: DescribeLogDirsResponse = client.call(
        DESCRIBE_LOG_DIRS, DescribeLogDirsRequest(topics), version
    )
    assert response.error_code == 0
    (result,) = response.results
    assert result.error_code == 0
    return result


def sizes(client: Connection, *asked: tuple[str, list[int]]) -> dict[tuple[str, int], int]:
    shown = [
        ((topic.name, one.partition_index), one.partition_size)
        for topic in describe(client, *asked).topics
        for one in topic.partitions
    ]
    assert len(dict(shown)) == len(shown), "answered twice"
    return dict(shown)


def write(client: Connection, name: str, count: int, *, partition: int = 0) -> None:
    for _ in range(count):
        assert produce(client, name, BATCH, partition=partition).error_code == 0


@pytest.mark.parametrize("version", range(1, 6))
def test_there_is_one_directory_and_it_is_the_log(
    running: Running, client: Connection, version: int
) -> None:
    name = f"versions-{version}"
    running.create_topic(name)
    write(client, name, 2)
    result = describe(client, (name, [0]), version=version)
    (topic,) = result.topics
    (partition,) = topic.partitions

    assert (result.log_dir, topic.name) == (running.log.url, name)
    assert partition.partition_size == 2 * len(BATCH)
    assert (partition.partition_index, partition.offset_lag) == (0, 0)
    assert not partition.is_future_key
    if version >= 4:
        assert (result.total_bytes, result.usable_bytes) == (-1, -1)


def test_each_partition_that_is_here_is_shown_once(running: Running, client: Connection) -> None:
    running.create_topic("mine", 2)
    write(client, "mine", 3, partition=1)
    asked = ("mine", [1, 1, 0, 9, -1]), ("nowhere", [0]), ("mine", [1])

    assert sizes(client, *asked) == {("mine", 0): 0, ("mine", 1): 3 * len(BATCH)}
    everything = sizes(client)
    assert everything["mine", 1] == 3 * len(BATCH)
    assert {name for name, _ in everything} == set(running.log.topics)


def test_sizes_follow_what_is_written_and_deleted(running: Running, client: Connection) -> None:
    running.create_topic("changing")
    write(client, "changing", 10)
    assert sizes(client, ("changing", [0])) == {("changing", 0): 10 * len(BATCH)}
    write(client, "changing", 5)
    assert sizes(client, ("changing", [0])) == {("changing", 0): 15 * len(BATCH)}
    wanted = DeleteRecordsTopic("changing", [DeleteRecordsPartition(0, 8)])
    client.call(DELETE_RECORDS, DeleteRecordsRequest([wanted], 20_000), 2)

    assert sizes(client, ("changing", [0])) == {("changing", 0): 11 * len(BATCH)}


def test_it_needs_describe_on_the_cluster(running: Running, client: Connection) -> None:
    deny(running, Operation.DESCRIBE)
    response = client.call(DESCRIBE_LOG_DIRS, DescribeLogDirsRequest(None), 5)

    assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert response.results == []


def test_batches_are_counted_in_slices(running: Running, client: Connection) -> None:
    running.create_topic("long")
    write(client, "long", 40)
    holds, ticks = running.broker.clients.holds, iter(range(1 << 30))
    turns = Turns(running.broker.loop, holds, lambda: next(ticks) * SLICE_S / 4)
    sizes_turns, running.broker.sizes._turns = running.broker.sizes._turns, turns
    try:
        assert sizes(client, ("long", [0])) == {("long", 0): 40 * len(BATCH)}
    finally:
        running.broker.sizes._turns = sizes_turns

    assert turns.taken_count >= 40 // 4 // 2


def test_batches_of_an_earlier_broker_epoch_count_by_its_checkpoint() -> None:
    shared = Shared()
    first = Running({}, 1 << 20, shared=shared)
    first.start()
    with first.connect() as client:
        first.create_topic("kept")
        write(client, "kept", 6)
    first.stop()
    second = Running({}, 1 << 20, shared=shared)
    second.start()
    with second.connect() as client:
        write(client, "kept", 1)
        found = sizes(client)
    second.stop()

    assert found["kept", 0] == 7 * len(BATCH)


def test_records_in_the_table_count_by_its_files() -> None:
    shared = Shared()
    running = Running({}, 1 << 20, shared=shared)
    running.start()
    with running.connect() as client:
        running.create_topic("moved")
        for number in range(20):
            produce(client, "moved", batch(number))
        whole = sizes(client)["moved", 0]
        key = move(running, "moved", client)
        row = TableRow(version=1, ends={0: MOVED}).row()
        registry = running.log.runner.registry
        running.wait_for(registry.put_if(TABLE, key.topic_id.hex(), row))
        found = sizes(client)["moved", 0]
        snapshot = Tables("/memory", store=shared.objects).snapshot(key.topic_id)
        assert snapshot is not None
        files = snapshot.files_for(0, 0, MOVED)
    running.stop()

    assert whole == sum(len(batch(number)) for number in range(20))
    in_segments = sum(len(batch(number)) for number in range(10, 20))
    assert found == in_segments + sum(file.size_bytes for file in files)


@pytest.mark.slow
def test_replicas_are_of_the_same_size_and_others_have_none() -> None:
    with (
        running_cluster(3) as brokers,
        brokers[1].connect() as leader,
        brokers[2].connect() as follower,
        brokers[3].connect() as other,
    ):
        make(brokers, leader, "followed", [1, 2])
        write(leader, "followed", 4)
        topic = brokers[2].log.topics["followed"]
        brokers[2].wait_until(lambda: topic.followers[0].high_watermark == 8)
        found = [sizes(one, ("followed", [0])) for one in (leader, follower, other)]

    assert found == [{("followed", 0): 4 * len(BATCH)}] * 2 + [{}]
