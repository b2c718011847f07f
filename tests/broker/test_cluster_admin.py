"""Three brokers: any of them takes any admin request, and all come to show the same."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from broker.answers.broker import CHANGES_MAX
from broker.network.authorizer import AllowAll, Operation
from logstore.formats.feed_row import FeedChange
from logstore.formats.partition_row import PartitionRow
from logstore.protocol.topics.life import create_topic
from logstore.wire.errors import ErrorCode
from logstore.wire.framing.apis import encode_request_frame
from logstore.wire.framing.client import Connection
from logstore.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from logstore.wire.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from logstore.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from logstore.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)
from logstore.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
)
from tests.broker.handlers.test_create_partitions import grow
from tests.broker.handlers.test_create_partitions import topic as growing
from tests.broker.handlers.test_create_topics import create
from tests.broker.handlers.test_create_topics import topic as new_topic
from tests.broker.handlers.test_delete_records import delete
from tests.broker.handlers.test_incremental_alter_configs import SET, TOPIC, alter, resource
from tests.broker.network.test_authorizer import deny
from tests.broker.running import METADATA, Running, batch_of, fetch, produce
from tests.broker.running_cluster import running_cluster
from tools.full_wire import APIS

ELECT_LEADERS, ALTER_REASSIGNMENTS, LIST_REASSIGNMENTS, DESCRIBE_CLUSTER = 43, 45, 46, 60
PREFERRED, UNCLEAN = 0, 1
Brokers = dict[int, Running]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Brokers]:
    with running_cluster(3) as brokers:
        yield brokers


@pytest.fixture
def brokers(cluster: Brokers) -> Iterator[Brokers]:
    yield cluster
    for one in cluster.values():
        one.authorizer.rule = AllowAll()


@pytest.fixture
def client(brokers: Brokers) -> Iterator[Connection]:
    with brokers[1].connect() as connection:
        yield connection


def partitions_of(client: Connection, name: str) -> list[MetadataResponsePartition]:
    request = MetadataRequest([MetadataRequestTopic(name=name)], False)
    response: MetadataResponse = client.call(METADATA, request, 12)
    return response.topics[0].partitions


def known_everywhere(brokers: Brokers, name: str) -> None:
    """Wait until the topic's partitions are led, each by the broker that its row names."""
    for number, one in brokers.items():
        one.wait_until(lambda one=one: name in one.log.topics)  # type: ignore[misc]
        topic = one.log.topics[name]
        mine = [n for n, row in enumerate(topic.rows) if row.broker == number]
        one.wait_until(lambda topic=topic, mine=mine: set(mine) <= topic.leaders.keys())  # type: ignore[misc]


def make(brokers: Brokers, client: Connection, name: str, *assigned: list[int]) -> None:
    (result,) = create(client, new_topic(name, -1, -1, assignments=dict(enumerate(assigned))))
    assert result.error_code == 0, result.error_message
    known_everywhere(brokers, name)


# Being shown


def test_every_broker_shows_all_at_the_addresses_of_their_listeners(brokers: Brokers) -> None:
    wanted = [(n, "127.0.0.1", one.listener.port, "abc"[n - 1]) for n, one in brokers.items()]
    for one in brokers.values():
        with one.connect() as client:
            reported: MetadataResponse = client.call(METADATA, MetadataRequest([]), 12)
            same: DescribeClusterResponse = client.call(
                DESCRIBE_CLUSTER, DescribeClusterRequest(), 2
            )

        assert [(b.node_id, b.host, b.port, b.rack) for b in reported.brokers] == wanted
        assert [(b.broker_id, b.host, b.port, b.rack) for b in same.brokers] == wanted
        assert reported.controller_id in brokers


