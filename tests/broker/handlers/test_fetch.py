"""Fetch: whole batches, soft limits, long polls that end, and errors that say where one stands."""

import threading
from typing import Any

import pytest

from logstore.records.batch import split_batches
from logstore.wire.errors import ErrorCode
from logstore.wire.framing.client import Connection
from logstore.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from tests.broker.running import (
    DEADLINE_S,
    FETCH,
    Running,
    batch_of,
    fetch,
    fetch_request,
    produce,
    running_broker,
)


def offsets(data: PartitionData) -> list[int]:
    """Base offsets of the batches; raises unless they are whole and their CRC is right."""
    records = data.records or b""
    assert not isinstance(records, list)
    return [header.base_offset for _, header in split_batches(records)]


def fetch_many(client: Connection, *wanted: FetchPartition, **fields: Any) -> list[PartitionData]:
    request = FetchRequest(-1, 0, 1, topics=[FetchTopic("many", partitions=list(wanted))])
    for name, value in fields.items():
        setattr(request, name, value)
    response: FetchResponse = client.call(FETCH, request, 12)
    return response.responses[0].partitions


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_reads(running: Running, client: Connection, version: int) -> None:
    topic = running.create_topic(f"versions-{version}")
    produce(client, topic.name, batch_of(b"a", b"b"))
    request = fetch_request(topic.name, topic_id=topic.topic_id)

    response: FetchResponse = client.call(FETCH, request, version)
    data = response.responses[0].partitions[0]

    assert (response.error_code, response.session_id) == (0, 0)
    assert (data.error_code, data.high_watermark, data.last_stable_offset) == (0, 2, 2)
    assert data.log_start_offset == (0 if version >= 5 else -1)
    assert data.aborted_transactions is None
    assert offsets(data) == [0]
    assert response.responses[0].topic_id == (topic.topic_id if version >= 13 else bytes(16))


def test_reading_begins_with_the_batch_that_holds_the_offset(
    running: Running, client: Connection
) -> None:
    running.create_topic("inside")
    for _ in range(3):
        produce(client, "inside", batch_of(b"a", b"b", b"c"))

    assert offsets(fetch(client, "inside", offset=4)) == [3, 6]
    assert offsets(fetch(client, "inside", offset=8)) == [6]
    assert offsets(fetch(client, "inside", offset=9)) == []


def test_an_empty_answer_has_records_of_length_0(running: Running, client: Connection) -> None:
    running.create_topic("empty")
    data = fetch(client, "empty")

    assert data.records is not None and len(data.records) == 0
    assert (data.error_code, data.high_watermark) == (0, 0)


@pytest.mark.parametrize("offset", [-1, 3, 99])
def test_an_offset_outside_the_log_is_out_of_range(
    running: Running, client: Connection, offset: int
) -> None:
    if "range" not in running.log.topics:
        running.create_topic("range")
        produce(client, "range", batch_of(b"a", b"b"))
    data = fetch(client, "range", offset=offset)

    assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (data.high_watermark, data.log_start_offset) == (2, 0)


def test_what_is_not_committed_is_not_read(running: Running, client: Connection) -> None:
    running.create_topic("later")
    produce(client, "later", batch_of(b"a"))
    running.hold_store()
    produce(client, "later", batch_of(b"b"), timeout_ms=1)

    assert offsets(fetch(client, "later")) == [0]
    at_end = fetch(client, "later", offset=2)
    assert (at_end.error_code, at_end.high_watermark, offsets(at_end)) == (0, 1, [])


def test_the_first_batch_comes_whole_however_small_the_limits(
    running: Running, client: Connection
) -> None:
    running.create_topic("large")
    for _ in range(3):
        produce(client, "large", batch_of(b"x" * 10_000))

    assert offsets(fetch(client, "large", partition_max_bytes=1)) == [0]
    assert offsets(fetch(client, "large", max_bytes=0)) == [0]
    assert offsets(fetch(client, "large", partition_max_bytes=25_000)) == [0, 1]
    assert offsets(fetch(client, "large", max_bytes=25_000)) == [0, 1]


