"""The fast decoder finds what the careful one finds, record for record and fault for fault."""

import struct
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.errors import Invalid
from logstore.records import columns as module
from logstore.records.batch import CODECS, Codec, CorruptBatch, read_header
from logstore.records.columns import Columns, Payload, decode_columns
from logstore.records.decode import decode_records, payload_of
from logstore.records.encode import encode_batch
from logstore.records.fields import ColumnFieldReader, Odd, as_arrow
from logstore.records.record import Record
from logstore.records.varint import encode_varint
from tests.logstore.records.strategies import NOW_MS, record_lists
from tests.logstore.records.test_decode import DAMAGED, batch_of

MAX_BYTES = 1 << 23


def payloads_of(batches: list[bytes]) -> list[Payload]:
    headers = [read_header(batch, 0, len(batch)) for batch in batches]
    return [
        (header, payload_of(batch, header, max_bytes=MAX_BYTES))
        for header, batch in zip(headers, batches, strict=True)
    ]


def decoded(columns: Columns) -> list[tuple[int, int, Record]]:
    """Batch number, offset and record of each row."""
    assert columns.headers is not None
    columns.headers.validate(full=True)
    columns.keys.validate(full=True)
    columns.values.validate(full=True)
    rows = zip(
        columns.batches.to_pylist(),
        columns.offsets.to_pylist(),
        columns.timestamps.to_pylist(),
        columns.keys.to_pylist(),
        columns.values.to_pylist(),
        columns.headers.to_pylist(),
        strict=True,
    )
    return [
        (batch, offset, Record(0, time, key, value, tuple((h["key"], h["value"]) for h in headers)))
        for batch, offset, time, key, value, headers in rows
    ]


def expected(batches: list[bytes]) -> list[tuple[int, int, Record]]:
    rows = []
    for number, batch in enumerate(batches):
        base_offset = read_header(batch, 0, len(batch)).base_offset
        for record in decode_records(batch, max_bytes=MAX_BYTES):
            row = (number, base_offset + record.offset_delta, record._replace(offset_delta=0))
            rows.append(row)
    return rows


def in_order(record_sets: list[list[Record]], codec: Codec = "none") -> list[bytes]:
    batches, offset = [], 0
    for records in record_sets:
        batches.append(
            encode_batch(records, base_offset=offset, compression=codec, last_offset_delta=5000)
        )
        offset += 5001
    return batches


@pytest.mark.slow
@given(st.lists(record_lists(gaps=True, min_size=0), max_size=4), st.sampled_from(CODECS))
def test_columns_hold_what_the_careful_decoder_finds(
    record_sets: list[list[Record]], codec: Codec
) -> None:
    batches = in_order(record_sets, codec)

    assert decoded(decode_columns(payloads_of(batches), headers=True)) == expected(batches)


@pytest.mark.slow
@given(st.lists(record_lists(gaps=True), min_size=1, max_size=4))
def test_plain_batches_need_no_careful_decoder(record_sets: list[list[Record]]) -> None:
    batches = in_order(record_sets)

    fast = module._decode_at_once(payloads_of(batches), True)
    assert decoded(fast) == expected(batches)


@pytest.mark.parametrize("value_bytes", [0, 62, 63, 64, 65, 8190, 8191, 8192, 70_000])
def test_lengths_of_one_two_and_three_bytes_are_read(value_bytes: int) -> None:
    records = [Record(i, NOW_MS + i * 5000, b"k", bytes(value_bytes)) for i in range(100)]
    batches = in_order([records])

    fast = module._decode_at_once(payloads_of(batches), True)
    assert decoded(fast) == expected(batches)


def test_varints_with_needless_bytes_are_read() -> None:
    body = bytes.fromhex("00 8000 808000 828000 6b 84808000 7676 8000")
    batches = [batch_of(body)]

    fast = module._decode_at_once(payloads_of(batches), True)
    assert decoded(fast) == expected(batches)
    assert fast.values.to_pylist() == [b"vv"]


def test_what_only_the_careful_decoder_reads_is_read() -> None:
    many = [(f"name{i}", None if i % 3 else b"x") for i in range(100)]
    records = [Record(0, 0, b"k", b"v", many), Record(1, 2**63 - 1, None, None)]
    batches = in_order([[Record(0, 1, None, None)], records])

    assert decoded(decode_columns(payloads_of(batches), headers=True)) == expected(batches)


def test_headers_are_left_out_unless_requested() -> None:
    batches = in_order([[Record(0, NOW_MS, b"k", b"v", [("h", b"x")])]])

    assert decode_columns(payloads_of(batches), headers=False).headers is None


@pytest.mark.slow
@given(record_lists())
def test_append_time_is_the_time_of_every_record(records: list[Record]) -> None:
    fixed = encode_batch([Record(0, NOW_MS, None, None)], log_append_time=True)
    free = encode_batch(records, base_offset=1)

    batches = [fixed, free]
    assert decoded(decode_columns(payloads_of(batches), headers=True)) == expected(batches)


@pytest.mark.parametrize("damage", DAMAGED)
def test_damage_is_named_as_the_careful_decoder_names_it(damage: str) -> None:
    good = encode_batch([Record(0, NOW_MS, b"k", b"v")])
    bad = bytearray(DAMAGED[damage])
    struct.pack_into(">q", bad, 0, 1)
    with pytest.raises(CorruptBatch) as careful:
        decode_records(bad, max_bytes=MAX_BYTES)
    last = encode_batch([Record(0, NOW_MS, b"k", b"v" * 200)], base_offset=1000)

    for batches in ([good, bytes(bad)], [good, bytes(bad), last]):
        with pytest.raises(CorruptBatch) as fast:
            decode_columns(payloads_of(batches), headers=True)
        assert str(fast.value) == str(careful.value)


def test_batches_out_of_order_are_refused() -> None:
    batches = in_order([[Record(0, NOW_MS, None, None)]] * 2)

    with pytest.raises(Invalid, match="out of order"):
        decode_columns(payloads_of(batches[::-1]), headers=False)


@pytest.mark.parametrize("length", [2, 100, 2**30, 2**31, 2**32, 2**61])
def test_slices_are_never_taken_from_beyond_their_record(length: int) -> None:
    """Arrow itself would copy from there."""
    reader = ColumnFieldReader(bytes(200))
    at, stop = as_arrow(array("q", [0, 10])), as_arrow(array("q", [5, 11]))
    with pytest.raises(Odd):
        reader.slices(as_arrow(array("q", [10, length * 2])), at, stop)


@pytest.mark.parametrize("length", [2**20, 2**31, 2**32, 2**61, 2**62, 2**63 - 1])
@pytest.mark.parametrize("front", ["00 00 00", "00 00 00 01"])
def test_absurd_lengths_are_named(front: str, length: int) -> None:
    body = bytes.fromhex(front) + encode_varint(length) + bytes.fromhex("01 00")
    with pytest.raises(CorruptBatch, match=f"bad record: length={length}"):
        decode_columns(payloads_of([batch_of(body)]), headers=False)
