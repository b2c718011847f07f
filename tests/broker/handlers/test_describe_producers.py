"""DescribeProducers: the idempotent producers that a partition keeps, and its open transactions."""

from itertools import count

import pytest

from broker.answers.decisions.budgets import BUDGETS, Budget
from broker.network.authorizer import Operation
from broker.network.turns import SLICE_S, Turns
from logstore.wire.errors import ErrorCode
from logstore.wire.framing.client import Connection
from logstore.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    TopicRequest,
)
from tests.broker.network.test_authorizer import deny
from tests.broker.running import NOW_MS, Running, batch_of, produce
from tests.broker.running_cluster import running_cluster
from tests.broker.test_cluster_admin import make

DESCRIBE_PRODUCERS = 61


def describe(
    client: Connection, *asked: tuple[str, list[int]]
) -> dict[tuple[str, int], PartitionResponse]:
    request = DescribeProducersRequest([TopicRequest(*one) for one in asked])
    response: DescribeProducersResponse = client.call(DESCRIBE_PRODUCERS, request, 0)
    shown = [(topic.name, one) for topic in response.topics for one in topic.partitions]
    found = {(name, one.partition_index): one for name, one in shown}
    assert len(found) == len(shown), "answered twice"
    return found


def lines(answer: PartitionResponse) -> list[tuple[int, int, int, int, int, int]]:
    return [
        (
            one.producer_id,
            one.producer_epoch,
            one.last_sequence,
            one.last_timestamp,
            one.coordinator_epoch,
            one.current_txn_start_offset,
        )
        for one in answer.active_producers
    ]


def write(
    client: Connection, name: str, producer: int, sequence: int = 0, *, epoch: int = 0, records: int
) -> None:
    fields = {"producer_id": producer, "producer_epoch": epoch, "base_sequence": sequence}
    batch = batch_of(*[b"x"] * records, **fields)
    assert produce(client, name, batch).error_code == 0


def test_producers_are_shown_with_their_last_batch(running: Running, client: Connection) -> None:
    running.create_topic("written", 2)
    write(client, "written", 7, records=2)
    write(client, "written", 7, 2, records=3)
    write(client, "written", 5, epoch=4, records=1)
    assert produce(client, "written", batch_of(b"plain")).error_code == 0

    found = describe(client, ("written", [0, 1]))

    assert lines(found["written", 0]) == [(5, 4, 0, NOW_MS, -1, -1), (7, 0, 4, NOW_MS, -1, -1)]
    assert lines(found["written", 1]) == []
    assert {one.error_code for one in found.values()} == {0}


def test_an_open_transaction_shows_where_it_began(running: Running, client: Connection) -> None:
    topic = running.create_topic("open")
    write(client, "open", 3, records=4)
    state = topic.leaders[0].epoch_range.state
    running.do(lambda: state.open_transactions.update({3: 2}))

    assert lines(describe(client, ("open", [0]))["open", 0]) == [(3, 0, 3, NOW_MS, -1, 2)]


def test_each_partition_has_its_own_outcome_once(running: Running, client: Connection) -> None:
    running.create_topic("mine")
    found = describe(
        client, ("mine", [0, 0, 1, -1]), ("nowhere", [0]), ("a/b", [0]), ("mine", [1, 0])
    )

    assert {key: one.error_code for key, one in found.items()} == {
        ("mine", 0): 0,
        ("mine", 1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("mine", -1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("nowhere", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("a/b", 0): ErrorCode.INVALID_TOPIC_EXCEPTION,
    }


def test_it_needs_read_on_the_topic(running: Running, client: Connection) -> None:
    running.create_topic("guarded")
    deny(running, Operation.READ)
    found = describe(client, ("guarded", [0]), ("nowhere", [0]))

    assert {one.error_code for one in found.values()} == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}


def test_producers_that_would_make_the_answer_too_large_are_refused_by_partition(
    running: Running, client: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BUDGETS, DESCRIBE_PRODUCERS, Budget(20, answer_bytes_max=37 * 3))
    running.create_topic("full", 2)
    for producer in range(3):
        write(client, "full", producer, records=1)
    found = describe(client, ("full", [0, 1]))

    assert len(found["full", 0].active_producers) == 3
    assert found["full", 1].error_code == ErrorCode.POLICY_VIOLATION


def test_thousands_of_producers_are_shown_in_slices(running: Running, client: Connection) -> None:
    topic = running.create_topic("crowded")
    write(client, "crowded", 1, records=1)
    state = topic.leaders[0].epoch_range.state

    def crowd() -> None:
        for producer in range(2, 5_002):
            state.apply_batch(producer, 0, 0, 1, 1, NOW_MS, NOW_MS)

    running.do(crowd)
    ticks = count()
    turns = Turns(running.broker.loop, running.broker.clients.holds, lambda: next(ticks) * SLICE_S)
    before, running.broker.turns = running.broker.turns, turns
    try:
        shown = describe(client, ("crowded", [0]))["crowded", 0].active_producers
    finally:
        running.broker.turns = before

    assert turns.taken_count >= 15  # states, items, bytes
    assert [one.producer_id for one in shown] == list(range(1, 5_002))


@pytest.mark.slow
def test_a_follower_shows_them_too_and_others_refuse() -> None:
    with (
        running_cluster(3) as brokers,
        brokers[1].connect() as leader,
        brokers[2].connect() as follower,
        brokers[3].connect() as other,
    ):
        make(brokers, leader, "followed", [1, 2])
        write(leader, "followed", 9, records=3)
        topic = brokers[2].log.topics["followed"]
        brokers[2].wait_until(lambda: topic.followers[0].high_watermark == 3)
        shown = [describe(one, ("followed", [0]))["followed", 0] for one in (leader, follower)]
        refused = describe(other, ("followed", [0]))["followed", 0]

    assert lines(shown[0]) == lines(shown[1]) == [(9, 0, 2, NOW_MS, -1, -1)]
    assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
