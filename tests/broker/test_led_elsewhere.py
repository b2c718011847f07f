"""Partitions that another broker leads: answers name it; followers serve consumers nearby."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from broker.answers import leader_settling
from logstore.epoch.catalog import LeadershipChanges, Move
from logstore.epoch.log import Topic
from logstore.formats.feed_row import FeedChange
from logstore.formats.index_rows import row_at
from logstore.formats.keys import segment_key
from logstore.formats.partition_row import partition_pk, partition_sk
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.fetch import FetchResponse, PartitionData
from logstore.wire.messages.fetch import LeaderIdAndEpoch as FetchLeader
from logstore.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from logstore.wire.messages.produce import LeaderIdAndEpoch, ProduceResponse
from tests.broker.handlers.test_fetch import offsets
from tests.broker.running import (
    DEADLINE_S,
    FETCH,
    LIST_OFFSETS,
    PRODUCE,
    Running,
    batch_of,
    fetch_request,
    produce,
    produce_request,
)
from tests.broker.running_cluster import running_cluster

Brokers = dict[int, Running]
REPLICAS = (1, 2)
"""Broker 1, in rack a, leads; broker 2, in rack b, follows; broker 3, in rack c, does neither."""


@pytest.fixture(scope="module")
def brokers() -> Iterator[Brokers]:
    with running_cluster(3) as running:
        yield running


def create(brokers: Brokers, name: str, partitions: int = 1) -> Topic:
    """A topic that every broker knows of, and that broker 2 is ready to serve."""
    one = brokers[1]
    work = one.log.create_topic(name, partitions, {}, assignments=[REPLICAS] * partitions)
    topic = asyncio.run_coroutine_threadsafe(work, one._loop).result(DEADLINE_S)
    for running in brokers.values():
        running.wait_until(lambda known=running.log.topics: name in known)  # type: ignore[misc]
    two = brokers[2]
    two.wait_until(lambda: all(f.is_ready for f in two.log.topics[name].followers.values()))
    one.wait_until(lambda: one.log.epoch in one.log.brokers[2].followed)
    return topic


def follow_up(brokers: Brokers, name: str, offset: int, partition: int = 0) -> None:
    """Until broker 2 knows that everything below `offset` is committed."""
    followed = brokers[2].log.topics[name].followers[partition]
    brokers[2].wait_until(lambda: followed.high_watermark >= offset)


def fetch_from(
    running: Running, name: str, *, version: int = 16, rack: str = "", **fields: int
) -> tuple[PartitionData, FetchResponse]:
    request = fetch_request(name, topic_id=running.log.topics[name].topic_id, **fields)
    request.rack_id = rack
    with running.connect() as client:
        response: FetchResponse = client.call(FETCH, request, version)
    return response.responses[0].partitions[0], response


@pytest.mark.slow
@pytest.mark.parametrize("version", [3, 9, 10, 12, 13])
def test_produce_tells_who_leads(brokers: Brokers, version: int) -> None:
    topic = create(brokers, f"produce-{version}")
    request = produce_request(topic.name, batch_of(b"a"), topic_id=topic.topic_id)
    with brokers[2].connect() as client:
        response: ProduceResponse = client.call(PRODUCE, request, version)
    outcome = response.responses[0].partition_responses[0]

    assert outcome.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    if version >= 10:
        assert outcome.current_leader is not None
        assert (outcome.current_leader.leader_id, outcome.current_leader.leader_epoch) == (1, 0)
        (node,) = response.node_endpoints
        assert (node.node_id, node.port, node.rack) == (1, brokers[1].listener.port, "a")
    else:
        assert not response.node_endpoints


@pytest.mark.parametrize("version", [4, 11, 12, 16, 18])
def test_fetch_at_a_broker_without_the_partition_tells_who_leads(
    brokers: Brokers, version: int
) -> None:
    create(brokers, f"fetch-{version}")
    data, response = fetch_from(brokers[3], f"fetch-{version}", version=version)

    assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    if version < 16:  # an older answer has no room for an address: kafka-python waits for ever
        assert data.current_leader is None
    else:
        assert data.current_leader is not None
        assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (1, 0)
        (node,) = response.node_endpoints
        assert (node.node_id, node.port, node.rack) == (1, brokers[1].listener.port, "a")


def test_a_partition_that_is_not_there_is_unknown_everywhere(brokers: Brokers) -> None:
    create(brokers, "small")
    for running in brokers.values():
        data, _ = fetch_from(running, "small", partition=1)
        assert data.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        with running.connect() as client:
            outcome = produce(client, "small", batch_of(b"a"), partition=1)
        assert outcome.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_offsets_are_the_leaders_to_list(brokers: Brokers) -> None:
    create(brokers, "listed")
    asked = ListOffsetsTopic("listed", [ListOffsetsPartition(0, -1, -1)])
    codes = []
    for running in brokers.values():
        with running.connect() as client:
            response = client.call(LIST_OFFSETS, ListOffsetsRequest(-1, 0, [asked]), 6)
        codes.append(response.topics[0].partitions[0].error_code)

    assert codes == [0, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_a_follower_serves_what_is_committed_and_waits_for_more(brokers: Brokers) -> None:
    create(brokers, "followed")
    with brokers[1].connect() as client:
        for _ in range(3):
            produce(client, "followed", batch_of(b"a", b"b"))
    follow_up(brokers, "followed", 6)

    data, _ = fetch_from(brokers[2], "followed", offset=3)
    assert (data.error_code, data.high_watermark, offsets(data)) == (0, 6, [2, 4])
    beyond, _ = fetch_from(brokers[2], "followed", offset=99)
    assert (beyond.error_code, beyond.high_watermark, offsets(beyond)) == (0, 6, [])
    before, _ = fetch_from(brokers[2], "followed", offset=-1)
    assert before.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_wait_at_a_follower_ends_with_what_its_leader_commits(brokers: Brokers) -> None:
    topic = create(brokers, "tail")
    two = brokers[2]
    got: list[PartitionData] = []

    def read() -> None:
        got.append(fetch_from(two, "tail", max_wait_ms=20_000)[0])

    waiting = threading.Thread(target=read)
    waiting.start()
    followed = two.log.topics["tail"].followers[0]
    two.wait_until(lambda: bool(followed._watchers))
    with brokers[1].connect() as producer:
        produce(producer, topic.name, batch_of(b"late"))
    waiting.join(DEADLINE_S)

    assert [offsets(data) for data in got] == [[0]]


def test_old_consumers_read_from_leaders_only(brokers: Brokers) -> None:
    create(brokers, "old")
    data, _ = fetch_from(brokers[2], "old", version=10)

    assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(("rack", "expected"), [("a", -1), ("b", 2), ("c", -1), ("", -1)])
def test_the_leader_names_a_follower_in_the_consumers_rack(
    brokers: Brokers, rack: str, expected: int
) -> None:
    name = f"rack-{rack}"
    create(brokers, name)
    with brokers[1].connect() as client:
        produce(client, name, batch_of(b"a"))
    data, _ = fetch_from(brokers[1], name, rack=rack, max_wait_ms=20_000)

    assert (data.error_code, data.preferred_read_replica) == (0, expected)
    assert offsets(data) == ([] if expected >= 0 else [0])


def test_a_consumer_that_comes_back_from_a_follower_is_served_by_the_leader(
    brokers: Brokers,
) -> None:
    """Whatever kept it: the leader cannot know whether it reached that broker at all."""
    topic = create(brokers, "back")
    with brokers[1].connect() as client:
        produce(client, "back", batch_of(b"a"))
        asked = fetch_request("back", topic_id=topic.topic_id)
        asked.rack_id = "b"
        answers = [client.call(FETCH, asked, 12).responses[0].partitions[0] for _ in range(3)]

    assert [one.preferred_read_replica for one in answers] == [2, -1, -1]
    assert [offsets(one) for one in answers] == [[], [0], [0]]


@pytest.mark.slow
def test_a_follower_that_cannot_read_sends_consumers_back_and_is_named_no_more() -> None:
    """Its leader has in memory what the store has lost."""
    with running_cluster(2) as brokers:
        topic = create(brokers, "lost")
        one, two = brokers[1], brokers[2]
        with one.connect() as client:
            produce(client, "lost", batch_of(b"a"))
            produce(client, "lost", batch_of(b"b"))
        follow_up(brokers, "lost", 2)
        assert fetch_from(one, "lost", rack="b")[0].preferred_read_replica == 2
        row = row_at(two.log.topics["lost"].followers[0].rows_for_offset(0)[0], 0)
        one.shared.objects.delete(segment_key(one.log.epoch, row.seq))

        data, _ = fetch_from(two, "lost", rack="b")
        assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert data.current_leader is not None
        assert data.current_leader.leader_id == 1
        one.wait_until(lambda: one.log.epoch not in one.log.brokers[2].followed)
        data, _ = fetch_from(one, "lost", rack="b")
        assert (data.error_code, data.preferred_read_replica, offsets(data)) == (0, -1, [0, 1])
        assert not topic.leaders[0].is_released


def test_leader_epochs_are_checked_at_followers_too(brokers: Brokers) -> None:
    create(brokers, "epochs")
    newer, _ = fetch_from(brokers[2], "epochs", epoch=1)

    assert newer.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert newer.current_leader is not None and newer.current_leader.leader_id == 1


@pytest.mark.slow
def test_a_partition_that_moves_is_served_by_both_throughout(brokers: Brokers) -> None:
    """Who led it sends producers on; consumers go on at whom they were reading from."""
    topic = create(brokers, "moving")
    with brokers[1].connect() as client:
        produce(client, "moving", batch_of(b"a", b"b"))
    one, two = brokers[1], brokers[2]
    asyncio.run_coroutine_threadsafe(ask_to_move(one, topic), one._loop).result(DEADLINE_S)
    two.wait_until(lambda: 0 in two.log.topics["moving"].leaders)
    one.wait_until(lambda: 0 in topic.followers and topic.followers[0].is_ready)

    with one.connect() as client:
        refused = produce(client, "moving", batch_of(b"c"))
    assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert refused.current_leader is not None
    assert (refused.current_leader.leader_id, refused.current_leader.leader_epoch) == (2, 1)
    with two.connect() as client:
        assert produce(client, "moving", batch_of(b"c")).base_offset == 2
    one.wait_until(lambda: topic.followers[0].high_watermark == 3)
    for running in (one, two):
        for offset in (0, 2):
            data, _ = fetch_from(running, "moving", epoch=1, offset=offset)
            assert (data.error_code, offsets(data)) == (0, [offset])
    fenced, _ = fetch_from(two, "moving", epoch=0)
    assert fenced.error_code == ErrorCode.FENCED_LEADER_EPOCH


async def ask_to_move(running: Running, topic: Topic) -> None:
    place = partition_pk(topic.topic_id, 0), partition_sk(topic.topic_id, 0)
    await running.log.runner.registry.update_if(*place, {"target": 2})
    await running.log.publish([FeedChange(topic.name, topic.topic_id)])


@pytest.mark.parametrize("kind", ["produce", "fetch"])
def test_a_client_of_a_partition_that_is_handed_over_is_sent_to_its_next_leader(
    brokers: Brokers, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not away before that is known: it would ask for metadata, and be sent back here."""
    monkeypatch.setattr(leader_settling, "HOLD_S", DEADLINE_S)
    monkeypatch.setattr(leader_settling, "WINDOW_S", 2 * DEADLINE_S)
    topic, one = create(brokers, f"moved-{kind}"), brokers[1]
    leader = topic.leaders[0]
    one.hold_store()
    move = LeadershipChanges(moves=[Move(topic, leader, 2)])
    one.do(lambda: one.log._leading.begin(move))
    one.wait_until(lambda: leader.is_released)

    def ask() -> tuple[int, LeaderIdAndEpoch | FetchLeader | None]:
        if kind == "fetch":
            data, _ = fetch_from(one, topic.name, max_wait_ms=0)
            return data.error_code, data.current_leader
        request = produce_request(topic.name, batch_of(b"a"), topic_id=topic.topic_id)
        with one.connect() as client:
            response: ProduceResponse = client.call(PRODUCE, request, 13)
        outcome = response.responses[0].partition_responses[0]
        return outcome.error_code, outcome.current_leader

    with ThreadPoolExecutor() as threads:
        asked = threads.submit(ask)
        one.wait_until(lambda: one.broker.leader_settling.has_moves)
        one.store.let_go()
        code, named = asked.result(DEADLINE_S)
    if kind == "fetch" and named is None:
        assert code == ErrorCode.NONE, "it follows the next leader already"
    else:
        assert code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert named is not None
        assert (named.leader_id, named.leader_epoch) == (2, 1)
