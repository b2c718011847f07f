"""Records come out as they went in, and damage is named."""

import struct

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaBuilder

from logstore.records.batch import CODECS, HEADER_BYTES, Codec, CorruptBatch, Reason, read_header
from logstore.records.decode import decode_records
from logstore.records.encode import encode_batch
from logstore.records.record import Record
from logstore.records.varint import encode_varint
from tests.logstore.records.strategies import NOW_MS, built_by, record_lists, with_right_crc

MAX_BYTES = 1 << 20
GZIP = 1


@given(record_lists(gaps=True, min_size=0), st.sampled_from(CODECS), st.integers(0, 50))
def test_records_come_back_from_every_codec(
    records: list[Record], codec: Codec, compacted: int
) -> None:
    last_delta = (records[-1].offset_delta if records else 0) + compacted
    batch = encode_batch(records, compression=codec, last_offset_delta=last_delta)

    assert decode_records(memoryview(batch), max_bytes=MAX_BYTES) == records
    assert read_header(batch, 0, len(batch)).last_offset_delta == last_delta


@pytest.mark.slow
@given(record_lists(), st.sampled_from([0, GZIP]))
def test_what_kafka_python_writes_is_read(records: list[Record], codec: int) -> None:
    assert decode_records(built_by(KafkaBuilder, records, codec), max_bytes=MAX_BYTES) == records


@pytest.mark.slow
@given(record_lists(), st.sampled_from([0, GZIP]))
def test_what_aiokafka_writes_is_read(records: list[Record], codec: int) -> None:
    assert decode_records(built_by(AiokafkaBuilder, records, codec), max_bytes=MAX_BYTES) == records


def test_keys_and_values_are_bytes_of_their_own() -> None:
    batch = bytearray(encode_batch([Record(0, NOW_MS, b"key", b"value", [("h", b"x")])]))
    (record,) = decode_records(memoryview(batch), max_bytes=MAX_BYTES)
    batch[:] = bytes(len(batch))

    assert record == Record(0, NOW_MS, b"key", b"value", (("h", b"x"),))
    assert isinstance(record.key, bytes)
    assert isinstance(record.value, bytes)


def test_the_largest_times_come_back() -> None:
    records = [Record(0, 0, None, None), Record(1, 2**63 - 1, None, None)]

    assert decode_records(encode_batch(records), max_bytes=MAX_BYTES) == records


def test_a_payload_above_the_limit_is_refused() -> None:
    batch = encode_batch([Record(0, NOW_MS, None, bytes(5000))], compression="zstd")
    with pytest.raises(CorruptBatch) as caught:
        decode_records(batch, max_bytes=4999)
    assert caught.value.reason is Reason.TOO_LARGE


def batch_of(*bodies: bytes, last_delta: int = 0, tail: bytes = b"") -> bytes:
    """A batch whose records are these bytes, each behind its right length."""
    payload = b"".join(encode_varint(len(body)) + body for body in bodies) + tail
    batch = bytearray(encode_batch([Record(0, NOW_MS, None, None)])[:HEADER_BYTES] + payload)
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">i", batch, 23, last_delta)
    struct.pack_into(">i", batch, 57, len(bodies))
    return with_right_crc(batch)


PLAIN = bytes.fromhex("00 00 00 01 01 00")  # attributes, times and offsets 0, nulls, no headers
SECOND = bytes.fromhex("00 00 02 01 01 00")

DAMAGED = {
    "the same offset twice": batch_of(PLAIN, PLAIN, last_delta=1),
    "an offset that falls": batch_of(SECOND, PLAIN, last_delta=1),
    "an offset above the last": batch_of(PLAIN, bytes.fromhex("00 00 04 01 01 00"), last_delta=1),
    "a negative offset": batch_of(bytes.fromhex("00 00 01 01 01 00")),
    "bytes behind the last record": batch_of(PLAIN, tail=b"x"),
    "a record longer than its fields": batch_of(PLAIN + b"x"),
    "a record shorter than its fields": batch_of(PLAIN[:-1], SECOND + b"x", last_delta=1),
    "a record longer than the batch": batch_of(PLAIN, tail=b"")[:-7] + b"\x7e" + PLAIN,
    "a record and its value longer than the batch": batch_of(PLAIN)[:-7]
    + bytes.fromhex("20 00 00 00 01 0a 61"),
    "a record of negative length": batch_of(PLAIN)[:-7] + b"\x01" + PLAIN,
    "a record of length -7 and bytes for it": batch_of(PLAIN)[:-7] + b"\x0d" + PLAIN,
    "a key longer than its record": batch_of(bytes.fromhex("00 00 00 7e 01 00")),
    "a key of length -2": batch_of(bytes.fromhex("00 00 00 03 01 00")),
    "a key of length -2 and a byte for it": batch_of(bytes.fromhex("00 00 00 03 78 01 00")),
    "a value longer than its record": batch_of(bytes.fromhex("00 00 00 01 7e 00")),
    "a value of length -2": batch_of(bytes.fromhex("00 00 00 01 03 00")),
    "a value of length -2 and a byte for it": batch_of(bytes.fromhex("00 00 00 01 03 78 00")),
    "a value that ends in the next record": batch_of(
        bytes.fromhex("00 00 00 01 0a 00"), bytes.fromhex("00 00 02 01 01 00"), last_delta=1
    ),
    "more headers than bytes": batch_of(bytes.fromhex("00 00 00 01 01 7e")),
    "a negative header count": batch_of(bytes.fromhex("00 00 00 01 01 01")),
    "a header without a name": batch_of(bytes.fromhex("00 00 00 01 01 02 01 01")),
    "a header name that is not utf-8": batch_of(bytes.fromhex("00 00 00 01 01 02 02 ff 01")),
    "a header value longer than its record": batch_of(bytes.fromhex("00 00 00 01 01 02 00 7e")),
    "a record with a header longer than its fields": batch_of(
        bytes.fromhex("00 00 00 01 01 02 00 01 78")
    ),
    "a varint of eleven bytes": batch_of(b"\x00" + b"\x80" * 10 + PLAIN[1:]),
    "a time that leaves 64 bits": batch_of(
        bytes.fromhex("00 fe ff ff ff ff ff ff ff ff 01 00 01 01 00")
    ),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_damage_is_found_and_placed(damage: str) -> None:
    batch = with_right_crc(DAMAGED[damage])
    with pytest.raises(CorruptBatch) as caught:
        decode_records(batch, max_bytes=MAX_BYTES)
    assert caught.value.reason is Reason.BAD_RECORD
    assert 0 <= caught.value.at <= len(batch) - HEADER_BYTES
    assert "at=" in str(caught.value)


def test_the_plain_record_that_the_damaged_ones_come_from_is_read() -> None:
    decoded = decode_records(batch_of(PLAIN, SECOND, last_delta=1), max_bytes=MAX_BYTES)

    assert decoded == [Record(0, NOW_MS, None, None), Record(1, NOW_MS, None, None)]


@pytest.mark.parametrize("codec", CODECS)
def test_more_records_than_bytes_are_refused_before_any_is_read(codec: Codec) -> None:
    batch = bytearray(encode_batch([Record(0, NOW_MS, None, b"v")], compression=codec))
    struct.pack_into(">i", batch, 23, 2**31 - 2)
    struct.pack_into(">i", batch, 57, 2**31 - 1)
    with pytest.raises(CorruptBatch) as caught:
        decode_records(with_right_crc(batch), max_bytes=MAX_BYTES)
    assert caught.value.reason is Reason.BAD_COUNT
