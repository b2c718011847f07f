"""Each change by a client is a line in the log: what, by whom, from where; and no read is."""

import logging
from collections.abc import Iterator

import pytest

from broker.answers.client_changes import PARTITIONS_SHOWN, listed
from logstore.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from logstore.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from logstore.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from logstore.wire.messages.delete_groups import DeleteGroupsRequest
from logstore.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from logstore.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from logstore.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from logstore.wire.messages.metadata import MetadataRequest
from logstore.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.broker.group_calls import SETTINGS, commit, prepare
from tests.broker.running import Running, batch_of, fetch, produce, running_broker
from tools.full_wire import Connection

LOGGER = "broker.answers.client_changes"
CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS, DELETE_RECORDS = 19, 20, 37, 21
INCREMENTAL_ALTER_CONFIGS, ALTER_REASSIGNMENTS, DELETE_GROUPS, OFFSET_DELETE = 44, 45, 42, 47


@pytest.fixture(scope="module")
def shared() -> Iterator[Running]:
    with running_broker(SETTINGS) as running:
        prepare(running)
        yield running


def changes(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The lines without their last part, which must name the client."""
    lines = [one.getMessage() for one in caplog.records if one.name == LOGGER]
    caplog.clear()
    for line in lines:
        assert " principal=User:ANONYMOUS peer=127.0.0.1:" in line
        assert " client_id=" in line
    return [line.partition(" principal=")[0] for line in lines]


def test_changes_of_topics_are_logged(
    running: Running, client: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    config = CreatableTopicConfig("retention.ms", "60000")
    topic = CreatableTopic("audited", 2, 1, [], [config])
    client.call(CREATE_TOPICS, CreateTopicsRequest([topic], 20_000, True), 7)
    assert changes(caplog) == [], "a check changes nothing"
    client.call(CREATE_TOPICS, CreateTopicsRequest([topic], 20_000), 7)
    client.call(CREATE_TOPICS, CreateTopicsRequest([topic], 20_000), 7)
    created = "topic created: name=audited partitions=2 replicas=1 configs=retention.ms:60000"
    assert changes(caplog) == [created], "the second was refused"

    grown = CreatePartitionsTopic("audited", 3)
    client.call(CREATE_PARTITIONS, CreatePartitionsRequest([grown], 20_000), 3)
    assert changes(caplog) == ["partitions added: topic=audited before=2 now=3"]

    resource = AlterConfigsResource(
        2,
        "audited",
        [AlterableConfig("retention.ms", 1, None), AlterableConfig("segment.bytes", 0, "1048576")],
    )
    client.call(INCREMENTAL_ALTER_CONFIGS, IncrementalAlterConfigsRequest([resource]), 1)
    configs = "retention.ms:(default),segment.bytes:1048576"
    assert changes(caplog) == [f"configs changed: topic=audited configs={configs}"]

    produce(client, "audited", batch_of(b"a", b"b"))
    below = DeleteRecordsTopic("audited", [DeleteRecordsPartition(0, 1)])
    client.call(DELETE_RECORDS, DeleteRecordsRequest([below], 20_000), 2)
    assert changes(caplog) == ["records deleted: topic=audited before_offsets=0:1"]

    moved = ReassignableTopic("audited", [ReassignablePartition(1, [running.node_id])])
    client.call(ALTER_REASSIGNMENTS, AlterPartitionReassignmentsRequest(20_000, True, [moved]), 0)
    assert changes(caplog) == ["reassignment asked: topic=audited partitions=1"]

    fetch(client, "audited", offset=1)
    client.call(3, MetadataRequest(None), 12)
    assert changes(caplog) == []
    gone = DeleteTopicsRequest(topics=[DeleteTopicState("audited")], timeout_ms=20_000)
    client.call(DELETE_TOPICS, gone, 6)
    assert changes(caplog) == ["topic deleted: name=audited"]


def test_groups_that_are_set_back_or_deleted_are_logged(
    running: Running, client: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    running.create_topic("reset")
    caplog.set_level(logging.INFO)
    commit(client, "audited-group", 5, "reset")
    commit(client, "audited-group", 9, "reset")
    assert changes(caplog) == [], "a consumer that goes on changes nothing for others"
    commit(client, "audited-group", 2, "reset")
    assert changes(caplog) == ["group set back: group=audited-group topic=reset offsets=0:2"]

    topics = [OffsetDeleteRequestTopic("reset", [OffsetDeleteRequestPartition(0)])]
    client.call(OFFSET_DELETE, OffsetDeleteRequest("audited-group", topics), 0)
    deleted = "group offsets deleted: group=audited-group topic=reset partitions=0"
    assert changes(caplog) == [deleted]
    commit(client, "audited-group", 2, "reset")
    client.call(DELETE_GROUPS, DeleteGroupsRequest(["audited-group"]), 2)
    assert changes(caplog) == ["group deleted: group=audited-group"]


def test_a_line_lists_a_few_partitions_and_how_many_more() -> None:
    assert listed({1: 10, 0: 5}) == "0:5,1:10"
    assert listed(list(range(PARTITIONS_SHOWN + 7))).endswith(f",{PARTITIONS_SHOWN - 1},... 7 more")
