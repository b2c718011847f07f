"""Large frames are decoded in a thread, in order with the others; their items are bounded."""

import asyncio
import logging
import threading
from typing import Any

import pytest

from broker.answers.broker import Broker
from broker.handlers.dispatch import AT_ONCE_BYTES_MAX, PRODUCE_AT_ONCE_MAX
from broker.network.call import Call
from logstore.errors import LogstoreError, Unavailable
from logstore.ports.clock import SystemClock
from logstore.wire.framing.apis import Api, decode_response_header, encode_request_frame
from logstore.wire.framing.item_limit import ItemLimit
from logstore.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from logstore.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.broker.running import METADATA, PRODUCE, Running
from tools.full_wire import APIS, Connection

LARGE = [MetadataRequestTopic(name="n" * 1000 + str(number)) for number in range(70)]


def metadata_frame(correlation_id: int, topics: list[MetadataRequestTopic]) -> bytes:
    request = MetadataRequest(topics, False)
    return b"".join(encode_request_frame(correlation_id, APIS[METADATA], 12, "me", request))


def test_a_large_frame_is_decoded_in_a_thread_before_those_behind_it(
    running: Running, client: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.negotiate()
    loop_thread = running.do(threading.get_ident)
    decoded: list[tuple[int, bool]] = []
    decode = Api.decode_request

    def watched(self: Api, version: int, frame: Any, *rest: Any) -> Any:
        decoded.append((len(frame), threading.get_ident() == loop_thread))
        return decode(self, version, frame, *rest)

    monkeypatch.setattr(Api, "decode_request", watched)
    large, small = metadata_frame(1, LARGE), metadata_frame(2, LARGE[:1])
    client.send_raw(large + small)
    answers = [memoryview(client.read_frame()) for _ in range(2)]

    heads = [decode_response_header(one, APIS[METADATA], 12) for one in answers]
    assert [correlation_id for correlation_id, _ in heads] == [1, 2]
    assert decoded == [(len(large) - 4, False), (len(small) - 4, True)]
    assert len(large) > AT_ONCE_BYTES_MAX


def test_a_large_frame_that_makes_no_sense_ends_its_connection(
    running: Running, client: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    client.negotiate()
    frame = metadata_frame(1, LARGE)[:-2000]
    with caplog.at_level(logging.WARNING), pytest.raises(LogstoreError):
        client.send_raw((len(frame) - 4).to_bytes(4, "big") + frame[4:])
        client.read_frame()

    assert "bad request: api_key=3" in caplog.text
    with running.connect() as other:
        assert other.call(METADATA, MetadataRequest(()), 12).topics == []


def test_a_produce_with_many_items_is_decoded_in_a_thread(
    running: Running, client: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.negotiate()
    loop_thread = running.do(threading.get_ident)
    partitions: list[int] = []
    decode = Api.decode_request

    def watched(self: Api, version: int, frame: Any, *rest: Any) -> Any:
        request = decode(self, version, frame, *rest)
        if self.key == PRODUCE and threading.get_ident() == loop_thread:
            partitions.append(len(request.topic_data[0].partition_data))
        return request

    monkeypatch.setattr(Api, "decode_request", watched)
    for count in (PRODUCE_AT_ONCE_MAX - 1, PRODUCE_AT_ONCE_MAX, 9_000):
        data = [PartitionProduceData(0, bytes(20))] * count
        request = ProduceRequest(None, -1, 1000, [TopicProduceData("a", partition_data=data)])
        answer = client.call(PRODUCE, request, 9)
        assert len(answer.responses[0].partition_responses) == count

    assert partitions == [PRODUCE_AT_ONCE_MAX - 1]


def test_items_of_all_arrays_of_a_large_produce_are_bounded_together(
    running: Running, client: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    client.negotiate()
    data = [PartitionProduceData(0, None)] * 6_000
    topics = [TopicProduceData(name, partition_data=data) for name in ("a", "b")]
    request = ProduceRequest(None, -1, 1000, topics)
    frame = b"".join(encode_request_frame(1, APIS[PRODUCE], 9, "me", request))
    assert len(frame) > AT_ONCE_BYTES_MAX
    with caplog.at_level(logging.WARNING), pytest.raises(LogstoreError):
        client.send_raw(frame)
        client.read_frame()

    assert "bad request: api_key=0" in caplog.text


def test_a_limit_of_items_counts_all_arrays() -> None:
    limit = ItemLimit(10)

    assert limit >= 6
    assert limit >= 4
    assert limit >= 0
    assert not limit >= 1
    assert f"{limit}" == "10"


def test_a_limit_of_items_says_whether_it_was_exceeded() -> None:
    limit = ItemLimit(10)

    assert limit >= 10
    assert not limit.is_exceeded
    assert not limit >= 1
    assert limit.is_exceeded


class RefusedPeer:
    """A connection as a call sees it, which keeps why it was refused."""

    def __init__(self) -> None:
        self.active_s = 0.0
        self.refusals: list[str] = []

    def refuse(self, why: str) -> None:
        self.refusals.append(why)


def test_a_request_that_needs_the_store_when_a_task_of_the_broker_has_failed_is_refused(
    running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    """What holds requests wakes them while the others are cancelled, before connections end."""
    peer: Any = RefusedPeer()

    async def work() -> None:
        raise AssertionError("begun by a broker that has failed")

    async def fail() -> None:
        raise Unavailable("a task of the broker")

    async def wake(broker: Broker) -> None:
        try:
            await SystemClock().sleep_s(30)
        finally:
            broker.start(Call(peer, APIS[METADATA], 1, 1, "me"), work, None)

    async def play() -> None:
        broker = running.broker
        own = broker.tasks
        try:
            async with asyncio.TaskGroup() as broker.tasks:
                broker.tasks.create_task(wake(broker))
                broker.tasks.create_task(fail())
        except* Unavailable:
            pass
        finally:
            broker.tasks = own

    running.wait_for(play())
    (why,) = peer.refusals
    assert "about to start again" in why
    assert not caplog.records
