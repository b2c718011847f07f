"""compression.type: what is stored has the topic's codec, and is otherwise what was sent."""

from collections.abc import Sequence

import pytest

from logstore.records.batch import CODECS, Codec, check_batch, check_crc, read_header
from logstore.records.crc32c import crc32c
from logstore.records.decode import decode_records
from logstore.records.encode import encode_batch
from logstore.records.record import Record
from logstore.wire.errors import ErrorCode
from logstore.wire.framing.apis import decode_response_header, encode_request_frame
from logstore.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.broker.running import NOW_MS, PRODUCE, Running, batch_of, fetch, produce, produce_request
from tools.full_wire import APIS, Connection

RECORDS = [
    Record(i, NOW_MS - i, b"k%d" % i, b"value " * 20, (("name", b"header"), ("null", None)))
    for i in range(30)
]
TYPES: dict[str, Codec] = {"uncompressed": "none", **{codec: codec for codec in CODECS[1:]}}


def stored_in(client: Connection, name: str) -> memoryview:
    return memoryview(fetch(client, name).records or b"")  # type: ignore[arg-type]


@pytest.mark.parametrize("source", CODECS)
@pytest.mark.parametrize("kind", TYPES)
def test_a_batch_is_stored_in_the_codec_of_its_topic(
    running: Running, client: Connection, kind: str, source: Codec
) -> None:
    name = f"{kind}-{source}"
    running.create_topic(name, 1, {"compression.type": kind})
    sent = memoryview(
        encode_batch(RECORDS, compression=source, producer_id=7, producer_epoch=2, base_sequence=0)
    )
    assert produce(client, name, bytes(sent)).error_code == 0

    stored = stored_in(client, name)

    header = check_batch(stored, 0, len(stored))
    assert header.compression == TYPES[kind] and header.size_bytes == len(stored)
    before = check_batch(sent, 0, len(sent))
    same = {"crc": 0, "batch_length": 0, "attributes": 0, "leader_epoch": 0}
    assert header._replace(**same) == before._replace(**same)
    assert decode_records(stored, max_bytes=1 << 20) == RECORDS
    if TYPES[kind] == source:  # in place, as Kafka does
        assert stored[16:] == sent[16:]


@pytest.mark.parametrize("kind", ["gzip", "lz4"])
def test_a_repeat_of_a_recompressed_batch_is_one(
    running: Running, client: Connection, kind: str
) -> None:
    name = f"repeated-{kind}"
    running.create_topic(name, 1, {"compression.type": kind})

    def send(sequence: int) -> int:
        batch = batch_of(b"x", b"y", producer_id=9, producer_epoch=0, base_sequence=sequence)
        return produce(client, name, batch).base_offset

    assert [send(sequence) for sequence in (0, 2, 2, 0, 4)] == [0, 2, 2, 0, 4]
    assert fetch(client, name).high_watermark == 6


def test_the_limit_holds_before_and_after_and_nothing_is_appended(
    running: Running, client: Connection
) -> None:
    limited = {"max.message.bytes": "5000"}
    running.create_topic("grows", 1, {**limited, "compression.type": "uncompressed"})
    running.create_topic("shrinks", 1, {**limited, "compression.type": "zstd"})
    running.create_topic(
        "segment", 1, {"segment.bytes": "5000", "compression.type": "uncompressed"}
    )
    large = batch_of(bytes(6000), compression="lz4")
    assert len(large) < 1000

    grown = produce(client, "grows", large)

    assert grown.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert "compression.type" in (grown.error_message or "")
    assert produce(client, "shrinks", batch_of(bytes(6000))).error_code == 10
    assert produce(client, "segment", large).error_code == ErrorCode.RECORD_LIST_TOO_LARGE
    assert produce(client, "grows", batch_of(b"x", compression="lz4")).base_offset == 0
    assert produce(client, "shrinks", large).base_offset == 0


