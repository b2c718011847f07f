"""What Spark gets: the columns asked for, in the range asked for, in pieces of the size allowed."""

import struct
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.errors import Invalid
from logstore.records.arrow import KAFKA_COLUMNS, arrow_schema, decode_to_arrow
from logstore.records.batch import CorruptBatch
from logstore.records.encode import encode_batch
from logstore.records.record import Record
from logstore.records.varint import encode_varint
from tests.logstore.records.strategies import NOW_MS
from tests.logstore.records.test_decode import DAMAGED, batch_of
from tests.transaction_markers import encode_marker

pytestmark = pytest.mark.usefixtures("twin")

ALL = (*KAFKA_COLUMNS, "headers", "timestamp_ms", "leader_epoch", "raw_batch")


def rows_of(batches: Sequence[bytes], **options: Any) -> list[dict[str, Any]]:
    defaults: dict[str, Any] = {
        "start": 0,
        "end": 2**63 - 1,
        "columns": ALL,
        "rows_max": 1000,
        "bytes_max": 1 << 20,
        "payload_bytes_max": 1 << 20,
    }
    found = []
    for piece in decode_to_arrow(batches, **(defaults | options)):
        piece.validate(full=True)
        found += piece.to_pylist()
    return found


def batch(base_offset: int, count: int, value: bytes = b"v", **options: Any) -> bytes:
    records = [Record(i, NOW_MS + i, b"%d" % (base_offset + i), value) for i in range(count)]
    return encode_batch(records, base_offset=base_offset, **options)


def test_every_column_has_its_type_and_value() -> None:
    record = Record(0, NOW_MS + 7, b"k", None, [("h", b"x"), ("n", None)])
    data = encode_batch([record], base_offset=5, leader_epoch=3)
    (piece,) = decode_to_arrow(
        [data],
        start=0,
        end=10,
        columns=ALL,
        rows_max=10,
        bytes_max=1000,
        payload_bytes_max=1000,
    )

    assert piece.schema == arrow_schema(ALL)
    assert piece.schema.field("timestamp").type == pa.timestamp("us", tz="UTC")
    assert piece.column("timestamp").cast(pa.int64()).to_pylist() == [(NOW_MS + 7) * 1000]
    row = piece.to_pylist()[0]
    del row["timestamp"]
    assert row == {
        "offset": 5,
        "timestampType": 0,
        "key": b"k",
        "value": None,
        "headers": [{"key": "h", "value": b"x"}, {"key": "n", "value": None}],
        "timestamp_ms": NOW_MS + 7,
        "leader_epoch": 3,
        "raw_batch": None,
    }


def test_only_the_columns_asked_for_come_in_the_order_asked() -> None:
    rows = rows_of([batch(0, 1)], columns=("value", "offset"))

    assert [list(row.items()) for row in rows] == [[("value", b"v"), ("offset", 0)]]


@pytest.mark.parametrize("columns", [(), ("offset", "topic")])
def test_unknown_columns_and_none_are_refused(columns: tuple[str, ...]) -> None:
    with pytest.raises(Invalid, match="no such columns"):
        rows_of([], columns=columns)


@given(
    st.lists(st.integers(1, 9), max_size=8),
    st.integers(0, 40),
    st.integers(0, 40),
    st.integers(1, 12),
    st.integers(1, 2000),
)
def test_all_limits_together_change_the_pieces_and_never_the_rows(
    counts: list[int], start: int, end: int, rows_max: int, bytes_max: int
) -> None:
    batches, offset = [], 0
    for count in counts:
        batches.append(batch(offset, count, b"v" * (offset * 37 % 200)))
        offset += count
    limits = {"rows_max": rows_max, "bytes_max": bytes_max, "payload_bytes_max": 1 << 20}
    pieces = list(
        decode_to_arrow(batches, start=start, end=end, columns=("offset", "key"), **limits)
    )

    offsets = [row["offset"] for piece in pieces for row in piece.to_pylist()]
    assert offsets == list(range(start, min(end, offset)))
    assert [row["key"] for piece in pieces for row in piece.to_pylist()] == [
        b"%d" % offset for offset in offsets
    ]
    for piece in pieces:
        assert 0 < piece.num_rows <= rows_max
        assert piece.num_rows == 1 or piece.nbytes <= bytes_max


def test_small_batches_share_a_piece() -> None:
    batches = [batch(i, 1) for i in range(100)]
    pieces = list(
        decode_to_arrow(
            batches, start=0, end=100, rows_max=1000, bytes_max=1 << 20, payload_bytes_max=1 << 20
        )
    )

    assert [piece.num_rows for piece in pieces] == [100]