@pytest.mark.slow
def test_a_broker_that_stopped_is_fenced_and_its_partitions_have_no_leader() -> None:
    with running_cluster(2) as brokers, brokers[1].connect() as client:
        make(brokers, client, "half", [2, 1], [1, 2])
        brokers[2].stop()
        brokers[1].wait_until(lambda: brokers[1].log.live_brokers().keys() == {1})
        without, with_leader = partitions_of(client, "half")
        fenced = DescribeClusterRequest(include_fenced_brokers=True)
        reported: DescribeClusterResponse = client.call(DESCRIBE_CLUSTER, fenced, 2)
        alive: DescribeClusterResponse = client.call(DESCRIBE_CLUSTER, DescribeClusterRequest(), 2)
        shown: MetadataResponse = client.call(METADATA, MetadataRequest([]), 12)

    assert (without.error_code, without.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert (without.replica_nodes, without.isr_nodes, without.offline_replicas) == (
        [2, 1],
        [1],
        [2],
    )
    assert (with_leader.error_code, with_leader.leader_id) == (0, 1)
    assert [(one.broker_id, one.is_fenced) for one in reported.brokers] == [(1, False), (2, True)]
    assert [one.broker_id for one in alive.brokers] == [1]
    assert [one.node_id for one in shown.brokers] == [1]


# Creating and changing topics


def test_partitions_and_replicas_are_spread_over_all(brokers: Brokers, client: Connection) -> None:
    (result,) = create(client, new_topic("spread", 6, 2))
    known_everywhere(brokers, "spread")
    reported = partitions_of(client, "spread")

    assert (result.error_code, result.replication_factor) == (0, 2)
    assert sorted(one.leader_id for one in reported) == [1, 1, 2, 2, 3, 3]
    assert all(len(one.replica_nodes) == 2 for one in reported)
    assert all(one.replica_nodes[0] == one.leader_id for one in reported)
    with brokers[2].connect() as other:
        assert partitions_of(other, "spread") == reported


def test_there_are_no_more_replicas_than_brokers(brokers: Brokers, client: Connection) -> None:
    (result,) = create(client, new_topic("five", 1, 5))

    assert (result.error_code, result.replication_factor) == (0, 3)
    assert brokers[1].log.topics["five"].replicas == 5


@pytest.mark.parametrize(
    "assigned", [{0: [1, 4]}, {0: [2, 2]}, {0: [1, 2], 1: [3]}], ids=["stranger", "twice", "uneven"]
)
def test_bad_assignments_are_refused(client: Connection, assigned: dict[int, list[int]]) -> None:
    (result,) = create(client, new_topic("never", -1, -1, assignments=assigned))

    assert result.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_new_partitions_are_led_where_they_are_assigned(
    brokers: Brokers, client: Connection
) -> None:
    make(brokers, client, "grown", [1, 2])
    (uneven,) = grow(client, growing("grown", 2, [3]))
    (result,) = grow(client, growing("grown", 3, [3, 1], [2, 3]))
    brokers[3].wait_until(lambda: 1 in brokers[3].log.topics["grown"].leaders)
    with brokers[3].connect() as third:
        written = produce(third, "grown", batch_of(b"x"), partition=1)

    assert uneven.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert (result.error_code, written.error_code) == (0, 0)
    reported = [one.replica_nodes for one in partitions_of(client, "grown")]
    assert reported == [[1, 2], [3, 1], [2, 3]]


def test_every_broker_goes_by_changed_configs(brokers: Brokers, client: Connection) -> None:
    make(brokers, client, "configured", [2])
    change = ("max.message.bytes", SET, "50")
    assert alter(client, resource(TOPIC, "configured", change))[0].error_code == 0
    second = brokers[2]
    second.wait_until(lambda: bool(second.log.topics["configured"].configs))
    with second.connect() as leader:
        written = produce(leader, "configured", batch_of(b"x" * 100))

    assert written.error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_only_the_leader_deletes_records(brokers: Brokers, client: Connection) -> None:
    make(brokers, client, "deleted", [2, 1])
    with brokers[2].connect() as leader:
        assert produce(leader, "deleted", batch_of(b"x", b"y")).error_code == 0
        assert delete(client, "deleted", 1)[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert delete(leader, "deleted", 1)[0].low_watermark == 1


def test_log_start_survives_a_move(brokers: Brokers, client: Connection) -> None:
    make(brokers, client, "moved", [1, 2])
    assert produce(client, "moved", batch_of(b"x", b"y", b"z")).error_code == 0
    assert delete(client, "moved", 2)[0].low_watermark == 2
    assert reassign(client, "moved", {0: [2]}) == {0: 0}
    second = brokers[2]
    second.wait_until(lambda: 0 in second.log.topics["moved"].leaders)
    with second.connect() as leader:
        kept = fetch(leader, "moved", offset=2)

    assert (kept.error_code, kept.log_start_offset, kept.high_watermark) == (0, 2, 3)


# Reassigning


def reassign(
    client: Connection, name: str, wanted: dict[int, list[int] | None], **fields: bool
) -> dict[int, int]:
    """Error codes by partition."""
    asked = [ReassignablePartition(n, replicas) for n, replicas in wanted.items()]
    request = AlterPartitionReassignmentsRequest(
        20_000, topics=[ReassignableTopic(name, asked)], **fields
    )
    response: AlterPartitionReassignmentsResponse = client.call(ALTER_REASSIGNMENTS, request)
    assert response.error_code == 0
    return {one.partition_index: one.error_code for one in response.responses[0].partitions}


def ongoing(
    client: Connection, name: str | None = None, *numbers: int
) -> dict[tuple[str, int], tuple[list[int], list[int], list[int]]]:
    topics = None if name is None else [ListPartitionReassignmentsTopics(name, list(numbers))]
    response: ListPartitionReassignmentsResponse = client.call(
        LIST_REASSIGNMENTS, ListPartitionReassignmentsRequest(1000, topics)
    )
    return {
        (topic.name, one.partition_index): (
            one.replicas,
            one.adding_replicas,
            one.removing_replicas,
        )
        for topic in response.topics
        for one in topic.partitions
    }


def test_a_partition_moves_with_its_records(brokers: Brokers, client: Connection) -> None:
    make(brokers, client, "moves", [1, 2])
    assert produce(client, "moves", batch_of(b"x")).error_code == 0
    assert reassign(client, "moves", {0: [3, 2]}) == {0: 0}
    third = brokers[3]
    third.wait_until(lambda: 0 in third.log.topics["moves"].leaders)
    first = brokers[1].log.topics["moves"]
    brokers[1].wait_until(lambda: first.rows[0].broker == 3)
    (reported,) = partitions_of(client, "moves")
    with third.connect() as leader:
        assert fetch(leader, "moves").high_watermark == 1
        assert produce(leader, "moves", batch_of(b"y")).base_offset == 1

    assert (reported.leader_id, reported.leader_epoch, reported.replica_nodes) == (3, 1, [3, 2])
    assert ongoing(client) == {}


def test_replicas_change_at_once_where_the_leader_stays(
    brokers: Brokers, client: Connection
) -> None:
    make(brokers, client, "stays", [1, 2])
    assert reassign(client, "stays", {0: [3, 1]}) == {0: 0}
    topic = brokers[1].log.topics["stays"]
    brokers[1].wait_until(lambda: topic.rows[0].replicas == (3, 1))

    assert (topic.rows[0].broker, topic.rows[0].leader_epoch) == (1, 0)


def test_fewer_replicas_lower_what_the_topic_asks_for(brokers: Brokers, client: Connection) -> None:
    """Else the controller, which fills lists up to that, would undo it."""
    make(brokers, client, "fewer", [1, 2], [2, 1])
    topic = brokers[1].log.topics["fewer"]
    assert topic.replicas == 2
    assert reassign(client, "fewer", {0: [1]}) == {0: 0}
    brokers[1].wait_until(lambda: topic.rows[0].replicas == (1,))

    assert topic.replicas == 1
    assert topic.rows[1].replicas == (2, 1)


def test_each_misuse_has_its_code(brokers: Brokers, client: Connection) -> None:
    make(brokers, client, "misused", [1, 2], [2, 3])

    assert reassign(client, "misused", {0: [9], 1: [], 2: [1], -1: [1]}) == {
        0: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        1: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        2: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        -1: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert reassign(client, "nowhere", {0: [1]}) == {0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    nothing = {0: ErrorCode.NO_REASSIGNMENT_IN_PROGRESS}
    assert reassign(client, "misused", {0: None}) == nothing
    resized = reassign(client, "misused", {0: [1]}, allow_replication_factor_change=False)
    assert resized == {0: ErrorCode.INVALID_REPLICATION_FACTOR}


def test_a_reassignment_under_way_is_listed_and_can_be_cancelled(
    brokers: Brokers, client: Connection
) -> None:
    make(brokers, client, "slow", [1, 2], [1, 2])
    brokers[1].hold_store()  # so that nothing can be released
    assert reassign(client, "slow", {0: [3, 2]}) == {0: 0}
    topic = brokers[1].log.topics["slow"]
    brokers[1].wait_until(lambda: bool(topic.rows[0].reassigning))
    wanted = {("slow", 0): ([3, 2, 1], [3], [1])}

    assert ongoing(client) == ongoing(client, "slow", 0, 1, 9) == wanted
    assert ongoing(client, "slow", 1) == ongoing(client, "nowhere", 0) == {}
    assert reassign(client, "slow", {0: None}) == {0: 0}
    brokers[1].let_store_go()
    brokers[1].wait_until(lambda: not topic.rows[0].reassigning)
    assert topic.rows[0].replicas == (1, 2)


def test_reassigning_needs_rights_on_the_cluster(brokers: Brokers, client: Connection) -> None:
    make(brokers, client, "guarded", [1, 2])
    deny(brokers[1], Operation.ALTER, Operation.DESCRIBE)
    altered: AlterPartitionReassignmentsResponse = client.call(
        ALTER_REASSIGNMENTS, AlterPartitionReassignmentsRequest()
    )
    listed: ListPartitionReassignmentsResponse = client.call(
        LIST_REASSIGNMENTS, ListPartitionReassignmentsRequest()
    )
    elected: ElectLeadersResponse = client.call(ELECT_LEADERS, ElectLeadersRequest())
    codes = [altered.error_code, listed.error_code, elected.error_code]

    assert codes == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED] * 3


# Electing


def elect(
    client: Connection,
    name: str | None,
    *numbers: int,
    kind: int = PREFERRED,
    version: int = 2,
    timeout_ms: int = 15_000,
) -> dict[tuple[str, int], int]:
    """Error codes by topic and partition."""
    topics = None if name is None else [TopicPartitions(name, list(numbers))]
    response: ElectLeadersResponse = client.call(
        ELECT_LEADERS, ElectLeadersRequest(kind, topics, timeout_ms), version
    )
    assert response.error_code == 0
    return {
        (topic.topic, one.partition_id): one.error_code
        for topic in response.replica_election_results
        for one in topic.partition_result
    }


@pytest.mark.parametrize("version", range(3))
def test_the_preferred_leader_leads_when_the_answer_leaves(
    brokers: Brokers, client: Connection, version: int
) -> None:
    name = f"elected-{version}"
    make(brokers, client, name, [1, 2], [2, 1])
    reassign(client, name, {0: [2, 1]})
    topic = brokers[1].log.topics[name]
    brokers[1].wait_until(lambda: topic.rows[0].replicas == (2, 1))

    assert elect(client, name, 0, 1, 7, version=version) == {
        (name, 0): 0,
        (name, 1): ErrorCode.ELECTION_NOT_NEEDED,
        (name, 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert (topic.rows[0].broker, topic.rows[0].leader_epoch) == (2, 1)
    second = brokers[2]
    second.wait_until(lambda: 0 in second.log.topics[name].leaders)
    with second.connect() as leader:
        assert produce(leader, name, batch_of(b"x")).error_code == 0


def test_an_election_for_all_tells_of_those_that_needed_one(
    brokers: Brokers, client: Connection
) -> None:
    make(brokers, client, "among", [1, 2], [1, 2])
    reassign(client, "among", {1: [2, 1]})
    topic = brokers[1].log.topics["among"]
    brokers[1].wait_until(lambda: topic.rows[1].replicas == (2, 1))
    reported = elect(client, None)

    assert reported[("among", 1)] == 0
    assert ("among", 0) not in reported
    assert elect(client, None) == {}


def test_a_target_that_came_before_the_claim_is_followed(
    brokers: Brokers, client: Connection
) -> None:
    """As when an election is asked for while its leader-to-be still reads the records' state."""
    chain = brokers[2].log.epoch
    row = replace(PartitionRow.new(2, chain, (1, 2)), target=1)
    brokers[1].wait_for(brokers[1].log.runner.run(create_topic("early", [row], {}, replicas=2)))
    brokers[1].wait_for(brokers[1].log.publish([FeedChange("early", bytes(16))]))
    first = brokers[1].log
    brokers[1].wait_until(lambda: "early" in first.topics and 0 in first.topics["early"].leaders)

    assert partitions_of(client, "early")[0].leader_epoch == 1


def test_an_election_that_takes_long_is_reported(brokers: Brokers, client: Connection) -> None:
    make(brokers, client, "waits", [1, 2])
    reassign(client, "waits", {0: [2, 1]})
    topic = brokers[1].log.topics["waits"]
    brokers[1].wait_until(lambda: topic.rows[0].replicas == (2, 1))
    brokers[1].hold_store()
    late = elect(client, "waits", 0, timeout_ms=300)
    brokers[1].let_store_go()
    brokers[1].wait_until(lambda: topic.rows[0].broker == 2)

    assert late == {("waits", 0): ErrorCode.REQUEST_TIMED_OUT}


def test_elections_that_wait_keep_no_other_change_waiting(
    brokers: Brokers, client: Connection
) -> None:
    count = CHANGES_MAX + 1
    make(brokers, client, "beside", [1, 2])
    make(brokers, client, "many", *[[1, 2]] * count)
    reassign(client, "many", {number: [2, 1] for number in range(count)})
    topic = brokers[1].log.topics["many"]
    brokers[1].wait_until(lambda: all(row.replicas == (2, 1) for row in topic.rows))
    brokers[1].hold_store()  # so that nothing can be released
    with brokers[1].connect() as waiting:
        for number in range(count):
            request = ElectLeadersRequest(
                PREFERRED, [TopicPartitions("many", [number])], timeout_ms=2**31 - 1
            )
            parts = encode_request_frame(number, APIS[ELECT_LEADERS], 2, "me", request)
            waiting.send_raw(b"".join(parts))
        brokers[1].wait_until(lambda: all(row.target == 2 for row in topic.rows))
        changed = reassign(client, "beside", {0: [2, 1]})
        brokers[1].let_store_go()
        answers = [waiting.read_frame() for _ in range(count)]

    assert changed == {0: 0}
    assert [int.from_bytes(answer[:4], "big") for answer in answers] == list(range(count))
    assert all(row.broker == 2 for row in topic.rows)


def test_elections_of_no_need_or_unknown_partitions_are_refused(
    brokers: Brokers, client: Connection
) -> None:
    make(brokers, client, "led", [1, 2])
    unknown: ElectLeadersResponse = client.call(ELECT_LEADERS, ElectLeadersRequest(5), 2)

    assert elect(client, "led", 0, kind=UNCLEAN) == {("led", 0): ErrorCode.ELECTION_NOT_NEEDED}
    assert elect(client, "nowhere", 0)[("nowhere", 0)] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert unknown.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.slow
def test_a_preferred_leader_that_is_gone_is_not_elected() -> None:
    with running_cluster(2) as brokers, brokers[1].connect() as client:
        make(brokers, client, "gone", [1, 2])
        reassign(client, "gone", {0: [2, 1]})
        topic = brokers[1].log.topics["gone"]
        brokers[1].wait_until(lambda: topic.rows[0].replicas == (2, 1))
        brokers[2].stop()
        brokers[1].wait_until(lambda: brokers[1].log.live_brokers().keys() == {1})
        reported = elect(client, "gone", 0)

    assert reported == {("gone", 0): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
