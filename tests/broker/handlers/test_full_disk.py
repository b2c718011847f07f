"""A full disk is answered as one, soon; what was sent then is stored once when there is room."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from logstore.wire.errors import ErrorCode
from logstore.wire.framing.client import Connection
from logstore.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.broker.running import Running, batch_of, fetch, produce

CREATE_TOPICS = 19
LONG_MS = 120_000
"""Longer than a test may take."""


@pytest.fixture
def full(running: Running) -> Iterator[Running]:
    def be(full: bool) -> None:
        running.store.is_full = full

    running.create_topic("t")
    running.do(lambda: be(True))
    yield running
    running.do(lambda: be(False))
    running.delete_topic("t")


def test_a_produce_is_answered_long_before_its_time_is_over(
    full: Running, client: Connection
) -> None:
    for value in (b"first", b"second, while it is full"):
        answer = produce(client, "t", batch_of(value), timeout_ms=LONG_MS)
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_produce_that_waits_already_is_answered_too(running: Running, client: Connection) -> None:
    running.create_topic("waits")
    running.hold_store()
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(produce, client, "waits", batch_of(b"x"), timeout_ms=LONG_MS)
        running.wait_until(lambda: running.log.writer.backlog_bytes > 0)

        def fill() -> None:
            running.store.is_full = True
            running.store.let_go()

        running.do(fill)
        assert waiting.result().error_code == ErrorCode.KAFKA_STORAGE_ERROR
    running.store.is_full = False
    running.wait_until(lambda: not running.log.writer.full_disk.is_full)


def test_what_was_refused_is_stored_once_when_there_is_room(
    full: Running, client: Connection
) -> None:
    batch = batch_of(b"x", producer_id=7, producer_epoch=0, base_sequence=0)
    assert produce(client, "t", batch, timeout_ms=LONG_MS).error_code
    full.store.is_full = False
    again = produce(client, "t", batch, timeout_ms=20_000)

    assert (again.error_code, again.base_offset) == (0, 0)
    assert fetch(client, "t").high_watermark == 1


def test_a_creation_says_so_at_once(full: Running, client: Connection) -> None:
    request = CreateTopicsRequest([CreatableTopic("new", 1, 1)], LONG_MS)
    (result,) = client.call(CREATE_TOPICS, request, 7).topics

    assert result.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert "no room" in (result.error_message or "")
