"""Records of many batches as Arrow columns: the fast half of decoding, for Spark and history.

Only the step from record to record is walked in Python, since each one's place depends on the one
before. All else is done on all records at once by Arrow's kernels (`records.fields`): the first
varint of every record, then the second, and so on; keys and values are copied out in C.

It is an optimist. Whatever is odd (damage, varints above 63 bits, dozens of headers on a record)
ends the attempt, and `records.decode` reads the same bytes with care: it names the fault, or
finds that there is none. Positions are int64 arrays of places in `data`, the payloads joined.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from logstore.errors import Invalid
from logstore.records.arrow_schema import header_list_type
from logstore.records.batch import BatchHeader, CorruptBatch
from logstore.records.crc32c import Buffer
from logstore.records.decode import decode_payload
from logstore.records.fields import ColumnFieldReader, Odd, as_arrow, require, unzigzag
from logstore.records.record import Record
from logstore.records.varint import decode_varint

if TYPE_CHECKING:
    import pyarrow as pa

Payload = tuple[BatchHeader, Buffer]  # the buffer is decompressed

_PADDING = bytes(64)  # above six varints: they are read first and then checked
_HEADERS_MAX = 32  # on one record, before the careful decoder is the faster one
_INT64_MIN = -(2**63)
_DATA_BYTES_MAX = 2**31 - 1  # Arrow's offsets are 32 bits


@dataclass(frozen=True, slots=True)
class Columns:
    """Arrow arrays of one length, a row per record."""

    batches: pa.Array  # int32: number of the batch a row came from
    offsets: pa.Array  # int64
    timestamps: pa.Array  # int64, ms
    keys: pa.Array  # binary
    values: pa.Array  # binary
    headers: pa.Array | None  # list<struct<key: string, value: binary>>, if they were asked for


def decode_columns(payloads: Sequence[Payload], *, headers: bool) -> Columns:
    """Decode batches of one partition, in offset order, under 2 GiB together.

    Raises `CorruptBatch` as `decode_records` does, `Invalid` for batches out of order.
    """
    import pyarrow as pa

    end = -(2**63)
    for header, _ in payloads:
        if header.base_offset < end:
            raise Invalid(f"batches out of order: base_offset={header.base_offset} after={end}")
        end = header.next_offset
    if sum(len(payload) for _, payload in payloads) + len(_PADDING) > _DATA_BYTES_MAX:
        raise Invalid(f"too many bytes for one call: max={_DATA_BYTES_MAX}")
    try:
        return _decode_at_once(payloads, headers)
    except (Odd, CorruptBatch, IndexError, pa.ArrowException):
        return _decode_with_care(payloads, headers)


def _decode_at_once(payloads: Sequence[Payload], with_headers: bool) -> Columns:
    import pyarrow as pa
    import pyarrow.compute as pc

    data = b"".join([*(payload for _, payload in payloads), _PADDING])
    reader = ColumnFieldReader(data)
    starts, stops = _walk(payloads, data)
    stop = as_arrow(stops)
    batches = as_arrow(_batch_of_rows(payloads))
    at = pc.add(as_arrow(starts), 1)  # past the attributes
    times, at = reader.varints(at)
    deltas, at = reader.lengths(at)
    offsets = _offsets(payloads, batches, deltas)
    key_bytes, at = reader.varints(at)
    keys, at = reader.slices(key_bytes, at, stop)
    value_bytes, at = reader.varints(at)
    values, at = reader.slices(value_bytes, at, stop)
    header_counts, at = reader.lengths(at)
    headers = None
    if pc.max(header_counts).as_py():
        headers = _headers(reader, header_counts, at, stop)
    else:
        require(pc.equal(at, stop))
        if with_headers:
            headers = _no_headers(len(at))
    return Columns(
        batches=batches.cast(pa.int32()),
        offsets=offsets,
        timestamps=_timestamps(payloads, batches, times),
        keys=keys,
        values=values,
        headers=headers if with_headers else None,
    )


def _walk(payloads: Sequence[Payload], data: bytes) -> tuple[array[int], array[int]]:
    """Where the body of each record starts and stops."""
    starts: list[int] = []
    stops: list[int] = []
    at = end = 0
    for header, payload in payloads:
        end += len(payload)
        for _ in range(header.record_count):
            size = data[at]
            if size < 128:
                at += 1
            elif (high := data[at + 1]) < 128:
                size += (high << 7) - 128
                at += 2
            else:
                length, at = decode_varint(data, at, end)
                size = length << 1 if length >= 0 else 1
            if size & 1:
                raise Odd
            starts.append(at)
            at += size >> 1
            stops.append(at)
        if at != end:
            raise Odd
    return array("q", starts), array("q", stops)


def _batch_of_rows(payloads: Sequence[Payload]) -> array[int]:
    numbers = array("q")
    for number, (header, _) in enumerate(payloads):
        numbers.extend(array("q", (number,)) * header.record_count)
    return numbers


def _offsets(payloads: Sequence[Payload], batches: pa.Array, deltas: pa.Array) -> pa.Array:
    """Rising over all batches means rising in each, since the batches are in order."""
    import pyarrow as pa
    import pyarrow.compute as pc

    last_deltas = pa.array([header.last_offset_delta for header, _ in payloads], pa.int64())
    require(pc.less_equal(deltas, last_deltas.take(batches)))
    bases = pa.array([header.base_offset for header, _ in payloads], pa.int64())
    offsets = pc.add_checked(bases.take(batches), deltas)
    require(pc.greater(offsets[1:], offsets[:-1]))
    return offsets


def _timestamps(payloads: Sequence[Payload], batches: pa.Array, times: pa.Array) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    bases = pa.array([header.base_timestamp for header, _ in payloads], pa.int64())
    timestamps = pc.add_checked(bases.take(batches), unzigzag(times))
    if any(header.is_log_append_time for header, _ in payloads):
        fixed = [h.max_timestamp if h.is_log_append_time else None for h, _ in payloads]
        timestamps = pc.coalesce(pa.array(fixed, pa.int64()).take(batches), timestamps)
    require(pc.greater(timestamps, _INT64_MIN))
    return timestamps


def _headers(reader: ColumnFieldReader, counts: pa.Array, at: pa.Array, stop: pa.Array) -> pa.Array:
    """The first header of every record that has one, then the second, until none is left."""
    import pyarrow as pa
    import pyarrow.compute as pc

    require(pc.less_equal(counts, _HEADERS_MAX))
    starts, names, values = [], [], []
    left = counts
    while True:
        done = pc.equal(left, 0)
        require(pc.equal(at.filter(done), stop.filter(done)))
        more = pc.invert(done)
        at, stop, left = at.filter(more), stop.filter(more), left.filter(more)
        if not len(at):
            break
        starts.append(at)
        name_bytes, at = reader.varints(at)
        name, at = reader.slices(name_bytes, at, stop)
        if name.null_count:
            raise Odd
        value_bytes, at = reader.varints(at)
        value, at = reader.slices(value_bytes, at, stop)
        names.append(name)
        values.append(value)
        left = pc.subtract(left, 1)
    in_order = pc.sort_indices(pa.concat_arrays(starts))
    name = pa.concat_arrays(names).take(in_order).cast(pa.string())  # checks that it is UTF-8
    value = pa.concat_arrays(values).take(in_order)
    return _header_lists(pc.cumulative_sum(counts).cast(pa.int32()), name, value)


def _header_lists(ends: pa.Array, names: pa.Array, values: pa.Array) -> pa.Array:
    import pyarrow as pa

    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    item = header_list_type().value_type
    return pa.ListArray.from_arrays(
        offsets, pa.StructArray.from_arrays([names, values], fields=list(item))
    ).cast(header_list_type())


def _no_headers(count: int) -> pa.Array:
    import pyarrow as pa

    ends = pa.repeat(pa.scalar(0, pa.int32()), count)
    return _header_lists(ends, pa.array([], pa.string()), pa.array([], pa.binary()))


def _decode_with_care(payloads: Sequence[Payload], with_headers: bool) -> Columns:
    import pyarrow as pa

    batches: list[int] = []
    offsets: list[int] = []
    records: list[Record] = []
    for number, (header, payload) in enumerate(payloads):
        decoded = decode_payload(header, payload)
        batches += [number] * len(decoded)
        offsets += [header.base_offset + record.offset_delta for record in decoded]
        records += decoded
    headers = None
    if with_headers:
        rows = [[{"key": k, "value": v} for k, v in record.headers] for record in records]
        headers = pa.array(rows, header_list_type())
    return Columns(
        batches=pa.array(batches, pa.int32()),
        offsets=pa.array(offsets, pa.int64()),
        timestamps=pa.array([record.timestamp for record in records], pa.int64()),
        keys=pa.array([record.key for record in records], pa.binary()),
        values=pa.array([record.value for record in records], pa.binary()),
        headers=headers,
    )
