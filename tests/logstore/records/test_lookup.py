"""Times and keys of one batch are found as Kafka finds them."""

import pytest

from logstore.records.batch import CorruptBatch
from logstore.records.encode import encode_batch
from logstore.records.lookup import (
    CheckedRecords,
    Faulty,
    check_records,
    first_record_at_or_after,
    record_with_max_timestamp,
)
from logstore.records.record import Record

pytestmark = pytest.mark.usefixtures("twin")

BATCH = encode_batch(
    [Record(0, 50, b"a", b""), Record(3, 70, b"b", b""), Record(4, 60, b"c", b"")],
    base_offset=100,
    compression="zstd",
)


@pytest.mark.parametrize(
    ("timestamp", "found"),
    [(0, (100, 50)), (50, (100, 50)), (51, (103, 70)), (70, (103, 70)), (71, None)],
)
def test_the_first_record_at_or_after_a_time_is_found(
    timestamp: int, found: tuple[int, int] | None
) -> None:
    assert first_record_at_or_after(BATCH, timestamp) == found


def test_the_latest_record_is_found() -> None:
    assert record_with_max_timestamp(BATCH) == (103, 70)


def test_of_equally_late_records_the_first_is_found() -> None:
    batch = encode_batch([Record(i, 5, None, None) for i in range(3)], base_offset=9)

    assert record_with_max_timestamp(batch) == (9, 5)


def test_records_below_an_offset_do_not_count() -> None:
    records = [Record(i, time, None, None) for i, time in enumerate((1000, 50, 900))]
    batch = encode_batch(records, base_offset=7)

    assert first_record_at_or_after(batch, 500, from_offset=7) == (7, 1000)
    assert first_record_at_or_after(batch, 500, from_offset=8) == (9, 900)
    assert first_record_at_or_after(batch, 950, from_offset=8) is None


def test_with_append_time_every_record_has_it() -> None:
    records = [Record(i, 80, b"k", None) for i in range(3)]
    batch = encode_batch(records, base_offset=9, log_append_time=True)

    assert first_record_at_or_after(batch, 80) == (9, 80)
    assert record_with_max_timestamp(batch) == (9, 80)


def test_an_empty_batch_has_no_records_to_find() -> None:
    batch = encode_batch([], last_offset_delta=5)

    assert first_record_at_or_after(batch, -1) is None
    assert record_with_max_timestamp(batch) is None


def test_a_bomb_is_not_looked_into() -> None:
    batch = encode_batch([Record(0, 0, None, bytes(100_000))], compression="gzip")

    with pytest.raises(CorruptBatch, match="too large"):
        record_with_max_timestamp(batch, max_bytes=1000)


ANY_TIME = (-(2**63) + 1, 2**63 - 1)


def checked(batch: bytes, *, indexes_max: int = 9) -> CheckedRecords:
    return check_records(batch, needs_keys=True, timestamps=ANY_TIME, indexes_max=indexes_max)


def test_records_without_a_key_are_counted_and_the_first_of_them_listed() -> None:
    records = [Record(i, 0, b"k" if i % 3 == 0 else None, b"v") for i in range(10)]
    batch = encode_batch(records, compression="lz4")

    few = checked(batch, indexes_max=4)
    assert (few.keyless, few.payload_bytes) == (Faulty(6, [1, 2, 4, 5]), 84)
    assert checked(batch, indexes_max=100).keyless.indexes == [1, 2, 4, 5, 7, 8]
    assert checked(encode_batch(records[:1])) == CheckedRecords(0, Faulty(0, []), Faulty(0, []), 9)


def test_an_empty_key_is_a_key() -> None:
    assert checked(encode_batch([Record(0, 0, b"", None)])).keyless.total == 0


def test_timestamps_out_of_range_are_counted_and_the_largest_is_that_of_the_records() -> None:
    records = [Record(i, ms, None, None) for i, ms in enumerate([50, 9, -1, 71, 10])]
    batch = encode_batch(records)

    found = check_records(batch, needs_keys=False, timestamps=(10, 70), indexes_max=1)

    assert (found.mistimed, found.keyless) == (Faulty(2, [1]), Faulty(0, []))
    assert found.max_timestamp == 71
    assert checked(encode_batch([Record(0, -1, None, None)])).max_timestamp == -1


def test_records_that_cannot_be_read_are_an_error_for_every_question() -> None:
    batch = bytearray(encode_batch([Record(i, 9, b"k", bytes(50)) for i in range(3)]))
    batch[-1] = 9  # the last record has nine headers, and no byte for them

    for question in (
        lambda: first_record_at_or_after(batch, 0),
        lambda: record_with_max_timestamp(batch),
        lambda: checked(bytes(batch)),
    ):
        with pytest.raises(CorruptBatch, match="bad record"):
            question()
