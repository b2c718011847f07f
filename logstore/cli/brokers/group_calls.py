"""Requests of `logstore groups` to brokers; a refusal becomes `Invalid`."""

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct, error
from typing import Any

from logstore.cli.brokers.cluster_calls import EARLIEST, LATEST, Cluster, check
from logstore.errors import Invalid
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.delete_groups import DeleteGroupsRequest
from logstore.wire.messages.describe_groups import DescribeGroupsRequest
from logstore.wire.messages.list_groups import ListGroupsRequest
from logstore.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from logstore.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)

OFFSET_COMMIT, OFFSET_FETCH = 8, 9
DESCRIBE_GROUPS, LIST_GROUPS, DELETE_GROUPS = 15, 16, 42
NO_GENERATION, NO_OFFSET, NO_EPOCH = -1, -1, -1
CONSUMER_PROTOCOL = "consumer"
EMPTY, DEAD = "Empty", "Dead"

_INT16, _INT32 = Struct(">h"), Struct(">i")

Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class GroupLine:
    group: str
    state: str
    protocol_type: str
    coordinator: int


@dataclass(frozen=True, slots=True)
class MemberLine:
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: Sequence[str]


@dataclass(frozen=True, slots=True)
class OffsetLine:
    """`end` None: the topic is gone. `lag` None: nothing was committed, or nothing can be read."""

    topic: str
    partition: int
    committed: int | None
    end: int | None
    lag: int | None
    member_id: str | None


@dataclass(frozen=True, slots=True)
class DescribedGroup:
    group: str
    state: str
    protocol_type: str
    protocol: str
    members: Sequence[MemberLine]
    offsets: Sequence[OffsetLine]


@dataclass(frozen=True, slots=True)
class ResetLine:
    topic: str
    partition: int
    before: int | None
    after: int


def list_groups(cluster: Cluster) -> list[GroupLine]:
    def ask() -> list[GroupLine]:
        lines = []
        for node in cluster.brokers():
            response = cluster.broker(node).call(LIST_GROUPS, ListGroupsRequest([], []))
            check(response.error_code, "list groups")
            lines += [
                GroupLine(one.group_id, one.group_state, one.protocol_type, node)
                for one in response.groups
            ]
        return sorted(lines, key=lambda line: line.group)

    return cluster.insist(ask)


def describe_group(cluster: Cluster, group: str) -> DescribedGroup:
    """Raises `Invalid` when there is no such group."""
    description = cluster.insist(lambda: _describe(cluster, group))
    owners: dict[Place, str] = {}
    members = []
    for member in description.members or ():
        parts = _partitions(description.protocol_type, bytes(member.member_assignment))
        owners.update(dict.fromkeys(parts, member.member_id))
        members.append(
            MemberLine(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host.removeprefix("/"),
                [f"{topic}-{partition}" for topic, partition in sorted(parts)],
            )
        )
    committed = fetch_offsets(cluster, group)
    places = sorted({*owners, *committed})
    offsets = _offset_lines(cluster, places, committed, owners)
    return DescribedGroup(
        group,
        description.group_state,
        description.protocol_type,
        description.protocol_data,
        members,
        offsets,
    )


def _describe(cluster: Cluster, group: str) -> Any:
    response = cluster.coordinator(group).call(DESCRIBE_GROUPS, DescribeGroupsRequest([group]))
    description = response.groups[0]
    check(description.error_code, f"describe group {group}")
    if description.group_state == DEAD:
        raise Invalid(f"no such group: group={group}")
    return description


