"""Arrow columns become the batches that the record encoder makes of the same records."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.errors import Invalid
from logstore.records.arrow import decode_to_arrow
from logstore.records.arrow_encode import encode_from_arrow
from logstore.records.arrow_schema import arrow_schema
from logstore.records.batch import CODECS, HEADER_BYTES, Codec, read_header
from logstore.records.decode import decode_records
from logstore.records.encode import encode_batch
from logstore.records.record import Record
from tests.logstore.records.strategies import NOW_MS, record_lists

pytestmark = pytest.mark.usefixtures("twin")

COLUMNS = ("offset", "timestamp_ms", "key", "value", "headers")
MAX_BYTES = 1 << 20


def columns_of(records: Sequence[Record], base_offset: int = 0) -> pa.RecordBatch:
    rows = [
        {
            "offset": base_offset + record.offset_delta,
            "timestamp_ms": record.timestamp,
            "key": record.key,
            "value": record.value,
            "headers": [{"key": name, "value": value} for name, value in record.headers],
        }
        for record in records
    ]
    return pa.RecordBatch.from_pylist(rows, arrow_schema(COLUMNS))


def encoded(rows: pa.RecordBatch, **options: Any) -> list[bytes]:
    return list(encode_from_arrow(rows, **({"bytes_max": MAX_BYTES} | options)))


def some(count: int, **fields: Any) -> list[Record]:
    plain = Record(0, NOW_MS, b"key", b"value")._replace(**fields)
    return [plain._replace(offset_delta=i) for i in range(count)]


@pytest.mark.slow
@given(record_lists(gaps=True), st.integers(0, 2**60))
def test_a_batch_is_that_of_the_record_encoder(records: list[Record], base_offset: int) -> None:
    first = records[0].offset_delta
    moved = [record._replace(offset_delta=record.offset_delta - first) for record in records]

    assert encoded(columns_of(moved, base_offset), leader_epoch=7) == [
        encode_batch(moved, base_offset=base_offset, leader_epoch=7)
    ]


@pytest.mark.slow
@given(record_lists(), st.integers(0, 9), st.integers(HEADER_BYTES, 400))
def test_a_slice_and_a_small_limit_lose_no_record(
    records: list[Record], start: int, bytes_max: int
) -> None:
    batches = encoded(columns_of(records, 5).slice(start), bytes_max=bytes_max)

    found, offset = [], 5 + start
    for batch in batches:
        header = read_header(batch, 0, len(batch))
        assert header.base_offset == offset
        assert header.record_count == 1 or len(batch) <= bytes_max
        found += decode_records(batch, max_bytes=MAX_BYTES)
        offset = header.next_offset
    assert [record[1:] for record in found] == [record[1:] for record in records[start:]]


@pytest.mark.parametrize("compression", CODECS)
def test_what_was_decoded_is_encoded_to_the_same_rows(compression: Codec) -> None:
    records = some(500, headers=[("h", b"x"), ("n", None)])
    rows = columns_of(records, 3)
    batches = encoded(rows, bytes_max=4000, compression=compression)
    limits = {"rows_max": 1000, "bytes_max": MAX_BYTES, "payload_bytes_max": MAX_BYTES}
    pieces = list(decode_to_arrow(batches, start=0, end=2**62, columns=COLUMNS, **limits))

    assert len(batches) > 2
    assert {read_header(b, 0, len(b)).compression for b in batches} == {compression}
    assert pa.Table.from_batches(pieces).to_pylist() == rows.to_pylist()


def test_a_batch_is_filled_up_to_its_limit() -> None:
    one = len(encode_batch(some(2))) - len(encode_batch(some(1)))
    limit = HEADER_BYTES + 10 * one

    assert [
        read_header(batch, 0, len(batch)).record_count
        for batch in encoded(columns_of(some(25)), bytes_max=limit)
    ] == [10, 10, 5]
    assert (
        read_header(encoded(columns_of(some(25)), bytes_max=limit - 1)[0], 0, 999).record_count == 9
    )


def test_without_offsets_they_are_counted_from_the_first() -> None:
    rows = columns_of(some(30)).select(["timestamp_ms", "value"])
    batches = encoded(rows, base_offset=100, bytes_max=200)

    headers = [read_header(batch, 0, len(batch)) for batch in batches]
    assert len(headers) > 2
    assert headers[0].base_offset == 100
    assert [h.next_offset for h in headers] == [*(h.base_offset for h in headers[1:]), 130]
    assert decode_records(batches[0], max_bytes=MAX_BYTES)[0] == Record(0, NOW_MS, None, b"value")


def test_offsets_too_far_apart_for_one_batch_get_two() -> None:
    records = [Record(0, NOW_MS, b"a", b""), Record(2**31, NOW_MS, b"b", b"")]
    batches = encoded(columns_of(records, 4))

    assert [read_header(b, 0, len(b)).base_offset for b in batches] == [4, 4 + 2**31]


def test_append_times_that_differ_get_batches_of_their_own() -> None:
    times = [5, 5, 7, 7, 7, 5]
    records = [Record(i, time, b"k", b"v") for i, time in enumerate(times)]
    batches = encoded(columns_of(records), log_append_time=True)
    headers = [read_header(batch, 0, len(batch)) for batch in batches]

    assert [(h.record_count, h.max_timestamp) for h in headers] == [(2, 5), (3, 7), (1, 5)]
    assert all(header.is_log_append_time for header in headers)


def test_no_rows_are_no_batch() -> None:
    assert encoded(columns_of([])) == []


def test_other_arrow_types_of_the_same_meaning_are_taken() -> None:
    rows = pa.RecordBatch.from_pydict(
        {
            "timestamp_ms": pa.array([NOW_MS], pa.timestamp("ms")),
            "key": pa.array([b"k"], pa.large_binary()),
            "value": pa.array(["v"], pa.string()),
        }
    )

    assert encoded(rows) == [encode_batch([Record(0, NOW_MS, b"k", b"v")])]


LISTS = arrow_schema(["headers"]).field(0).type
NAMELESS = pa.array([[{"key": None, "value": b"x"}]], LISTS)


def with_bad_text() -> pa.Array:
    """Names that say they are UTF-8 and are not, as a careless library makes them."""
    bytes_ = pa.array([b"\xff"], pa.binary())
    names = pa.Array.from_buffers(pa.string(), 1, bytes_.buffers())
    items = pa.StructArray.from_arrays([names, bytes_], fields=list(LISTS.value_type))
    return pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), items, type=LISTS)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"timestamp_ms": [5, -2]}, "timestamp does not fit"),
        ({"timestamp_ms": [-1, 2**63 - 1]}, "timestamp does not fit"),
        ({"timestamp_ms": [5, None]}, "column has nulls"),
        ({"timestamp_ms": [5, 5], "offset": [3, 3]}, "offsets do not rise"),
        ({"timestamp_ms": [5, 5], "offset": [3, 2]}, "offsets do not rise"),
        ({"timestamp_ms": [5], "offset": [-1]}, "offsets do not rise"),
        ({"timestamp_ms": [5], "headers": NAMELESS}, "header without a name"),
        ({"timestamp_ms": [5], "headers": with_bad_text()}, "utf-8"),
        ({"timestamp_ms": [5], "key": [1]}, "column is of another type"),
        ({"timestamp_ms": [5], "topic": ["t"]}, "no such columns"),
        ({"key": [b"k"]}, "no such columns"),
    ],
)
def test_rows_that_no_batch_can_hold_are_refused(columns: dict[str, Any], said: str) -> None:
    rows = pa.RecordBatch.from_pydict(columns)
    with pytest.raises(Invalid, match=said):
        encoded(rows)


def test_offsets_that_do_not_rise_from_batch_to_batch_are_refused() -> None:
    columns = {"timestamp_ms": [5, 6], "offset": [3, 3]}
    with pytest.raises(Invalid, match="offsets do not rise"):
        encoded(pa.RecordBatch.from_pydict(columns), log_append_time=True)


@pytest.mark.parametrize("limits", [{"bytes_max": 60}, {"bytes_max": 2**31}, {"base_offset": -1}])
def test_limits_that_cannot_hold_are_refused(limits: dict[str, int]) -> None:
    with pytest.raises(Invalid, match="limits"):
        encoded(columns_of(some(1)), **limits)
