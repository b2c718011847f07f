"""Batches are byte for byte those of Kafka's clients."""

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaReader
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from hypothesis import given
from kafka.record.default_records import DefaultRecordBatch as KafkaReader
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaBuilder

from logstore.errors import Invalid
from logstore.records.batch import check_batch
from logstore.records.encode import encode_batch, records_of
from logstore.records.record import Record
from tests.logstore.records.strategies import NOW_MS, built_by, read_by, record_lists

GOLDEN = bytes.fromhex(
    "0000000000000000 00000055 ffffffff 02 497200db 0000 00000001 0000018bcfe56800"
    "0000018bcfe56805 ffffffffffffffff ffff ffffffff 00000002"
    "24000000066b65790a76616c75650202680231"
    "20000a020101040261010a747261636500"
)
"""By aiokafka 0.14."""


def test_a_batch_has_the_bytes_that_it_always_had() -> None:
    records = [
        Record(0, NOW_MS, b"key", b"value", [("h", b"1")]),
        Record(1, NOW_MS + 5, None, None, [("a", None), ("trace", b"")]),
    ]

    assert encode_batch(records).hex() == GOLDEN.hex()


@pytest.mark.slow
@given(record_lists())
def test_uncompressed_bytes_are_those_of_kafka_python(records: list[Record]) -> None:
    assert encode_batch(records, leader_epoch=0) == built_by(KafkaBuilder, records)


@given(record_lists())
def test_uncompressed_bytes_are_those_of_aiokafka(records: list[Record]) -> None:
    assert encode_batch(records) == built_by(AiokafkaBuilder, records)


@given(record_lists(gaps=True))
def test_kafka_python_reads_what_we_write(records: list[Record]) -> None:
    for compression in ("none", "gzip"):  # the codecs that need no other library
        assert read_by(KafkaReader, encode_batch(records, compression=compression)) == records


@pytest.mark.slow
@given(record_lists(gaps=True))
def test_aiokafka_reads_what_we_write(records: list[Record]) -> None:
    for compression in ("none", "gzip"):
        assert read_by(AiokafkaReader, encode_batch(records, compression=compression)) == records


def test_buffers_are_taken_as_keys_values_and_header_values() -> None:
    plain = Record(0, NOW_MS, b"key", b"value", [("h", b"x")])
    views = Record(0, NOW_MS, memoryview(b"key"), bytearray(b"value"), [("h", memoryview(b"x"))])

    assert encode_batch([views]) == encode_batch([plain])


def test_pairs_become_records_at_consecutive_offsets() -> None:
    batch = encode_batch(records_of([(b"a", b"1"), (None, b"2")], timestamp=NOW_MS))
    header = check_batch(memoryview(batch), 0, len(batch))

    assert (header.record_count, header.last_offset_delta) == (2, 1)


@pytest.mark.parametrize("deltas", [(0, 0), (1, 0), (-1,), (2**31,)])
def test_offsets_that_do_not_rise_or_fit_are_refused(deltas: tuple[int, ...]) -> None:
    with pytest.raises(Invalid, match="delta"):
        encode_batch([Record(delta, NOW_MS, None, None) for delta in deltas])


@pytest.mark.parametrize("timestamp", [-2, 2**63])
def test_times_that_do_not_fit_are_refused(timestamp: int) -> None:
    with pytest.raises(Invalid, match="timestamp"):
        encode_batch([Record(0, timestamp, None, None)])


def test_an_empty_batch_needs_a_last_offset() -> None:
    with pytest.raises(Invalid, match="last offset delta"):
        encode_batch([], last_offset_delta=-1)


def test_a_last_offset_below_the_last_record_is_refused() -> None:
    with pytest.raises(Invalid, match="last offset delta"):
        encode_batch([Record(3, NOW_MS, None, None)], last_offset_delta=2)


def test_append_time_is_one_time() -> None:
    with pytest.raises(Invalid, match="different timestamps"):
        encode_batch(
            [Record(0, NOW_MS, None, None), Record(1, NOW_MS + 1, None, None)],
            log_append_time=True,
        )
