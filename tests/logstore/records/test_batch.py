"""What a broker checks on a produced batch, and what it writes into one."""

import struct
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.errors import Corrupt, Invalid
from logstore.records.batch import (
    HEADER_BYTES,
    BadBatch,
    CorruptBatch,
    InvalidBatch,
    Reason,
    check_batch,
    read_header,
    split_batches,
    stamp,
    stamp_log_append_time,
)
from logstore.records.decode import decode_records
from logstore.records.encode import encode_batch
from logstore.records.record import Record
from tests.logstore.records.strategies import NOW_MS, record_lists, with_right_crc

RECORDS = [Record(i, NOW_MS + i, b"key", b"value") for i in range(3)]


def check(batch: bytes) -> None:
    check_batch(memoryview(batch), 0, len(batch))


def altered(batch: bytes, form: str, at: int, value: int) -> bytes:
    changed = bytearray(batch)
    struct.pack_into(form, changed, at, value)
    return with_right_crc(changed)


def reason_of(batch: bytes) -> Reason:
    with pytest.raises(BadBatch) as caught:
        check(batch)
    return caught.value.reason


def test_a_whole_batch_is_read_wherever_it_lies() -> None:
    batch = encode_batch(
        RECORDS, base_offset=7, leader_epoch=4, producer_id=9, producer_epoch=1, base_sequence=5
    )
    header = check_batch(memoryview(b"before" + batch + b"after"), 6, len(batch) + 5)

    assert (header.base_offset, header.last_offset, header.next_offset) == (7, 9, 10)
    assert (header.leader_epoch, header.record_count) == (4, 3)
    assert (header.base_timestamp, header.max_timestamp) == (NOW_MS, NOW_MS + 2)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 1, 5)
    assert header.last_sequence == 7
    assert header.size_bytes == len(batch)
    assert header.compression == "none"


@pytest.mark.parametrize("flag", ["transactional", "control", "log_append_time"])
def test_flags_are_shown(flag: str) -> None:
    flags = {"transactional": False, "control": False, "log_append_time": False} | {flag: True}
    options: dict[str, Any] = dict(flags)
    batch = encode_batch([Record(0, NOW_MS, b"k", b"v")], **options)
    header = check_batch(memoryview(batch), 0, len(batch))

    assert flags == {
        "transactional": header.is_transactional,
        "control": header.is_control,
        "log_append_time": header.is_log_append_time,
    }


def test_sequences_wrap_to_zero() -> None:
    batch = encode_batch(RECORDS, producer_id=1, producer_epoch=0, base_sequence=2**31 - 2)

    assert read_header(batch, 0, len(batch)).last_sequence == 0


def test_a_batch_without_sequence_has_no_last_one() -> None:
    batch = encode_batch(RECORDS)

    assert read_header(batch, 0, len(batch)).last_sequence == -1


def test_any_missing_byte_is_noticed() -> None:
    batch = encode_batch(RECORDS)

    for length in range(len(batch)):
        with pytest.raises(CorruptBatch) as caught:
            check_batch(memoryview(batch), 0, length)
        assert caught.value.reason is Reason.TRUNCATED