def test_append_time_is_shown_as_such() -> None:
    fixed = encode_batch([Record(0, NOW_MS + 50, None, None)], log_append_time=True)
    rows = rows_of([fixed, batch(1, 1)])

    assert [(row["timestampType"], row["timestamp_ms"]) for row in rows] == [
        (1, NOW_MS + 50),
        (0, NOW_MS),
    ]


def test_markers_and_empty_batches_give_no_rows() -> None:
    marker = encode_marker(
        commit=True,
        producer_id=1,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp=NOW_MS,
        base_offset=1,
    )
    empty = encode_batch([], base_offset=2, last_offset_delta=3)

    assert [row["offset"] for row in rows_of([batch(0, 1), marker, empty, batch(6, 1)])] == [0, 6]


def test_a_time_that_microseconds_cannot_hold_is_clamped_and_kept_in_ms() -> None:
    batches = [
        encode_batch([Record(0, timestamp, None, None)], base_offset=offset)
        for offset, timestamp in enumerate([2**63 - 1, -1])
    ]
    (piece,) = decode_to_arrow(
        batches,
        start=0,
        end=2,
        columns=("timestamp", "timestamp_ms"),
        rows_max=10,
        bytes_max=1000,
        payload_bytes_max=1000,
    )

    assert piece.column("timestamp_ms").to_pylist() == [2**63 - 1, -1]
    assert piece.column("timestamp").cast(pa.int64()).to_pylist() == [
        (2**63 - 1) // 1000 * 1000,
        -1000,
    ]


@given(st.binary(max_size=20) | st.text(max_size=20).map(str.encode))
def test_a_header_has_a_name_in_utf_8_or_its_batch_is_refused(name: bytes) -> None:
    front = bytes.fromhex("00 00 00 01 01 02")  # nulls and one header
    data = batch_of(front + encode_varint(len(name)) + name + b"\x01")
    try:
        text = name.decode()
    except UnicodeDecodeError:
        with pytest.raises(CorruptBatch, match="utf-8"):
            rows_of([data], columns=("headers",))
    else:
        assert rows_of([data], columns=("headers",)) == [
            {"headers": [{"key": text, "value": None}]}
        ]


@pytest.mark.parametrize(
    "name", ["c080", "eda080", "f4908080", "f8808080", "e08080", "f0808080", "ff", "c3", "e282"]
)
def test_what_only_looks_like_utf_8_is_refused(name: str) -> None:
    front = bytes.fromhex("00 00 00 01 01 02")
    for before in (b"", b"12345678"):
        text = before + bytes.fromhex(name)
        data = batch_of(front + encode_varint(len(text)) + text + b"\x01")
        with pytest.raises(CorruptBatch, match="utf-8"):
            rows_of([data], columns=("headers",))


def moved(data: bytes, base_offset: int) -> bytes:
    changed = bytearray(data)
    struct.pack_into(">q", changed, 0, base_offset)
    return bytes(changed)


UNDECODABLE = [
    moved(DAMAGED["a key of length -2"], 2),
    batch(2, 2, bytes(5000), compression="zstd"),  # above the limit of the test
]


@pytest.mark.parametrize("undecodable", UNDECODABLE)
def test_a_batch_that_cannot_be_decoded_becomes_one_row_of_its_bytes(undecodable: bytes) -> None:
    rows = rows_of([batch(0, 2), undecodable, batch(4, 2)], payload_bytes_max=4000)

    assert [row["offset"] for row in rows] == [0, 1, 2, 4, 5]
    assert [row["raw_batch"] for row in rows] == [None, None, undecodable, None, None]
    assert {rows[2][name] for name in ALL if name not in ("offset", "raw_batch")} == {None}


@pytest.mark.parametrize("undecodable", UNDECODABLE)
def test_without_a_place_for_it_a_batch_that_cannot_be_decoded_raises(undecodable: bytes) -> None:
    batches = [batch(0, 2), undecodable]
    with pytest.raises(CorruptBatch):
        rows_of(batches, columns=KAFKA_COLUMNS, payload_bytes_max=4000)


def test_a_range_that_begins_inside_an_undecodable_batch_does_not_show_it_again() -> None:
    undecodable = moved(DAMAGED["the same offset twice"], 2)

    assert [row["offset"] for row in rows_of([undecodable, batch(4, 1)], start=3)] == [4]


def test_damage_under_the_crc_raises_even_where_raw_batches_have_a_place() -> None:
    damaged = bytearray(batch(0, 1))
    damaged[-1] ^= 1

    with pytest.raises(CorruptBatch, match="bad crc"):
        rows_of([bytes(damaged)])


@pytest.mark.parametrize("limits", [{"rows_max": 0}, {"bytes_max": 0}, {"bytes_max": 1 << 31}])
def test_limits_that_cannot_hold_are_refused(limits: dict[str, int]) -> None:
    with pytest.raises(Invalid, match="limits"):
        rows_of([], **limits)
