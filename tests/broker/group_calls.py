"""Group requests that many tests make, over a connection."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from logstore.wire.errors import ErrorCode
from logstore.wire.framing.client import Connection
from logstore.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from logstore.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest
from logstore.wire.messages.heartbeat import HeartbeatRequest
from logstore.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from logstore.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from logstore.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from logstore.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponsePartitions,
)
from logstore.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tests.broker.running import FIND_COORDINATOR, Running, Shared, running_broker

OFFSET_COMMIT, OFFSET_FETCH = 8, 9
JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP = 11, 12, 13, 14
DESCRIBE_GROUPS, LIST_GROUPS, DELETE_GROUPS, OFFSET_DELETE = 15, 16, 42, 47
CONSUMER, RANGE = "consumer", "range"
SESSION_MS = 30_000
SETTINGS = {"group.initial.rebalance.delay.ms": "0"}


@contextmanager
def coordinating_broker(**settings: str) -> Iterator[Running]:
    """A broker whose groups can be asked for."""
    dotted = {name.replace("_", "."): value for name, value in settings.items()}
    with running_broker({**SETTINGS, **dotted}) as running:
        prepare(running)
        yield running


@contextmanager
def broker_on(stores: Shared, **settings: str) -> Iterator[Running]:
    """The same broker each time, on stores that outlive it."""
    running = Running({**SETTINGS, **settings}, 1 << 24, shared=stores)
    running.start()
    try:
        prepare(running)
        yield running
    finally:
        running.stop()


def prepare(running: Running) -> None:
    """Let the broker create the groups' topic, and load it."""
    with running.connect() as client:
        find_coordinator(client, "any")
    running.wait_until(lambda: "__consumer_offsets" in running.log.topics)
    running.wait_until(lambda: not running.broker.groups.is_loading)
    running.wait_until(lambda: len(running.broker.groups.loaded()) == 50)


def prepare_cluster(brokers: Mapping[int, Running]) -> None:
    """The same for several, among which the groups are shared."""
    with next(iter(brokers.values())).connect() as client:
        find_coordinator(client, "any")
    for running in brokers.values():
        running.wait_until(lambda one=running: _knows_all_coordinators(one))  # type: ignore[misc]
    for running in brokers.values():
        running.wait_until(lambda one=running: _has_loaded_all(one))  # type: ignore[misc]


def _has_loaded_all(running: Running) -> bool:
    led = running.log.topics["__consumer_offsets"].leaders
    return len(running.broker.groups.loaded()) == len(led)


def _knows_all_coordinators(running: Running) -> bool:
    topic = running.log.topics.get("__consumer_offsets")
    if topic is None:
        return False
    ours = [n for n, row in enumerate(topic.rows) if row.broker == running.node_id]
    return set(ours) == set(topic.leaders)


def find_coordinator(client: Connection, group: str) -> Coordinator:
    response = client.call(FIND_COORDINATOR, FindCoordinatorRequest("", 0, [group]), 4)
    found: Coordinator = response.coordinators[0]
    return found


def join_request(
    group: str,
    member_id: str = "",
    *,
    instance_id: str | None = None,
    protocols: Sequence[tuple[str, bytes]] = ((RANGE, b"topics"),),
    protocol_type: str = CONSUMER,
    session_ms: int = SESSION_MS,
) -> JoinGroupRequest:
    return JoinGroupRequest(
        group,
        session_ms,
        60_000,
        member_id,
        instance_id,
        protocol_type,
        [JoinGroupRequestProtocol(name, data) for name, data in protocols],
    )


def join(
    client: Connection,
    group: str,
    member_id: str = "",
    *,
    version: int = 9,
    instance_id: str | None = None,
    protocols: Sequence[tuple[str, bytes]] = ((RANGE, b"topics"),),
    protocol_type: str = CONSUMER,
    session_ms: int = SESSION_MS,
) -> JoinGroupResponse:
    """Join, coming back with the member id if one was given out."""
    while True:
        request = join_request(
            group,
            member_id,
            instance_id=instance_id,
            protocols=protocols,
            protocol_type=protocol_type,
            session_ms=session_ms,
        )
        response: JoinGroupResponse = client.call(JOIN_GROUP, request, version)
        if response.error_code != ErrorCode.MEMBER_ID_REQUIRED:
            return response
        member_id = response.member_id