def test_append_time_is_stamped_on_what_was_recompressed(
    running: Running, client: Connection
) -> None:
    configs = {"compression.type": "zstd", "message.timestamp.type": "LogAppendTime"}
    running.create_topic("stamped-zstd", 1, configs)
    one = produce(client, "stamped-zstd", batch_of(b"x", timestamp=5))
    stored = stored_in(client, "stamped-zstd")
    header = read_header(stored, 0, len(stored))

    assert header.is_log_append_time and header.max_timestamp == one.log_append_time_ms
    assert header.compression == "zstd"
    check_crc(stored, 0, header)


def test_the_largest_timestamp_is_put_right_too(running: Running, client: Connection) -> None:
    running.create_topic("latest", 1, {"compression.type": "snappy"})
    batch = bytearray(batch_of(b"a", b"b"))
    batch[35:43] = (NOW_MS + 999).to_bytes(8, "big")
    batch[17:21] = crc32c(memoryview(batch)[21:]).to_bytes(4, "big")

    assert produce(client, "latest", bytes(batch)).error_code == 0
    stored = stored_in(client, "latest")
    assert check_batch(stored, 0, len(stored)).max_timestamp == NOW_MS


def frames(client: Connection, batches: Sequence[bytes], name: str) -> list[tuple[int, int]]:
    for number, batch in enumerate(batches):
        request = produce_request(name, batch)
        sent = encode_request_frame(number, APIS[PRODUCE], 9, "test", request)
        client.send_raw(b"".join(sent))
    outcomes = []
    for _ in batches:
        frame = client.read_frame()
        _, at = decode_response_header(frame, APIS[PRODUCE], 9)
        response: ProduceResponse = APIS[PRODUCE].decode_response(9, frame, at)
        one = response.responses[0].partition_responses[0]
        outcomes.append((one.error_code, one.base_offset))
    return outcomes


def test_batches_that_are_packed_in_a_thread_keep_their_order(
    running: Running, client: Connection
) -> None:
    running.create_topic("ordered", 1, {"compression.type": "gzip", "max.message.bytes": "9000000"})
    values = [b"first", bytes(4 << 20), b"third", b"x" * (1 << 20), b"fifth"]

    outcomes = frames(client, [batch_of(value) for value in values], "ordered")

    assert outcomes == [(0, offset) for offset in range(5)]
    read = b""
    while (offset := _end_of(read)) < 5:
        read += bytes(stored_from(client, "ordered", offset))
    assert [value for value, _ in _values(read)] == values
    assert {codec for _, codec in _values(read)} == {"gzip"}


def stored_from(client: Connection, name: str, offset: int) -> bytes:
    return bytes(fetch(client, name, offset=offset).records or b"")  # type: ignore[arg-type]


def _values(stored: bytes) -> list[tuple[bytes | None, Codec]]:
    found, at = [], 0
    while at < len(stored):
        header = read_header(stored, at, len(stored) - at)
        batch = stored[at : at + header.size_bytes]
        for record in decode_records(batch, max_bytes=1 << 23):
            value = None if record.value is None else bytes(record.value)
            found.append((value, header.compression))
        at += header.size_bytes
    return found


def _end_of(stored: bytes) -> int:
    return len(_values(stored))


def test_each_topic_of_a_request_has_its_own_codec(running: Running, client: Connection) -> None:
    topics = []
    for kind in ("producer", "zstd", "gzip", "uncompressed"):
        running.create_topic(f"of-many-{kind}", 1, {"compression.type": kind})
        data = [PartitionProduceData(0, batch_of(b"v" * 100))]
        topics.append(TopicProduceData(f"of-many-{kind}", partition_data=data))
    client.call(PRODUCE, ProduceRequest(None, -1, 9000, topics), 11)

    codecs = []
    for topic in topics:
        stored = stored_in(client, topic.name)
        codecs.append(check_batch(stored, 0, len(stored)).compression)
    assert codecs == ["none", "zstd", "gzip", "none"]
