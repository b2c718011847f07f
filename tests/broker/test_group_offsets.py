"""Committed offsets over the wire: every version, by whom, of what, and who may delete them."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from broker.groups.coordinator import Coordinator
from broker.groups.decisions.offsets import OffsetCommit
from logstore.wire.errors import ErrorCode
from logstore.wire.framing.apis import decode_response_header, encode_request_frame
from logstore.wire.messages.delete_groups import DeleteGroupsRequest
from logstore.wire.messages.describe_groups import DescribeGroupsRequest
from logstore.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from logstore.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from logstore.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.broker.group_calls import (
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
    commit,
    coordinating_broker,
    fetch_offset,
    fetch_offsets,
    join,
    leave,
    member_of,
    sync,
)
from tests.broker.running import Running
from tools.full_wire import APIS, Connection


@pytest.fixture(scope="module")
def shared() -> Iterator[Running]:
    with coordinating_broker() as running:
        running.create_topic("t", 3)
        yield running


@pytest.mark.parametrize("version", range(2, 10))
def test_every_version_commits(client: Connection, version: int) -> None:
    group = f"commit-{version}"
    code = commit(client, group, 42, metadata="text", epoch=3, version=version)
    found = fetch_offsets(client, group, {"t": [0]})["t", 0]

    assert (code, found.committed_offset, found.metadata) == (0, 42, "text")
    assert found.committed_leader_epoch == (3 if version >= 6 else -1)


@pytest.mark.parametrize("version", range(1, 10))
def test_every_version_fetches_and_finds_nothing_without_an_error(
    client: Connection, version: int
) -> None:
    group = f"fetch-{version}"
    commit(client, group, 42, metadata="text", epoch=3)
    found = fetch_offsets(client, group, {"t": [0, 1], "nowhere": [0]}, version)

    assert (found["t", 0].committed_offset, found["t", 0].metadata) == (42, "text")
    for place in (("t", 1), ("nowhere", 0)):
        nothing = found[place]
        assert (nothing.committed_offset, nothing.error_code, nothing.metadata) == (-1, 0, "")
    if version >= 5:
        assert found["t", 0].committed_leader_epoch == 3
    unknown = fetch_offsets(client, f"unknown-{version}", {"t": [0]}, version)
    assert unknown["t", 0].committed_offset == -1


def test_version_10_names_topics_by_their_ids(running: Running, client: Connection) -> None:
    topic_id, strange_id = running.log.topics["t"].topic_id, bytes(range(16))
    parts = [OffsetCommitRequestPartition(1, 42, 3, "text"), OffsetCommitRequestPartition(9, 1)]
    asked = OffsetCommitRequest(
        "ids",
        topics=[
            OffsetCommitRequestTopic("", topic_id, parts),
            OffsetCommitRequestTopic("", strange_id, parts[:1]),
        ],
    )
    committed = client.call(OFFSET_COMMIT, asked, 10)
    assert {one.topic_id: [p.error_code for p in one.partitions] for one in committed.topics} == {
        topic_id: [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
        strange_id: [ErrorCode.UNKNOWN_TOPIC_ID],
    }
    wanted = [
        OffsetFetchRequestTopics("", topic_id, [0, 1]),
        OffsetFetchRequestTopics("", strange_id, [0]),
    ]
    for topics in (wanted, None):
        groups = [OffsetFetchRequestGroup("ids", None, -1, topics)]
        ((group,),) = (client.call(OFFSET_FETCH, OffsetFetchRequest(groups=groups), 10).groups,)
        found = {
            (topic.topic_id, one.partition_index): (one.committed_offset, one.error_code)
            for topic in group.topics
            for one in topic.partitions
        }
        unknown = {(topic_id, 0): (-1, 0), (strange_id, 0): (-1, ErrorCode.UNKNOWN_TOPIC_ID)}
        assert found == {(topic_id, 1): (42, 0), **(unknown if topics else {})}
    assert fetch_offset(client, "ids", partition=1) == 42


@pytest.mark.parametrize("version", range(2, 10))
def test_no_list_of_topics_means_all(client: Connection, version: int) -> None:
    group = f"all-{version}"
    commit(client, group, 1, partition=0)
    commit(client, group, 2, partition=2)
    found = fetch_offsets(client, group, None, version)

    assert {place: one.committed_offset for place, one in found.items()} == {
        ("t", 0): 1,
        ("t", 2): 2,
    }


@pytest.mark.parametrize("version", [8, 9])
def test_several_groups_are_asked_for_at_once(client: Connection, version: int) -> None:
    commit(client, "several-a", 1)
    commit(client, "several-b", 2)
    wanted = [OffsetFetchRequestTopics("t", partition_indexes=[0])]
    groups = [
        OffsetFetchRequestGroup(name, None, -1, wanted)
        for name in ("several-a", "several-b", "several-c")
    ]
    response = client.call(OFFSET_FETCH, OffsetFetchRequest(groups=groups), version)

    reported = [(g.group_id, g.topics[0].partitions[0].committed_offset) for g in response.groups]
    assert reported == [("several-a", 1), ("several-b", 2), ("several-c", -1)]


def test_what_cannot_be_committed_is_reported_per_partition(client: Connection) -> None:
    assert commit(client, "bad", 1, "nowhere") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert commit(client, "bad", 1, partition=3) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    too_long = commit(client, "bad", 1, metadata="x" * 4097)
    assert too_long == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert commit(client, "bad", 1, metadata="x" * 4096) == 0
    assert commit(client, "bad", 2, metadata=None) == 0
    assert fetch_offsets(client, "bad", {"t": [0]})["t", 0].metadata == ""


def test_a_group_without_a_name_may_commit(client: Connection) -> None:
    assert commit(client, "", 5) == 0
    assert fetch_offset(client, "") == 5


def test_members_commit_in_their_generation_and_others_do_not(client: Connection) -> None:
    member_id = member_of(client, "fenced")

    def code(member: str, generation: int) -> int:
        return commit(client, "fenced", 9, member_id=member, generation=generation)

    assert code(member_id, 1) == 0
    assert code(member_id, 0) == ErrorCode.ILLEGAL_GENERATION
    assert code("stranger", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert code("", -1) == ErrorCode.UNKNOWN_MEMBER_ID
    joined = join(client, "fenced", member_id)
    assert code(member_id, 2) == ErrorCode.REBALANCE_IN_PROGRESS
    sync(client, "fenced", joined)
    assert code(member_id, 1) == ErrorCode.ILLEGAL_GENERATION
    assert code(member_id, 2) == 0


def test_a_static_member_that_was_replaced_cannot_commit(client: Connection) -> None:
    old = member_of(client, "static", instance_id="one")
    new = join(client, "static", instance_id="one")

    def code(member: str) -> int:
        return commit(client, "static", 9, member_id=member, generation=1, instance_id="one")

    assert new.skip_assignment
    assert code(old) == ErrorCode.FENCED_INSTANCE_ID
    assert code(new.member_id) == 0


def test_an_offset_of_a_topic_that_was_created_again_is_void(
    running: Running, client: Connection
) -> None:
    running.create_topic("reborn")
    commit(client, "lives", 42, "reborn")
    assert fetch_offset(client, "lives", "reborn") == 42
    running.delete_topic("reborn")
    running.create_topic("reborn")

    assert fetch_offset(client, "lives", "reborn") == -1
    commit(client, "lives", 1, "reborn")
    assert fetch_offset(client, "lives", "reborn") == 1


@pytest.mark.parametrize("version", [7, 9, 10])
def test_offsets_of_a_deleted_topic_go_with_it(
    running: Running, client: Connection, version: int
) -> None:
    group, name = f"outlives-{version}", f"gone-topic-{version}"
    running.create_topic(name)
    commit(client, group, 7, name)
    commit(client, group, 1, "t")
    running.delete_topic(name)

    def listed() -> set[int]:
        if version < 10:
            found = fetch_offsets(client, group, None, version)
            return {one.committed_offset for one in found.values()}
        groups = [OffsetFetchRequestGroup(group, None, -1, None)]
        answer = client.call(OFFSET_FETCH, OffsetFetchRequest(groups=groups), 10).groups[0]
        return {p.committed_offset for topic in answer.topics for p in topic.partitions}

    def recorded() -> set[str]:
        coordinator = running.broker.groups.find(group)
        assert isinstance(coordinator, Coordinator)
        known = coordinator.states.get(group)
        return set() if known is None else {name for name, _ in known.offsets}

    assert listed() == {1}
    running.create_topic(name)
    assert listed() == {1}
    running.wait_until(lambda: recorded() == {"t"})


def test_an_offset_of_a_topic_that_is_not_there_is_in_no_list_and_can_be_deleted(
    running: Running, client: Connection
) -> None:
    commit(client, "left", 1)
    coordinator = running.broker.groups.find("left")
    assert isinstance(coordinator, Coordinator)
    lost = OffsetCommit(("lost", 0), bytes(range(16)), 5, -1, "")
    running.do(lambda: coordinator.commit("left", [lost], -1))

    assert set(fetch_offsets(client, "left", None, 7)) == {("t", 0)}
    assert _codes(_delete_offset(client, "left", 0, "lost")) == [0]
    assert _codes(_delete_offset(client, "left", 0, "lost")) == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    ]
    assert fetch_offset(client, "left") == 1


def test_a_commit_is_answered_when_it_is_committed(running: Running, client: Connection) -> None:
    running.hold_store()
    with ThreadPoolExecutor() as threads, running.connect() as other:
        waiting = threads.submit(commit, client, "waits", 3)
        running.wait_until(lambda: running.log.writer.backlog_bytes > 0)
        reading = threads.submit(fetch_offset, other, "waits")
        assert not waiting.done()
        running.let_store_go()

        assert waiting.result() == 0
        assert reading.result() == 3, "and no client sees it before"


def test_a_commit_that_came_after_the_request_is_not_reported(
    running: Running, client: Connection
) -> None:
    """It is not committed when the answer leaves, and may never be: then it would go back."""

    def known() -> int:
        coordinator = running.broker.groups.find("later")
        assert isinstance(coordinator, Coordinator)
        group = coordinator.states.get("later")
        return -1 if group is None else group.offsets["t", 0].offset

    question = OffsetFetchRequest("later", [OffsetFetchRequestTopic("t", [0])])
    later = OffsetCommitRequest(
        "later",
        topics=[
            OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 4, -1, "")])
        ],
    )
    running.hold_store()
    with ThreadPoolExecutor() as threads, running.connect() as other:
        first = threads.submit(commit, client, "later", 3)
        running.wait_until(lambda: known() == 3)
        for key, version, request in ((OFFSET_FETCH, 7, question), (OFFSET_COMMIT, 7, later)):
            other.send_raw(b"".join(encode_request_frame(key, APIS[key], version, None, request)))
        running.wait_until(lambda: known() == 4)
        running.let_store_go()
        api, answer = APIS[OFFSET_FETCH], other.read_frame()
        _, at = decode_response_header(answer, api, 7)

        assert first.result() == 0
        (topic,) = api.decode_response(7, answer, at).topics
        assert [one.committed_offset for one in topic.partitions] == [3]
        other.read_frame()


def test_a_store_that_hangs_is_reported_as_no_coordinator() -> None:
    with coordinating_broker(offsets_commit_timeout_ms="50") as running:
        running.create_topic("t")
        with running.connect() as client:
            running.hold_store()
            assert commit(client, "g", 1) == ErrorCode.COORDINATOR_NOT_AVAILABLE
            running.let_store_go()


@pytest.mark.parametrize("version", range(3))
def test_every_version_deletes_groups(client: Connection, version: int) -> None:
    commit(client, f"gone-{version}", 1)
    member_id = member_of(client, f"alive-{version}")
    names = [f"gone-{version}", f"alive-{version}", "unknown"]
    results = client.call(DELETE_GROUPS, DeleteGroupsRequest(names), version).results

    assert [result.error_code for result in results] == [
        0,
        ErrorCode.NON_EMPTY_GROUP,
        ErrorCode.GROUP_ID_NOT_FOUND,
    ]
    assert fetch_offset(client, f"gone-{version}") == -1
    leave(client, f"alive-{version}", (member_id, None))
    again = DeleteGroupsRequest([f"alive-{version}"])
    assert client.call(DELETE_GROUPS, again, version).results[0].error_code == 0


def test_the_group_with_an_empty_name_is_described_and_deleted(client: Connection) -> None:
    commit(client, "", 1)
    described = client.call(DESCRIBE_GROUPS, DescribeGroupsRequest([""]), 6).groups[0]
    assert (described.error_code, described.group_state) == (0, "Empty")
    for expected in (0, ErrorCode.GROUP_ID_NOT_FOUND):
        (result,) = client.call(DELETE_GROUPS, DeleteGroupsRequest([""]), 2).results
        assert result.error_code == expected


def test_offsets_are_deleted_one_by_one(client: Connection) -> None:
    commit(client, "some", 1, partition=0)
    commit(client, "some", 2, partition=1)
    response = _delete_offset(client, "some", 0)

    assert response.error_code == 0
    assert fetch_offset(client, "some", partition=0) == -1
    assert fetch_offset(client, "some", partition=1) == 2
    assert _delete_offset(client, "unknown", 0).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_offsets_of_what_members_read_stay(client: Connection) -> None:
    subscription = bytes.fromhex("0000 00000001 0001 74 ffffffff")  # version 0, topic "t"
    joined = join(client, "reading", protocols=[("range", subscription)])
    sync(client, "reading", joined)
    commit(client, "reading", 1, member_id=joined.member_id, generation=1)
    response = _delete_offset(client, "reading", 0)

    topic = (response.topics or [])[0]
    assert topic.partitions is not None
    assert topic.partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert fetch_offset(client, "reading") == 1


def _codes(response: OffsetDeleteResponse) -> list[int]:
    return [one.error_code for topic in response.topics or () for one in topic.partitions or ()]


def _delete_offset(
    client: Connection, group: str, partition: int, name: str = "t"
) -> OffsetDeleteResponse:
    topics = [OffsetDeleteRequestTopic(name, [OffsetDeleteRequestPartition(partition)])]
    response: OffsetDeleteResponse = client.call(
        OFFSET_DELETE, OffsetDeleteRequest(group, topics), 0
    )
    return response
