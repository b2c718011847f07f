"""A broker whose chain was sealed and that has not noticed: it says nothing that may be wrong."""

import asyncio
from collections.abc import Callable, Iterator

import pytest

from logstore.protocol.leading.takeover import Successor, take_over
from logstore.wire.errors import ErrorCode
from logstore.wire.framing.client import Connection
from logstore.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from logstore.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from logstore.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.broker.running import (
    DEADLINE_S,
    LIST_OFFSETS,
    Running,
    batch_of,
    fetch,
    produce,
)
from tests.broker.running_cluster import running_cluster
from tests.broker.session_consumer import SessionConsumer

DELETE_RECORDS = 21
OFFSET_FOR_LEADER_EPOCH = 23
NEVER_S = float("nan")
"""Neither before nor after any time: `max` keeps it, so later heartbeats renew nothing."""


@pytest.fixture
def zombie() -> Iterator[Running]:
    """Broker 1, which led topic "orders" with two records of producer 7, and was taken over."""
    with running_cluster(2) as brokers:
        one, two = brokers[1], brokers[2]
        one.create_topic("orders")
        with one.connect() as client:
            batch = batch_of(b"a", b"b", producer_id=7, producer_epoch=0, base_sequence=0)
            assert produce(client, "orders", batch).error_code == 0
        work = two.log.runner.run(
            take_over(two.log.cluster_id, one.log.epoch, 2, lambda *_: Successor(2, two.log.epoch))
        )
        asyncio.run_coroutine_threadsafe(work, two._loop).result(DEADLINE_S)
        yield one


def produce_out_of_order(client: Connection) -> int:
    batch = batch_of(b"z", producer_id=7, producer_epoch=0, base_sequence=9)
    return produce(client, "orders", batch).error_code


def fetch_beyond_the_end(client: Connection) -> int:
    return fetch(client, "orders", offset=3).error_code


def fetch_with_a_newer_epoch(client: Connection) -> int:
    return fetch(client, "orders", epoch=1).error_code


def list_with_a_newer_epoch(client: Connection) -> int:
    asked = ListOffsetsTopic("orders", [ListOffsetsPartition(0, 1, -1)])
    response = client.call(LIST_OFFSETS, ListOffsetsRequest(-1, 0, [asked]), 6)
    code: int = response.topics[0].partitions[0].error_code
    return code


def ask_for_the_end_with_a_newer_epoch(client: Connection) -> int:
    asked = OffsetForLeaderTopic("orders", [OffsetForLeaderPartition(0, 1, 0)])
    request = OffsetForLeaderEpochRequest(-1, [asked])
    response = client.call(OFFSET_FOR_LEADER_EPOCH, request, 4)
    code: int = response.topics[0].partitions[0].error_code
    return code


def delete_records_beyond_the_end(client: Connection) -> int:
    asked = DeleteRecordsTopic("orders", [DeleteRecordsPartition(0, 3)])
    response = client.call(DELETE_RECORDS, DeleteRecordsRequest([asked], 10_000), 2)
    code: int = response.topics[0].partitions[0].error_code
    return code


@pytest.mark.parametrize(
    "ask",
    [
        produce_out_of_order,
        delete_records_beyond_the_end,
        fetch_beyond_the_end,
        fetch_with_a_newer_epoch,
        list_with_a_newer_epoch,
        ask_for_the_end_with_a_newer_epoch,
    ],
)
def test_what_is_definite_is_said_after_a_look_for_a_seal(
    zombie: Running, ask: Callable[[Connection], int]
) -> None:
    assert not zombie.log.fenced.is_set()
    with zombie.connect() as client:
        assert ask(client) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert zombie.log.fenced.is_set()


def test_a_broker_without_a_read_lease_looks_for_a_seal_before_it_answers_a_fetch(
    zombie: Running,
) -> None:
    with zombie.connect() as client:
        assert fetch(client, "orders").error_code == 0
        forget_the_lease(zombie)
        assert fetch(client, "orders").error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_what_did_not_change_in_a_session_is_doubted_without_a_read_lease(zombie: Running) -> None:
    with zombie.connect() as client:
        client.negotiate()
        consumer = SessionConsumer(client, "orders")
        assert not consumer.open(1)[0].error_code
        assert consumer.fetch_at(2) == []
        assert consumer.fetch() == []
        forget_the_lease(zombie)
        (data,) = consumer.fetch()
        assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_broker_without_a_read_lease_that_was_not_taken_over_goes_on() -> None:
    with running_cluster(1) as brokers, brokers[1].connect() as client:
        one = brokers[1]
        one.create_topic("orders")
        produce(client, "orders", batch_of(b"a"))
        for _ in range(3):
            forget_the_lease(one)
            data = fetch(client, "orders")
            assert (data.error_code, data.high_watermark) == (0, 1)
        forget_the_lease(one)
        beyond = fetch(client, "orders", offset=9)
        assert beyond.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        first = batch_of(b"z", producer_id=7, producer_epoch=0, base_sequence=0)
        assert produce(client, "orders", first).error_code == 0
        assert produce(client, "orders", first).error_code == 0  # a repeat
        assert produce_out_of_order(client) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def forget_the_lease(running: Running) -> None:
    """As if no heartbeat had reached the registry for long, nor will."""
    running.do(lambda: setattr(running.log._membership, "_renewed_s", NEVER_S))
