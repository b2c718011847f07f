"""Requests about classic groups: their life in every version, and what is refused."""

from typing import Any

from logstore.wire.errors import ErrorCode
from logstore.wire.messages import (
    delete_groups,
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
from tests.clients.differential.peer import STRANGE_ID, Peer, versions

OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR, JOIN_GROUP, HEARTBEAT = 8, 9, 10, 11, 12
LEAVE_GROUP, SYNC_GROUP, DESCRIBE_GROUPS, LIST_GROUPS, DELETE_GROUPS = 13, 14, 15, 16, 42
OFFSET_DELETE = 47
READY = "ready"
SUBSCRIPTION = b"\0\0" + b"\0\0\0\1\0\4read" + b"\xff\xff\xff\xff"
"""Version 0 of a consumer's: its topics, no user data."""


def prepare(peer: Peer) -> None:
    """Wait for the coordinator, whose topic is made when it is first asked for."""
    peer.create("read", 2)

    def is_there() -> bool:
        found = peer.call(FIND_COORDINATOR, 3, find_coordinator.FindCoordinatorRequest(READY))
        request = heartbeat.HeartbeatRequest(READY, 1, "no member")
        code = peer.call(HEARTBEAT, 3, request).error_code
        return not found.error_code and code == ErrorCode.UNKNOWN_MEMBER_ID

    peer.wait_until(is_there, "a coordinator")


def run(peer: Peer) -> None:
    for version in versions(JOIN_GROUP):
        _life(peer, version)
    _coordinators(peer)
    _strangers(peer)
    _offsets(peer)
    _listed(peer)
    _deleted(peer)


def joining(
    group: str, version: int, member: str = "", **fields: Any
) -> join_group.JoinGroupRequest:
    request = join_group.JoinGroupRequest(
        group, 30_000, 30_000, member, None, "consumer",
        [join_group.JoinGroupRequestProtocol("range", SUBSCRIPTION)],
    )  # fmt: skip
    for name, value in fields.items():
        setattr(request, name, value)
    return request


def _at(version: int, key: int) -> int:
    """The version of another API that goes with a JoinGroup of `version`."""
    there = [*versions(key)]
    return there[min(version, len(there) - 1)]


def _life(peer: Peer, version: int) -> None:
    """One member joins, leads, is described, commits and leaves."""
    group, of = f"life-{version}", f"of a group begun with JoinGroup v{version}"
    joined = peer.ask("a new member", JOIN_GROUP, version, joining(group, version))
    if joined is not None and joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        request = joining(group, version, joined.member_id)
        joined = peer.ask("with the id given", JOIN_GROUP, version, request)
    member, generation = joined.member_id, joined.generation_id
    beat = heartbeat.HeartbeatRequest(group, generation, member)
    peer.ask(f"before the sync {of}", HEARTBEAT, _at(version, HEARTBEAT), beat)
    syncing = sync_group.SyncGroupRequest(
        group, generation, member, None, "consumer", "range",
        [sync_group.SyncGroupRequestAssignment(member, b"assignment")],
    )  # fmt: skip
    peer.ask(f"the leader {of}", SYNC_GROUP, _at(version, SYNC_GROUP), syncing)
    peer.ask(f"once more {of}", SYNC_GROUP, _at(version, SYNC_GROUP), syncing)
    peer.ask(f"after the sync {of}", HEARTBEAT, _at(version, HEARTBEAT), beat)
    old = heartbeat.HeartbeatRequest(group, generation + 1, member)
    peer.ask(f"a wrong generation {of}", HEARTBEAT, _at(version, HEARTBEAT), old)
    describe = describe_groups.DescribeGroupsRequest([group], True)
    at = _at(version, DESCRIBE_GROUPS)
    peer.ask(f"stable {of}", DESCRIBE_GROUPS, at, describe)
    for what, number, who in (
        ("a member", generation, member),
        ("a wrong generation", generation + 5, member),
        ("a stranger", generation, "a stranger"),
        ("without a member", -1, ""),
    ):
        commit = committing(peer, group, "read", 0, 5, number, who)
        peer.ask(f"{what} {of}", OFFSET_COMMIT, _at(version, OFFSET_COMMIT), commit)
    other = joining(group, version, member, protocol_type="connect")
    peer.ask("another protocol type", JOIN_GROUP, version, other)
    delete = delete_groups.DeleteGroupsRequest([group])
    peer.ask(f"with a member {of}", DELETE_GROUPS, _at(version, DELETE_GROUPS), delete)
    leaving = leave_group.LeaveGroupRequest(group, member, [leave_group.MemberIdentity(member)])
    peer.ask(f"a member {of}", LEAVE_GROUP, _at(version, LEAVE_GROUP), leaving)
    peer.ask(f"a member that left {of}", LEAVE_GROUP, _at(version, LEAVE_GROUP), leaving)
    peer.ask(f"empty {of}", DESCRIBE_GROUPS, at, describe)


def committing(
    peer: Peer,
    group: str,
    topic: str,
    partition: int,
    offset: int,
    generation: int = -1,
    member: str = "",
) -> offset_commit.OffsetCommitRequest:
    one = offset_commit.OffsetCommitRequestPartition(partition, offset, -1, "noted")
    topic_id = peer.topic_ids.get(topic, STRANGE_ID)
    topics = [offset_commit.OffsetCommitRequestTopic(topic, topic_id, [one])]
    return offset_commit.OffsetCommitRequest(group, generation, member, -1, None, topics)


def _coordinators(peer: Peer) -> None:
    for version in versions(FIND_COORDINATOR):
        for what, kind, key in (
            ("a group", 0, "some"), ("a strange kind", 7, "some"), ("an empty group", 0, ""),
        ):  # fmt: skip
            request = find_coordinator.FindCoordinatorRequest(key, kind, [key])
            peer.ask(what, FIND_COORDINATOR, version, request)
        if version >= 4:
            request = find_coordinator.FindCoordinatorRequest("", 0, ["some", "other"])
            peer.ask("two groups", FIND_COORDINATOR, version, request)


def _strangers(peer: Peer) -> None:
    """What has no member, no group, or no sense."""
    for version in versions(JOIN_GROUP):
        strange: dict[str, dict[str, Any]] = {
            "an empty group": {"group_id": ""},
            "a member that is unknown": {"member_id": "unknown"},
            "a short session": {"session_timeout_ms": 1},
            "a long session": {"session_timeout_ms": 2**31 - 1},
            "no protocol": {"protocols": []},
            "no protocol type": {"protocol_type": ""},
        }
        for what, fields in strange.items():
            peer.ask(what, JOIN_GROUP, version, joining(f"strange-{version}", version, **fields))
    for key in (HEARTBEAT, SYNC_GROUP, LEAVE_GROUP):
        for version in versions(key):
            for what, group in (("an unknown group", "unknown"), ("an empty group", "")):
                request: object = {
                    HEARTBEAT: heartbeat.HeartbeatRequest(group, 1, "one"),
                    SYNC_GROUP: sync_group.SyncGroupRequest(
                        group, 1, "one", None, "consumer", "range"
                    ),
                    LEAVE_GROUP: leave_group.LeaveGroupRequest(
                        group, "one", [leave_group.MemberIdentity("one")]
                    ),
                }[key]
                peer.ask(what, key, version, request)
    for version in versions(DESCRIBE_GROUPS):
        request = describe_groups.DescribeGroupsRequest(["unknown", ""], version >= 3)
        peer.ask("unknown groups", DESCRIBE_GROUPS, version, request)


def _offsets(peer: Peer) -> None:
    for version in versions(OFFSET_COMMIT):
        group = f"offsets-{version}"
        for what, topic, partition in (
            ("one", "read", 0),
            ("an unknown topic", "unknown", 0),
            ("an unknown partition", "read", 9),
        ):
            request = committing(peer, group, topic, partition, 7)
            peer.ask(what, OFFSET_COMMIT, version, request)
        request = committing(peer, group, "read", 1, 7)
        request.topics[0].partitions[0].committed_metadata = "x" * 5_000
        peer.ask("long metadata", OFFSET_COMMIT, version, request)
        request = committing(peer, "", "read", 1, 7)
        peer.ask("an empty group", OFFSET_COMMIT, version, request)
        negative = committing(peer, group, "read", 1, -5)
        peer.ask("a negative offset", OFFSET_COMMIT, version, negative)
    for version in versions(OFFSET_FETCH):
        group = f"offsets-{_at(version, OFFSET_COMMIT)}"
        for what, asked_group, names in (
            ("two partitions", group, [("read", [0, 1])]),
            ("an unknown topic", group, [("unknown", [0])]),
            ("an unknown group", "unknown", [("read", [0])]),
            ("all", group, None),
            ("nothing", group, []),
        ):
            if names is None and version < 2:
                continue
            peer.ask(what, OFFSET_FETCH, version, fetching(peer, asked_group, names))
    for version in versions(OFFSET_DELETE):
        for what, group, topic in (
            ("one", "offsets-4", "read"), ("an unknown group", "unknown", "read"),
            ("an unknown topic", "offsets-4", "unknown"),
        ):  # fmt: skip
            part = offset_delete.OffsetDeleteRequestPartition(0)
            topics = [offset_delete.OffsetDeleteRequestTopic(topic, [part])]
            request2 = offset_delete.OffsetDeleteRequest(group, topics)
            peer.ask(what, OFFSET_DELETE, version, request2)


def fetching(
    peer: Peer, group: str, names: list[tuple[str, list[int]]] | None
) -> offset_fetch.OffsetFetchRequest:
    old = new = None
    if names is not None:
        old = [offset_fetch.OffsetFetchRequestTopic(*one) for one in names]
        new = [
            offset_fetch.OffsetFetchRequestTopics(
                topic, peer.topic_ids.get(topic, STRANGE_ID), partitions
            )
            for topic, partitions in names
        ]
    groups = [offset_fetch.OffsetFetchRequestGroup(group, None, -1, new)]
    return offset_fetch.OffsetFetchRequest(group, old, groups, False)


def _listed(peer: Peer) -> None:
    for version in versions(LIST_GROUPS):
        peer.ask("all", LIST_GROUPS, version, list_groups.ListGroupsRequest([], []))
        if version >= 4:
            for state in ("Empty", "Stable", "Strange"):
                request = list_groups.ListGroupsRequest([state], [])
                peer.ask(f"in state {state}", LIST_GROUPS, version, request)
        if version >= 5:
            for kind in ("classic", "consumer", "strange"):
                request = list_groups.ListGroupsRequest([], [kind])
                peer.ask(f"of type {kind}", LIST_GROUPS, version, request)


def _deleted(peer: Peer) -> None:
    for version in versions(DELETE_GROUPS):
        names = [f"life-{version}", "unknown", ""]
        for name in names:
            request = delete_groups.DeleteGroupsRequest([name])
            peer.ask(f"group {name!r}", DELETE_GROUPS, version, request)