def test_max_bytes_bounds_the_answer_in_the_order_of_the_request(
    running: Running, client: Connection
) -> None:
    running.create_topic("many", 4)
    for partition in range(4):
        for _ in range(3):
            produce(client, "many", batch_of(b"x" * 1000), partition=partition)
    size = len(batch_of(b"x" * 1000))

    def counts(*order: int, max_bytes: int, partition_max_bytes: int = 1 << 20) -> list[int]:
        wanted = [
            FetchPartition(n, fetch_offset=0, partition_max_bytes=partition_max_bytes)
            for n in order
        ]
        return [len(offsets(data)) for data in fetch_many(client, *wanted, max_bytes=max_bytes)]

    assert counts(0, 1, 2, 3, max_bytes=1 << 20) == [3, 3, 3, 3]
    assert counts(2, 0, 1, 3, max_bytes=4 * size) == [3, 1, 0, 0]
    assert counts(2, 0, 1, max_bytes=4 * size, partition_max_bytes=2 * size) == [2, 2, 0]
    assert counts(3, 2, max_bytes=10 * size, partition_max_bytes=1) == [1, 1]
    assert counts(3, 2, max_bytes=1) == [1, 0]


def test_the_limit_of_the_broker_bounds_the_whole_answer() -> None:
    size = len(batch_of(b"x" * 1000))
    with running_broker({"fetch.max.bytes": str(4 * size)}) as running, running.connect() as client:
        running.create_topic("many", 3)
        for partition in range(3):
            for _ in range(3):
                produce(client, "many", batch_of(b"x" * 1000), partition=partition)
        wanted = [FetchPartition(n, fetch_offset=0, partition_max_bytes=1 << 20) for n in range(3)]

        answers = fetch_many(client, *wanted, max_bytes=1 << 20)
        assert [len(offsets(data)) for data in answers] == [3, 1, 0]


def test_a_wait_ends_with_the_commit_that_brings_enough(
    running: Running, client: Connection
) -> None:
    running.create_topic("poll")
    one = len(batch_of(b"x"))
    waiting = Background(running, "poll", max_wait_ms=60_000, min_bytes=one + 1)
    running.wait_until(lambda: bool(running.log.topics["poll"].leaders[0]._watchers))
    produce(client, "poll", batch_of(b"x"))
    assert not waiting.is_done
    produce(client, "poll", batch_of(b"x"))

    assert offsets(waiting.result()) == [0, 1]
    assert not running.do(lambda: running.log.topics["poll"].leaders[0]._watchers)


def test_a_wait_ends_empty_after_max_wait(running: Running, client: Connection) -> None:
    running.create_topic("patience")

    assert offsets(fetch(client, "patience", max_wait_ms=30)) == []
    produce(client, "patience", batch_of(b"x"))
    assert offsets(fetch(client, "patience", max_wait_ms=30, min_bytes=1 << 20)) == [0]


def test_a_wait_ends_when_the_topic_goes(running: Running) -> None:
    topic = running.create_topic("going")
    by_name = Background(running, "going", max_wait_ms=60_000)
    by_id = Background(running, topic_id=topic.topic_id, max_wait_ms=60_000, version=13)
    running.wait_until(lambda: len(topic.leaders[0]._watchers) == 2)
    running.delete_topic("going")

    assert by_name.result().error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert by_id.result().error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_any_error_ends_a_wait_at_once(running: Running, client: Connection) -> None:
    running.create_topic("half", 1)
    wanted = [FetchPartition(0), FetchPartition(1)]
    request = FetchRequest(-1, 60_000, 1, topics=[FetchTopic("half", partitions=wanted)])
    response: FetchResponse = client.call(FETCH, request, 12)

    assert [p.error_code for p in response.responses[0].partitions] == [0, 3]
    none: FetchResponse = client.call(FETCH, FetchRequest(-1, 60_000, 1, topics=[]), 12)
    assert none.responses == []


def test_names_ids_and_partitions_that_are_not_there(running: Running, client: Connection) -> None:
    topic = running.create_topic("there")

    assert fetch(client, "nowhere").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert fetch(client, "there", partition=5).error_code == 3
    assert fetch(client, "there", partition=-1).error_code == 3
    assert fetch(client, "", topic_id=b"?" * 16, version=13).error_code == 100
    assert fetch(client, "", topic_id=topic.topic_id, version=13, partition=1).error_code == 3


def test_a_re_created_topic_is_another_topic(running: Running, client: Connection) -> None:
    old = running.create_topic("twice")
    produce(client, "twice", batch_of(b"x"))
    running.delete_topic("twice")
    new = running.create_topic("twice")

    assert fetch(client, "", topic_id=old.topic_id, version=13).error_code == 100
    assert fetch(client, "", topic_id=new.topic_id, version=13).high_watermark == 0
    assert fetch(client, "twice", offset=1).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_leader_epochs_are_compared(running: Running, client: Connection) -> None:
    topic = running.create_topic("epochs")
    leader = topic.leaders[0]
    leader.leader_epoch = 3

    older = client.call(FETCH, fetch_request(topic_id=topic.topic_id, epoch=2), 16)
    newer = client.call(FETCH, fetch_request(topic_id=topic.topic_id, epoch=4), 16)

    assert fetch(client, "epochs", epoch=3).error_code == 0
    assert older.responses[0].partitions[0].error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert newer.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    reported = older.responses[0].partitions[0].current_leader
    assert (reported.leader_id, reported.leader_epoch) == (1, 3)
    assert [(n.node_id, n.port) for n in older.node_endpoints] == [(1, running.listener.port)]