def test_any_flipped_bit_under_the_crc_is_noticed() -> None:
    batch = encode_batch(RECORDS)

    for bit in range(17 * 8, len(batch) * 8):
        flipped = bytearray(batch)
        flipped[bit // 8] ^= 1 << bit % 8
        assert reason_of(bytes(flipped)) is Reason.BAD_CRC


@pytest.mark.parametrize("length", [-1, 0, 48, 2**31 - 1])
def test_a_length_that_holds_no_batch_is_refused(length: int) -> None:
    batch = bytearray(encode_batch(RECORDS))
    struct.pack_into(">i", batch, 8, length)

    assert reason_of(bytes(batch)) is Reason.TRUNCATED


def test_older_formats_are_distinguished_even_when_shorter_than_a_header() -> None:
    batch = bytearray(encode_batch(RECORDS))
    batch[16] = 1

    assert reason_of(bytes(batch)) is Reason.BAD_MAGIC
    assert reason_of(bytes(batch[:34])) is Reason.BAD_MAGIC


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codecs_are_refused(codec: int) -> None:
    batch = altered(encode_batch(RECORDS), ">h", 21, codec)

    assert reason_of(batch) is Reason.UNKNOWN_CODEC


@pytest.mark.parametrize("count", [-1, 0, 2, 4, 2**31 - 1])
def test_a_count_that_differs_from_the_offsets_is_refused(count: int) -> None:
    assert reason_of(altered(encode_batch(RECORDS), ">i", 57, count)) is Reason.BAD_COUNT


def test_more_records_than_bytes_are_refused() -> None:
    batch = bytearray(encode_batch(RECORDS))
    struct.pack_into(">i", batch, 23, 2**31 - 2)
    struct.pack_into(">i", batch, 57, 2**31 - 1)

    assert reason_of(with_right_crc(batch)) is Reason.BAD_COUNT


@pytest.mark.parametrize(
    ("producer_id", "epoch", "sequence"), [(-2, 0, 0), (-2, -1, -1), (5, -1, 0), (5, 0, -1)]
)
def test_producer_fields_that_contradict_each_other_are_refused(
    producer_id: int, epoch: int, sequence: int
) -> None:
    batch = encode_batch(
        RECORDS, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
    )

    assert reason_of(batch) is Reason.BAD_PRODUCER


def test_zero_epoch_and_sequence_without_a_producer_are_let_in() -> None:
    """KafkaJS sends both so, Sarama the sequence; Kafka takes them."""
    check(encode_batch(RECORDS, producer_id=-1, producer_epoch=0, base_sequence=0))


def test_errors_say_whether_bytes_are_damaged_or_only_refused() -> None:
    assert issubclass(CorruptBatch, Corrupt)
    assert issubclass(InvalidBatch, Invalid)


def test_stamping_leaves_the_crc_right() -> None:
    batch = bytearray(b"before" + encode_batch(RECORDS))
    stamp(batch, 6, 2**62, 77)
    header = check_batch(memoryview(batch), 6, len(batch) - 6)

    assert (header.base_offset, header.leader_epoch) == (2**62, 77)


def test_append_time_becomes_the_time_of_every_record() -> None:
    batch = bytearray(b"before" + encode_batch(RECORDS) + b"after")
    length = len(batch) - 11
    stamp_log_append_time(batch, 6, length, NOW_MS + 99)
    header = check_batch(memoryview(batch), 6, length)

    assert header.is_log_append_time
    assert header.max_timestamp == NOW_MS + 99
    decoded = decode_records(batch[6 : 6 + length], max_bytes=10_000)
    assert {record.timestamp for record in decoded} == {NOW_MS + 99}
    batch += b"a view that was left open would forbid this"


@given(st.lists(record_lists(gaps=True), max_size=4))
def test_a_record_set_is_split_into_its_batches(sets: list[list[Record]]) -> None:
    batches = [encode_batch(records, base_offset=i) for i, records in enumerate(sets)]
    data = b"".join(batches)

    found = list(split_batches(data))
    assert [data[at : at + header.size_bytes] for at, header in found] == batches
    assert [header.base_offset for _, header in found] == list(range(len(sets)))


def test_a_record_set_with_a_tail_or_damage_is_refused_where_it_begins() -> None:
    batch = encode_batch(RECORDS)
    flipped = bytearray(batch)
    flipped[-1] ^= 1
    for second, reason in [(b"tail", Reason.TRUNCATED), (bytes(flipped), Reason.BAD_CRC)]:
        batches = split_batches(batch + second)
        assert next(batches)[0] == 0
        with pytest.raises(CorruptBatch) as caught:
            next(batches)
        assert caught.value.reason is reason
        assert caught.value.at >= len(batch)


def test_what_compaction_leaves_is_read_though_no_producer_may_send_it() -> None:
    gaps = encode_batch([Record(2, NOW_MS, b"k", b"v")], last_offset_delta=9)
    empty = encode_batch([], last_offset_delta=9)
    for batch in (gaps, empty):
        assert read_header(batch, 0, len(batch)).last_offset_delta == 9
        assert reason_of(batch) is Reason.BAD_COUNT


@pytest.mark.parametrize("count", [-1, 4])
def test_stored_counts_are_checked_against_the_offsets(count: int) -> None:
    batch = altered(encode_batch(RECORDS), ">i", 57, count)
    with pytest.raises(CorruptBatch) as caught:
        read_header(batch, 0, len(batch))
    assert caught.value.reason is Reason.BAD_COUNT


@given(st.binary(max_size=3 * HEADER_BYTES))
def test_any_bytes_give_a_header_or_a_declared_error(data: bytes) -> None:
    for read in (lambda: check(data), lambda: read_header(data, 0, len(data))):
        with pytest.raises(BadBatch):
            read()


def test_checking_a_batch_needs_no_arrow() -> None:
    code = (
        "import sys, logstore.records.batch, logstore.records.encode, logstore.records.decode\n"
        "import logstore.records.arrow, logstore.records.lookup\n"
        "from logstore.records.record import Record\n"
        "logstore.records.encode.encode_batch([Record(0, 0, b'k', b'v')])\n"
        "assert not {'pyarrow', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
