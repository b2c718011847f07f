"""Requests about many items are handled in slices, and no answer grows beyond its budget."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from broker.answers.broker import CHANGES_MAX
from broker.answers.decisions.budgets import BUDGETS, Budget
from broker.groups.decisions import deletion
from broker.handlers import leave_group, produce
from broker.network import connection
from broker.network.authorizer import AllowAll, Operation
from broker.network.turns import SLICE_S, Turns
from logstore.wire.errors import ErrorCode
from logstore.wire.framing.apis import decode_response_header, encode_request_frame
from logstore.wire.framing.client import Connection
from logstore.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResource
from logstore.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from logstore.wire.messages.api_versions import ApiVersionsRequest
from logstore.wire.messages.create_acls import AclCreation, CreateAclsRequest
from logstore.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from logstore.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from logstore.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from logstore.wire.messages.delete_groups import DeleteGroupsRequest
from logstore.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from logstore.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from logstore.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from logstore.wire.messages.describe_groups import DescribeGroupsRequest
from logstore.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from logstore.wire.messages.find_coordinator import FindCoordinatorRequest
from logstore.wire.messages.incremental_alter_configs import (
    AlterConfigsResource as IncrementalResource,
)
from logstore.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from logstore.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from logstore.wire.messages.list_groups import ListGroupsRequest
from logstore.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from logstore.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from logstore.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from logstore.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestTopic
from logstore.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from logstore.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from logstore.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from logstore.wire.primitives import ZERO_UUID
from tests.broker.group_calls import (
    coordinating_broker,
    fetch_offset,
    fetch_offsets,
    join,
    member_of,
)
from tests.broker.held_turns import HeldTurns
from tests.broker.network.test_authorizer import deny
from tests.broker.running import API_VERSIONS, Running
from tools.full_wire import APIS

NAMES = [f"n{number}" for number in range(200)]
ITEMS_A_SLICE = 4
POLICY_VIOLATION = ErrorCode.POLICY_VIOLATION


@pytest.fixture(scope="module")
def shared() -> Iterator[Running]:
    with coordinating_broker() as running, running.connect() as client:
        running.create_topic("t", 3)
        member_of(client, "known")
        states = running.broker.groups.loaded()[0].states
        running.do(lambda: [states.get_or_new(f"listed-{number}") for number in range(200)])
        yield running


def _partitions(response: Any) -> list[Any]:
    return [one for topic in response.topics for one in topic.partitions]


CASES: dict[str, tuple[int, int, Any, Any]] = {
    "Metadata": (
        3,
        12,
        MetadataRequest([MetadataRequestTopic(name=name) for name in NAMES], False),
        lambda response: response.topics,
    ),
    "ListOffsets": (
        2,
        6,
        ListOffsetsRequest(
            -1, 0, [ListOffsetsTopic("t", [ListOffsetsPartition(0, -1, -1)] * len(NAMES))]
        ),
        _partitions,
    ),
    "OffsetForLeaderEpoch": (
        23,
        4,
        OffsetForLeaderEpochRequest(
            topics=[OffsetForLeaderTopic("t", [OffsetForLeaderPartition(0)] * len(NAMES))]
        ),
        _partitions,
    ),
    "OffsetFetch": (
        9,
        8,
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(name) for name in NAMES]),
        lambda response: response.groups,
    ),
    "DescribeGroups": (15, 5, DescribeGroupsRequest(NAMES), lambda response: response.groups),
    "FindCoordinator": (
        10,
        4,
        FindCoordinatorRequest(key_type=0, coordinator_keys=NAMES),
        lambda response: response.coordinators,
    ),
    "DescribeConfigs": (
        32,
        4,
        DescribeConfigsRequest([DescribeConfigsResource(2, name, None) for name in NAMES]),
        lambda response: response.results,
    ),
    "AlterConfigs": (
        33,
        2,
        AlterConfigsRequest([AlterConfigsResource(2, name) for name in NAMES]),
        lambda response: response.responses,
    ),
    "IncrementalAlterConfigs": (
        44,
        1,
        IncrementalAlterConfigsRequest([IncrementalResource(2, name) for name in NAMES]),
        lambda response: response.responses,
    ),
    "OffsetCommit": (
        8,
        8,
        OffsetCommitRequest(
            "g",
            topics=[
                OffsetCommitRequestTopic(
                    "t", partitions=[OffsetCommitRequestPartition(n) for n in range(200)]
                )
            ],
        ),
        _partitions,
    ),
    "OffsetDelete": (
        47,
        0,
        OffsetDeleteRequest("known", [OffsetDeleteRequestTopic(name) for name in NAMES]),
        lambda response: response.topics,
    ),
    "DeleteGroups": (42, 2, DeleteGroupsRequest(NAMES), lambda response: response.results),
    "LeaveGroup": (
        13,
        5,
        LeaveGroupRequest("known", members=[MemberIdentity(name) for name in NAMES]),
        lambda response: response.members,
    ),
    "ListGroups": (
        16,
        4,
        ListGroupsRequest(),
        lambda response: [one for one in response.groups if one.group_id.startswith("listed")],
    ),
    "DescribeTopicPartitions": (
        75,
        0,
        DescribeTopicPartitionsRequest([TopicRequest(name) for name in NAMES]),
        lambda response: response.topics,
    ),
    "AlterPartitionReassignments": (
        45,
        0,
        AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name, [ReassignablePartition()]) for name in NAMES]
        ),
        lambda response: response.responses,
    ),
    "DeleteRecords": (
        21,
        2,
        DeleteRecordsRequest(
            [DeleteRecordsTopic(name, [DeleteRecordsPartition()]) for name in NAMES], 30_000
        ),
        lambda response: response.topics,
    ),
    "DeleteTopics": (
        20,
        6,
        DeleteTopicsRequest(None, [DeleteTopicState(name) for name in NAMES], 30_000),
        lambda response: response.responses,
    ),
    "CreatePartitions": (
        37,
        3,
        CreatePartitionsRequest([CreatePartitionsTopic(name, 2) for name in NAMES], 30_000, True),
        lambda response: response.results,
    ),
    "CreateAcls": (
        30,
        3,
        CreateAclsRequest([AclCreation(2, name, 3, "User:a", "*", 3, 3) for name in NAMES]),
        lambda response: response.results,
    ),
    "DeleteAcls": (
        31,
        3,
        DeleteAclsRequest([DeleteAclsFilter(2, name, 3, None, None, 3, 3) for name in NAMES]),
        lambda response: response.filter_results,
    ),
    "Produce": (
        0,
        9,
        ProduceRequest(
            None, -1, 30_000, [TopicProduceData("t", ZERO_UUID, [PartitionProduceData()] * 200)]
        ),
        lambda response: response.responses[0].partition_responses,
    ),
    "Produce, topics that are not there": (
        0,
        9,
        ProduceRequest(None, -1, 30_000, [TopicProduceData(name) for name in NAMES]),
        lambda response: response.responses,
    ),
    "ListOffsets, topics without partitions": (
        2,
        6,
        ListOffsetsRequest(-1, 0, [ListOffsetsTopic(name) for name in NAMES]),
        lambda response: response.topics,
    ),
    "CreateTopics": (
        19,
        7,
        CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in NAMES], 30_000, True),
        lambda response: response.topics,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_many_items_take_turns(
    client: Connection, shared: Running, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leave_group, "AT_ONCE", 1)
    monkeypatch.setattr(produce, "AT_ONCE", 1)
    key, version, request, items_of = CASES[name]
    ticks = count()
    loop = shared.broker.loop
    turns = Turns(loop, shared.broker.clients.holds, lambda: next(ticks) * SLICE_S / ITEMS_A_SLICE)
    before, shared.broker.turns = shared.broker.turns, turns
    try:
        response = client.call(key, request, version)
    finally:
        shared.broker.turns = before

    assert len(items_of(response)) == len(NAMES)
    steps = 2 if name == "DescribeConfigs" else 1  # it merges what is asked before it answers
    assert turns.taken_count >= steps * len(NAMES) // ITEMS_A_SLICE // 2


def test_a_group_that_is_refused_is_answered_in_slices(client: Connection, shared: Running) -> None:
    ticks, loop = count(), shared.broker.loop
    turns = Turns(loop, shared.broker.clients.holds, lambda: next(ticks) * SLICE_S / ITEMS_A_SLICE)
    request = OffsetFetchRequest("g", [OffsetFetchRequestTopic(name, [0]) for name in NAMES])
    before, shared.broker.turns = shared.broker.turns, turns
    deny(shared, Operation.DESCRIBE)
    try:
        response = client.call(9, request, 7)
    finally:
        shared.broker.turns, shared.authorizer.rule = before, AllowAll()

    assert response.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert [topic.name for topic in response.topics] == NAMES
    # Twice for each topic: its answer is made, and brought into the form of old versions.
    assert turns.taken_count > 1.5 * len(NAMES) / ITEMS_A_SLICE


def _commit_many(group: str, offset: int, count: int) -> bytes:
    """A frame that commits one offset of the same partition `count` times."""
    partitions = [OffsetCommitRequestPartition(0, offset)] * count
    request = OffsetCommitRequest(
        group, topics=[OffsetCommitRequestTopic("t", partitions=partitions)]
    )
    return b"".join(encode_request_frame(1, APIS[8], 8, "me", request))


def test_a_request_does_not_overtake_one_that_is_handled_in_slices(
    client: Connection, shared: Running
) -> None:
    client.negotiate()
    before, held = shared.broker.turns, HeldTurns(shared)
    shared.broker.turns = held
    try:
        frames = _commit_many("order", 5, len(NAMES)) + _commit_many("order", 9, 1)
        client.send_raw(frames)  # type: ignore[attr-defined]
        shared.wait_until(lambda: bool(held.steps))
        shared.do(held.let_go)
        for _ in range(2):
            client.read_frame()  # type: ignore[attr-defined]
    finally:
        shared.broker.turns = before

    assert fetch_offset(client, "order") == 9


def test_offsets_are_not_committed_for_a_group_that_has_changed_between_slices(
    client: Connection, shared: Running
) -> None:
    client.negotiate()
    before, held = shared.broker.turns, HeldTurns(shared)
    shared.broker.turns = held
    try:
        client.send_raw(_commit_many("changed", 5, len(NAMES)))  # type: ignore[attr-defined]
        shared.wait_until(lambda: bool(held.steps))
        with shared.connect() as member:
            assert join(member, "changed").error_code == 0
            shared.do(held.let_go)
            frame = memoryview(client.read_frame())  # type: ignore[attr-defined]
    finally:
        shared.broker.turns = before

    _, at = decode_response_header(frame, APIS[8], 8)
    codes = {one.error_code for one in _partitions(APIS[8].decode_response(8, frame, at))}
    assert codes == {ErrorCode.UNKNOWN_MEMBER_ID}


def test_a_group_with_many_offsets_is_deleted_in_slices(
    client: Connection, shared: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletion, "AT_ONCE", 2)
    partitions = [OffsetCommitRequestPartition(number, 5) for number in range(3)]
    for group in ("many offsets", "few"):
        topics = [OffsetCommitRequestTopic("t", partitions=partitions)]
        client.call(8, OffsetCommitRequest(group, topics=topics), 8)

    results = client.call(42, DeleteGroupsRequest(["many offsets"]), 2).results

    assert [one.error_code for one in results] == [0]
    assert not fetch_offsets(client, "many offsets")
    assert client.call(42, DeleteGroupsRequest(["many offsets"]), 2).results[0].error_code == 69


def test_configs_that_would_make_the_answer_too_large_are_refused_one_by_one(
    client: Connection, shared: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BUDGETS, 32, Budget(250, answer_bytes_max=5_000))
    for name in ("shown", "not-shown"):
        shared.create_topic(name)
    asked = [DescribeConfigsResource(2, name, None) for name in ("t", "shown", "not-shown")]

    results = client.call(32, DescribeConfigsRequest(asked, include_documentation=True), 4).results

    assert [one.error_code for one in results] == [0, POLICY_VIOLATION, POLICY_VIOLATION]
    assert not results[2].configs


def test_groups_that_would_make_the_answer_too_large_are_refused_one_by_one(
    client: Connection, shared: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BUDGETS, 15, Budget(50, answer_bytes_max=100))

    groups = client.call(15, DescribeGroupsRequest(NAMES), 5).groups

    codes = [one.error_code for one in groups]
    assert codes[0] == 0
    assert codes[-1] == POLICY_VIOLATION
    assert codes == sorted(codes)


def test_more_partitions_than_kafka_takes_in_one_request_are_refused(client: Connection) -> None:
    some = [CreatableTopic(f"many-{number}", 5_000, 1) for number in range(3)]

    topics = client.call(19, CreateTopicsRequest(some, 30_000, True), 7).topics

    assert {one.error_code for one in topics} == {POLICY_VIOLATION}


def test_a_bounded_number_of_changes_goes_on_after_the_time_of_their_request(
    client: Connection, shared: Running
) -> None:
    some = [CreatableTopic(f"late-{number}", 1, 1) for number in range(3 * CHANGES_MAX)]
    shared.hold_store()
    try:
        topics = client.call(19, CreateTopicsRequest(some, 0), 7).topics
    finally:
        shared.let_store_go()

    assert {one.error_code for one in topics} == {ErrorCode.REQUEST_TIMED_OUT}
    begun = [one for one in topics if "not finished" in (one.error_message or "")]
    assert len(begun) == CHANGES_MAX


def test_partitions_of_other_topics_are_not_counted_for_each_new_topic(
    client: Connection, shared: Running
) -> None:
    shared.create_topic("wide", 300)
    load = shared.broker.load
    shared.do(load.now)
    before = load.counted_rows

    some = [CreatableTopic(f"new-{number}", 1, 1) for number in range(50)]
    client.call(19, CreateTopicsRequest(some, 30_000, True), 7)
    client.call(19, CreateTopicsRequest(some[:1], 30_000), 7)

    assert load.counted_rows - before <= 2


def test_requests_of_one_read_give_others_a_turn(
    client: Connection, shared: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "SLICE_S", 0.0)
    client.negotiate()
    passes, seen = count(), list[int]()
    clients = shared.broker.clients
    dispatch = clients.dispatch
    this_pass = 0
    is_over = False

    def next_pass() -> None:
        nonlocal this_pass
        this_pass = next(passes)
        if not is_over:
            shared.broker.loop.call_soon(next_pass)

    def watched(*arguments: Any) -> None:
        seen.append(this_pass)
        dispatch(*arguments)

    shared.do(next_pass)
    clients.dispatch = watched
    try:
        frames = encode_request_frame(1, APIS[API_VERSIONS], 3, "me", ApiVersionsRequest("a", "1"))
        client.send_raw(b"".join(frames) * 20)  # type: ignore[attr-defined]
        for _ in range(20):
            client.read_frame()  # type: ignore[attr-defined]
    finally:
        clients.dispatch = dispatch
        is_over = True

    assert len(seen) == 20
    assert len(set(seen)) == 20, "two requests in one pass of the loop"