def test_no_last_fetched_epoch_diverges(running: Running, client: Connection) -> None:
    """What was acknowledged is never truncated, so a consumer's last epoch is one of the log's."""
    topic = running.create_topic("diverges")
    produce(client, "diverges", batch_of(b"x"))

    for last_fetched_epoch in (-1, 0, 7):
        request = fetch_request(topic_id=topic.topic_id)
        request.topics[0].partitions[0].last_fetched_epoch = last_fetched_epoch
        (data,) = client.call(FETCH, request, 16).responses[0].partitions
        assert (data.error_code, bool(data.records)) == (0, True)
        assert data.diverging_epoch is None


def test_read_committed_has_a_list_of_aborted_transactions(
    running: Running, client: Connection
) -> None:
    running.create_topic("isolation")
    produce(client, "isolation", batch_of(b"x"))

    data = fetch(client, "isolation", isolation_level=1)
    assert data.aborted_transactions == []
    assert (offsets(data), data.last_stable_offset) == ([0], 1)
    assert fetch(client, "isolation").aborted_transactions is None


@pytest.mark.parametrize(("session_id", "epoch", "code"), [(0, -1, 0), (7, -1, 0), (5, 1, 70)])
def test_a_fetch_without_a_session_has_none(
    running: Running, client: Connection, session_id: int, epoch: int, code: int
) -> None:
    if "session" not in running.log.topics:
        running.create_topic("session")
    request = fetch_request("session")
    request.session_id, request.session_epoch = session_id, epoch
    response: FetchResponse = client.call(FETCH, request, 12)

    assert (response.error_code, response.session_id) == (code, 0)
    assert len(response.responses) == (0 if code else 1)


def test_zstd_topics_need_version_10(running: Running, client: Connection) -> None:
    running.create_topic("packed", 1, {"compression.type": "zstd"})
    produce(client, "packed", batch_of(b"x" * 50, compression="zstd"))

    assert fetch(client, "packed", version=9).error_code == 76
    assert offsets(fetch(client, "packed", version=10)) == [0]


def test_what_left_memory_is_read_from_the_store() -> None:
    settings = {"logstore.segment.bytes": "65536", "logstore.flush.interval.ms": "0"}
    running_cold = running_broker(settings, cache_bytes_max=1)
    with running_cold as running, running.connect() as client:
        running.create_topic("many", 12)
        for _ in range(3):
            for partition in range(12):
                produce(client, "many", batch_of(b"x" * 30_000), partition=partition)
        wanted = [FetchPartition(n, fetch_offset=0, partition_max_bytes=1 << 20) for n in range(12)]

        assert [offsets(d) for d in fetch_many(client, *wanted)] == [[0, 1, 2]] * 12
        counts = [len(offsets(d)) for d in fetch_many(client, *wanted, max_bytes=150_000)]
        assert (counts[:2], sum(counts[2:])) == ([3, 1], 0)
        assert running.log.cache.miss_count > 20


def test_a_store_that_fails_is_reported_as_a_retriable_error() -> None:
    with running_broker(cache_bytes_max=1) as running, running.connect() as client:
        running.create_topic("lost")
        for _ in range(2):
            produce(client, "lost", batch_of(b"x"))
        running.store._objects._objects.clear()

        assert fetch(client, "lost").error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_wait_ends_with_the_brokers_leadership() -> None:
    with running_broker() as running:
        running.create_topic("fenced")
        waiting = Background(running, "fenced", max_wait_ms=60_000)
        running.wait_until(lambda: bool(running.log.topics["fenced"].leaders[0]._watchers))
        running.do(running.log.writer.stop)
        running.stop()

        assert waiting.result().error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


class Background:
    """A fetch that waits in a thread of its own."""

    def __init__(self, running: Running, name: str = "", **fields: Any) -> None:
        self._data: list[PartitionData] = []
        self._running = running
        self._thread = threading.Thread(target=self._fetch, args=(name, fields))
        self._thread.start()

    def _fetch(self, name: str, fields: dict[str, Any]) -> None:
        with self._running.connect() as client:
            self._data.append(fetch(client, name, **fields))

    @property
    def is_done(self) -> bool:
        return bool(self._data)

    def result(self) -> PartitionData:
        self._thread.join(DEADLINE_S)
        return self._data[0]