def sync(
    client: Connection,
    group: str,
    joined: JoinGroupResponse,
    parts: dict[str, bytes] | None = None,
    *,
    version: int = 5,
    instance_id: str | None = None,
) -> SyncGroupResponse:
    request = SyncGroupRequest(
        group,
        joined.generation_id,
        joined.member_id,
        instance_id,
        CONSUMER,
        RANGE,
        [SyncGroupRequestAssignment(*part) for part in (parts or {}).items()],
    )
    response: SyncGroupResponse = client.call(SYNC_GROUP, request, version)
    return response


def member_of(client: Connection, group: str, *, instance_id: str | None = None) -> str:
    """The only member of a new group, its part handed out; its id. The generation is 1."""
    joined = join(client, group, instance_id=instance_id)
    assert (joined.error_code, joined.generation_id) == (0, 1)
    synced = sync(client, group, joined, {joined.member_id: b"part"}, instance_id=instance_id)
    assert (synced.error_code, bytes(synced.assignment)) == (0, b"part")
    return joined.member_id


def heartbeat(
    client: Connection,
    group: str,
    member_id: str,
    generation: int = 1,
    *,
    instance_id: str | None = None,
    version: int = 4,
) -> int:
    request = HeartbeatRequest(group, generation, member_id, instance_id)
    code: int = client.call(HEARTBEAT, request, version).error_code
    return code


def leave(client: Connection, group: str, *members: tuple[str, str | None]) -> list[int]:
    request = LeaveGroupRequest(group, "", [MemberIdentity(*one) for one in members])
    response: LeaveGroupResponse = client.call(LEAVE_GROUP, request, 5)
    return [member.error_code for member in response.members or ()]


def commit(
    client: Connection,
    group: str,
    offset: int,
    topic: str = "t",
    *,
    partition: int = 0,
    member_id: str = "",
    generation: int = -1,
    instance_id: str | None = None,
    metadata: str | None = "",
    epoch: int = -1,
    version: int = 9,
) -> int:
    one = OffsetCommitRequestPartition(partition, offset, epoch, metadata)
    request = OffsetCommitRequest(
        group,
        generation,
        member_id,
        -1,
        instance_id,
        [OffsetCommitRequestTopic(topic, partitions=[one])],
    )
    response: OffsetCommitResponse = client.call(OFFSET_COMMIT, request, version)
    return (response.topics or [])[0].partitions[0].error_code


def fetch_offsets(
    client: Connection, group: str, topics: dict[str, list[int]] | None = None, version: int = 9
) -> dict[tuple[str, int], OffsetFetchResponsePartitions]:
    """By place; no `topics`: all that the group has."""
    if version >= 8:
        wanted = None
        if topics is not None:
            wanted = [
                OffsetFetchRequestTopics(topic, partition_indexes=numbers)
                for topic, numbers in topics.items()
            ]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, None, -1, wanted)])
        response: OffsetFetchResponse = client.call(OFFSET_FETCH, request, version)
        found = (response.groups or [])[0]
        assert found.error_code == 0
        answered = found.topics
    else:
        old = None
        if topics is not None:
            old = [OffsetFetchRequestTopic(*one) for one in topics.items()]
        response = client.call(OFFSET_FETCH, OffsetFetchRequest(group, old), version)
        assert response.error_code == 0
        answered = response.topics  # type: ignore[assignment]
    return {
        (topic.name, one.partition_index): one
        for topic in answered or ()
        for one in topic.partitions or ()
    }


def fetch_offset(client: Connection, group: str, topic: str = "t", partition: int = 0) -> int:
    return fetch_offsets(client, group, {topic: [partition]})[topic, partition].committed_offset


def describe(client: Connection, group: str, version: int = 6) -> DescribedGroup:
    response = client.call(DESCRIBE_GROUPS, DescribeGroupsRequest([group]), version)
    found: DescribedGroup = response.groups[0]
    return found