def _offset_lines(
    cluster: Cluster, places: Sequence[Place], committed: dict[Place, int], owners: dict[Place, str]
) -> list[OffsetLine]:
    ends: dict[Place, int] = {}
    starts: dict[Place, int] = {}
    for topic in sorted({topic for topic, _ in places}):
        numbers = [partition for name, partition in places if name == topic]
        try:
            ends.update(_of(topic, offsets_at(cluster, topic, numbers, LATEST)))
            starts.update(_of(topic, offsets_at(cluster, topic, numbers, EARLIEST)))
        except Invalid:
            continue  # the topic, or a partition of it, is gone
    lines = []
    for place in places:
        at, end = committed.get(place), ends.get(place)
        lag = None
        if at is not None and end is not None:
            lag = max(end - max(at, starts.get(place, 0)), 0)
        lines.append(OffsetLine(*place, at, end, lag, owners.get(place)))
    return lines


def _of(topic: str, offsets: dict[int, int]) -> dict[Place, int]:
    return {(topic, partition): offset for partition, offset in offsets.items()}


def offsets_at(
    cluster: Cluster, topic: str, partitions: Sequence[int], timestamp: int
) -> dict[int, int]:
    return cluster.insist(lambda: cluster.offsets(topic, partitions, timestamp))


def fetch_offsets(cluster: Cluster, group: str) -> dict[Place, int]:
    """All that the group has committed."""

    def ask() -> dict[Place, int]:
        wanted = OffsetFetchRequest(group, None, [OffsetFetchRequestGroup(group)])
        wanted.groups[0].topics = None
        response = cluster.coordinator(group).call(OFFSET_FETCH, wanted)
        answer = response.groups[0] if response.groups else response
        check(answer.error_code, f"fetch offsets of group {group}")
        offsets = {}
        for topic in answer.topics:
            for one in topic.partitions:
                check(one.error_code, f"fetch offsets of {topic.name}")
                if one.committed_offset != NO_OFFSET:
                    offsets[topic.name, one.partition_index] = one.committed_offset
        return offsets

    return cluster.insist(ask)


def commit_offsets(cluster: Cluster, group: str, offsets: dict[Place, int]) -> None:
    """Commit without a member id: accepted while the group has no members. Raises `Invalid`."""
    by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        one = OffsetCommitRequestPartition(partition, offset, NO_EPOCH, "")
        by_topic.setdefault(topic, []).append(one)
    topics = [
        OffsetCommitRequestTopic(topic, partitions=partitions)
        for topic, partitions in by_topic.items()
    ]
    request = OffsetCommitRequest(group, NO_GENERATION, "", -1, None, topics)

    def ask() -> None:
        response = cluster.coordinator(group).call(OFFSET_COMMIT, request)
        for topic in response.topics:
            for one in topic.partitions:
                if one.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                    raise Invalid(
                        f"group {group} has members: stop its consumers first, or their own "
                        "commits would undo this"
                    )
                check(one.error_code, f"commit offsets of {topic.name}")

    cluster.insist(ask)


def delete_group(cluster: Cluster, group: str) -> None:
    def ask() -> None:
        request = DeleteGroupsRequest([group])
        result = cluster.coordinator(group).call(DELETE_GROUPS, request).results[0]
        check(result.error_code, f"delete group {group}")

    cluster.insist(ask)


def _partitions(protocol_type: str, assignment: bytes) -> list[Place]:
    """A consumer's part: version int16 | array of (topic string, array of partition int32) …

    Source: Apache Kafka, ConsumerProtocolAssignment. Other kinds of group have bytes of their own.
    """
    if protocol_type != CONSUMER_PROTOCOL or not assignment:
        return []
    places: list[Place] = []
    try:
        at = _INT16.size + _INT32.size
        for _ in range(_INT32.unpack_from(assignment, _INT16.size)[0]):
            length: int = _INT16.unpack_from(assignment, at)[0]
            topic = assignment[at + 2 : at + 2 + length].decode()
            at += 2 + length
            count: int = _INT32.unpack_from(assignment, at)[0]
            for number in range(count):
                partition: int = _INT32.unpack_from(assignment, at + 4 + 4 * number)[0]
                places.append((topic, partition))
            at += 4 + 4 * count
    except (error, UnicodeDecodeError):
        return []
    return places
