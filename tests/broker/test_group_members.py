"""Members of groups over the wire: every version joins, syncs, beats, leaves, and is described."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from broker.answers.decisions.budgets import PROTOCOLS_MAX
from broker.groups.decisions.group import Member
from logstore.errors import OutcomeUnknown
from logstore.wire.errors import ErrorCode
from logstore.wire.framing.apis import encode_request_frame
from logstore.wire.messages.describe_groups import DescribeGroupsRequest
from logstore.wire.messages.join_group import JoinGroupResponse
from logstore.wire.messages.leave_group import LeaveGroupRequest
from logstore.wire.messages.list_groups import ListGroupsRequest
from logstore.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.group_calls import (
    DESCRIBE_GROUPS,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_GROUPS,
    coordinating_broker,
    describe,
    find_coordinator,
    heartbeat,
    join,
    join_request,
    leave,
    member_of,
    sync,
)
from tests.broker.running import METADATA, Running, batch_of, produce, running_broker
from tools.full_wire import APIS, Connection


@pytest.fixture(scope="module")
def shared() -> Iterator[Running]:
    with coordinating_broker() as running:
        yield running


def test_asking_for_a_coordinator_creates_the_topic_of_groups() -> None:
    with running_broker() as running, running.connect() as client:
        found = find_coordinator(client, "g")
        assert (found.error_code, found.node_id, found.port) == (0, 1, running.listener.port)
        topic = running.log.topics["__consumer_offsets"]
        assert topic.partition_count == 50
        assert topic.configs["cleanup.policy"] == "compact"


def test_asking_for_its_metadata_creates_it_no_other_way() -> None:
    with running_broker() as running, running.connect() as client:
        wanted = MetadataRequest([MetadataRequestTopic(name="__consumer_offsets")], True)
        client.call(METADATA, wanted)
        running.wait_until(lambda: "__consumer_offsets" in running.log.topics)
        assert running.log.topics["__consumer_offsets"].partition_count == 50


def test_no_client_writes_to_the_topic_of_groups(client: Connection) -> None:
    answer = produce(client, "__consumer_offsets", batch_of(b"x"))
    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_broker_without_the_topic_coordinates_nothing() -> None:
    with running_broker() as running, running.connect() as client:
        assert join(client, "g").error_code == ErrorCode.NOT_COORDINATOR
        assert heartbeat(client, "g", "m") == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("version", range(10))
def test_every_version_joins(client: Connection, version: int) -> None:
    group = f"join-{version}"
    joined = join(client, group, version=version)

    assert joined.error_code == 0
    assert joined.generation_id == 1
    assert joined.leader == joined.member_id
    assert joined.member_id.startswith("logstore-")
    assert [(m.member_id, bytes(m.metadata)) for m in joined.members or ()] == [
        (joined.member_id, b"topics")
    ]
    assert joined.protocol_name == "range"


@pytest.mark.parametrize("version", range(4, 10))
def test_a_member_id_is_required_from_version_4_on(client: Connection, version: int) -> None:
    response = client.call(JOIN_GROUP, join_request("required"), version)

    assert response.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert response.member_id


@pytest.mark.parametrize("version", range(6))
def test_every_version_syncs(client: Connection, version: int) -> None:
    group = f"sync-{version}"
    joined = join(client, group)
    synced = sync(client, group, joined, {joined.member_id: b"mine"}, version=version)

    assert (synced.error_code, bytes(synced.assignment)) == (0, b"mine")


@pytest.mark.parametrize("version", range(5))
def test_every_version_beats(client: Connection, version: int) -> None:
    group = f"beat-{version}"
    member_id = member_of(client, group)

    assert heartbeat(client, group, member_id, version=version) == 0
    stale = heartbeat(client, group, member_id, 7, version=version)
    assert stale == ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize("version", range(3))
def test_every_old_version_leaves_alone(client: Connection, version: int) -> None:
    group = f"leave-{version}"
    member_id = member_of(client, group)
    request = LeaveGroupRequest(group, member_id)

    assert client.call(LEAVE_GROUP, request, version).error_code == 0
    again = client.call(LEAVE_GROUP, request, version).error_code
    assert again == ErrorCode.UNKNOWN_MEMBER_ID


def test_several_leave_at_once_each_with_its_code(client: Connection) -> None:
    member_id = member_of(client, "leave-many", instance_id="one")

    codes = leave(client, "leave-many", ("", "one"), ("stranger", None), (member_id, "one"))
    assert codes == [0, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID]


def test_a_group_without_a_name_is_refused(client: Connection) -> None:
    assert join(client, "").error_code == ErrorCode.INVALID_GROUP_ID
    assert heartbeat(client, "", "m") == ErrorCode.INVALID_GROUP_ID


def test_a_join_that_is_refused_leaves_no_group(client: Connection) -> None:
    refused = join(client, "short", session_ms=10)

    assert refused.error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert describe(client, "short").error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_two_members_wait_for_each_other(running: Running, client: Connection) -> None:
    with running.connect() as other, ThreadPoolExecutor() as threads:
        member_id = member_of(client, "two")
        newcomer = threads.submit(join, other, "two")
        running.wait_until(lambda: _state(running, "two") == "PreparingRebalance")
        beat = heartbeat(client, "two", member_id)
        joined: JoinGroupResponse = join(client, "two", member_id)
        joined_other = newcomer.result()
        waiting = threads.submit(sync, other, "two", joined_other)
        parts = {joined.member_id: b"a", joined_other.member_id: b"b"}
        own = sync(client, "two", joined, parts)

        assert beat == ErrorCode.REBALANCE_IN_PROGRESS
        assert joined.generation_id == joined_other.generation_id == 2
        assert (bytes(own.assignment), bytes(waiting.result().assignment)) == (b"a", b"b")


def test_a_member_whose_connection_breaks_is_not_waited_for_for_ever(running: Running) -> None:
    with running.connect() as client, running.connect() as other:
        join(client, "broken", session_ms=6000)
        other.send_raw(_frame_of_join("broken"))
        running.wait_until(lambda: _state(running, "broken") == "PreparingRebalance")
        other.close()
        running.wait_until(lambda: all(m.joining is None for m in _members(running, "broken")))


def _frame_of_join(group: str) -> bytes:

    frame = encode_request_frame(1, APIS[JOIN_GROUP], 3, "raw", join_request(group))
    return b"".join(bytes(part) for part in frame)


def _members(running: Running, group: str) -> list[Member]:
    coordinator = running.broker.groups.find(group)
    assert not isinstance(coordinator, ErrorCode)
    found = coordinator.states.get(group)
    return [] if found is None else list(found.members.values())


def _state(running: Running, group: str) -> str:
    coordinator = running.broker.groups.find(group)
    assert not isinstance(coordinator, ErrorCode)
    found = coordinator.states.get(group)
    return "" if found is None else found.phase.value


@pytest.mark.parametrize("version", range(7))
def test_every_version_describes(client: Connection, version: int) -> None:
    group = f"describe-{version}"
    member_id = member_of(client, group, instance_id="one")
    found = describe(client, group, version)

    assert (found.error_code, found.group_id, found.group_state) == (0, group, "Stable")
    assert (found.protocol_type, found.protocol_data) == ("consumer", "range")
    member = (found.members or [])[0]
    assert (member.member_id, member.client_id) == (member_id, "logstore")
    assert member.client_host == "/127.0.0.1"
    assert (bytes(member.member_metadata), bytes(member.member_assignment)) == (b"topics", b"part")
    if version >= 4:
        assert member.group_instance_id == "one"


def test_allowed_operations_on_a_group_are_in_the_response_if_requested(client: Connection) -> None:
    member_of(client, "bits")
    request = DescribeGroupsRequest(["bits"], include_authorized_operations=True)
    (found,) = client.call(DESCRIBE_GROUPS, request, 6).groups

    assert found.authorized_operations == 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11


@pytest.mark.parametrize("version", range(7))
def test_a_group_that_is_not_there_is_dead(client: Connection, version: int) -> None:
    found = describe(client, "unknown", version)

    assert found.group_state == "Dead"
    assert found.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0)


@pytest.mark.parametrize("version", range(6))
def test_every_version_lists(client: Connection, version: int) -> None:
    member_of(client, f"list-{version}")
    response = client.call(LIST_GROUPS, ListGroupsRequest([], []), version)
    found = {group.group_id: group for group in response.groups}[f"list-{version}"]

    assert (response.error_code, found.protocol_type) == (0, "consumer")
    if version >= 4:
        assert found.group_state == "Stable"
    if version >= 5:
        assert found.group_type == "classic"


def test_groups_are_listed_by_state(client: Connection) -> None:
    member_of(client, "listed-by-state")
    empty = client.call(LIST_GROUPS, ListGroupsRequest(["Empty"], []), 5).groups
    stable = client.call(LIST_GROUPS, ListGroupsRequest(["stable"], ["classic"]), 5).groups

    assert "listed-by-state" not in {group.group_id for group in empty}
    assert "listed-by-state" in {group.group_id for group in stable}


def test_a_broker_that_stops_answers_who_waits() -> None:
    with (
        coordinating_broker() as running,
        ThreadPoolExecutor() as threads,
        running.connect() as client,
        running.connect() as other,
    ):
        member_of(client, "stopping")
        waiting = threads.submit(join, other, "stopping")
        running.wait_until(lambda: _state(running, "stopping") == "PreparingRebalance")
        running.stop()
        assert waiting.result().error_code == ErrorCode.NOT_COORDINATOR


def test_nothing_is_answered_before_it_is_committed(running: Running, client: Connection) -> None:
    member_id = member_of(client, "held")
    running.hold_store()
    with ThreadPoolExecutor() as threads:
        rejoin = threads.submit(join, client, "held", member_id)
        running.wait_until(lambda: _state(running, "held") == "CompletingRebalance")
        assert not rejoin.done()
        running.let_store_go()
        assert rejoin.result().generation_id == 2


def test_a_member_with_more_protocols_than_any_client_has_is_refused(client: Connection) -> None:
    protocols = [(f"p{number}", b"") for number in range(PROTOCOLS_MAX + 1)]
    assert join(client, "protocols", protocols=protocols[1:]).error_code == 0

    with pytest.raises(OutcomeUnknown):
        join(client, "protocols", protocols=protocols)
