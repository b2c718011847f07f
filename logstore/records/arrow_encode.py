"""Record batches from Arrow columns: for Spark's sink and for history.

    key, value      binary (null: none)             optional
    headers         list<struct<key, value>>        optional; null: none
    timestamp_ms    int64                           -1 or later
    offset          int64                           optional; rising, may have gaps

The bytes are those of `records.encode` for the same records, whether C or Python writes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from logstore.errors import Invalid
from logstore.records import native
from logstore.records.arrow_schema import header_list_type
from logstore.records.batch import HEADER_BYTES, Codec
from logstore.records.encode import encode_batch, encoded_bytes, recompressed
from logstore.records.record import Record

if TYPE_CHECKING:
    import pyarrow as pa

_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1
_OFFSET_MAX = 1 << 62
_LARGE_BYTES = 1 << 30
_PURE_ROWS = 1024  # turned into objects at a time


class BatchRule(NamedTuple):
    """Parameters that all batches of one call share."""

    bytes_max: int
    base_offset: int  # of the first record; with a column of offsets, none is below it
    leader_epoch: int
    log_append_time: bool


def encode_from_arrow(
    rows: pa.RecordBatch,
    *,
    bytes_max: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
    log_append_time: bool = False,
    compression: Codec = "none",
) -> Iterator[bytes]:
    """Batches that hold the rows in order, as few as the limits allow.

    No batch has more than `bytes_max` bytes before compression, unless it is of one record. Offsets
    are those of the column, or begin at `base_offset`. With `log_append_time` all records of a
    batch have the same timestamp. Raises `Invalid` for rows that no batch can hold.
    """
    if not HEADER_BYTES <= bytes_max <= _LARGE_BYTES or not 0 <= base_offset <= _OFFSET_MAX:
        raise Invalid(f"limits out of range: {bytes_max=} {base_offset=}")
    columns = _normal(rows)
    if "offset" in rows.schema.names:
        base_offset = 0
    rule = BatchRule(bytes_max, base_offset, leader_epoch, log_append_time)
    encode = _encode_purely if native.codec is None else _encode_natively
    for batch in encode(columns, rule):
        yield batch if compression == "none" else recompressed(batch, compression)


def _normal(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Exactly the five columns, of the types above; the ones that may be left out, as nulls."""
    import pyarrow as pa

    types = {
        "offset": pa.int64(),
        "timestamp_ms": pa.int64(),
        "key": pa.binary(),
        "value": pa.binary(),
        "headers": header_list_type(),
    }
    if "timestamp_ms" not in rows.schema.names or not types.keys() >= set(rows.schema.names):
        raise Invalid(f"no such columns: given={','.join(rows.schema.names)}")
    arrays = []
    for name, kind in types.items():
        if name not in rows.schema.names:
            arrays.append(pa.nulls(rows.num_rows, kind))
            continue
        array = rows.column(name)
        if name in ("offset", "timestamp_ms") and array.null_count:
            raise Invalid(f"column has nulls: name={name} nulls={array.null_count}")
        try:
            arrays.append(array if array.type.equals(kind) else array.cast(kind))
        except pa.ArrowException as error:
            raise Invalid(f"column is of another type: name={name} {error}") from error
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(types))


def _encode_natively(rows: pa.RecordBatch, rule: BatchRule) -> Iterator[bytes]:
    codec = native.codec
    assert codec is not None
    headers = rows.column("headers")
    names, values = (None, None)
    if headers.null_count < len(headers):
        names, values = (_column(part) for part in headers.values.flatten())
    columns = (
        *(_column(rows.column(name)) for name in ("offset", "timestamp_ms", "key", "value")),
        *(_column(headers), names, values),
    )
    first, offset = 0, rule.base_offset
    while first < rows.num_rows:
        try:
            batch, following, next_offset = codec.encode_rows(
                *(first, rows.num_rows, rule.bytes_max, offset, rule.leader_epoch),
                *(rule.log_append_time, columns),
            )
        except ValueError:
            yield from _encode_purely(rows.slice(first), rule._replace(base_offset=offset))
            return
        yield batch
        first, offset = following, next_offset


def _column(array: pa.Array) -> native.Column:
    """The buffers of an array; of a list's, those of its ends alone."""
    if array.null_count == len(array):
        return None
    buffers = array.buffers()
    if len(buffers) == 2:
        return array.offset, buffers[0], None, buffers[1]
    return array.offset, buffers[0], buffers[1], buffers[2]


def _encode_purely(rows: pa.RecordBatch, rule: BatchRule) -> Iterator[bytes]:
    waiting: list[Record] = []
    base_offset = size_bytes = 0
    for offset, record in _records(rows, rule.base_offset):
        if waiting:
            record = record._replace(offset_delta=offset - base_offset)
            more_bytes = _more_bytes(record, waiting, rule)
            if more_bytes is not None and size_bytes + more_bytes <= rule.bytes_max:
                waiting.append(record)
                size_bytes += more_bytes
                continue
            yield _batch(waiting, base_offset, rule)
        record = record._replace(offset_delta=0)
        waiting, base_offset = [record], offset
        size_bytes = HEADER_BYTES + encoded_bytes(record, record.timestamp)
    if waiting:
        yield _batch(waiting, base_offset, rule)


def _records(rows: pa.RecordBatch, base_offset: int) -> Iterator[tuple[int, Record]]:
    """Records with their offsets; a few rows at a time become objects."""
    has_offsets = rows.column("offset").null_count == 0
    last = base_offset - 1
    for start in range(0, rows.num_rows, _PURE_ROWS):
        some = rows.slice(start, _PURE_ROWS)
        try:
            objects = some.to_pylist()
        except UnicodeDecodeError as error:
            raise Invalid(f"header name is not utf-8: {error}") from error
        for i, row in enumerate(objects):
            offset = row["offset"] if has_offsets else base_offset + start + i
            if offset <= last:
                raise Invalid(f"offsets do not rise: {last} then {offset}")
            if offset >= _INT64_MAX:  # there must be one behind it
                raise Invalid(f"offset does not fit: {offset}")
            last = offset
            headers = [_header(item) for item in row["headers"] or ()]
            yield offset, Record(0, row["timestamp_ms"], row["key"], row["value"], headers)


def _header(item: dict[str, str | bytes | None] | None) -> tuple[str, bytes | None]:
    name = None if item is None else item["key"]
    value = None if item is None else item["value"]
    if not isinstance(name, str) or isinstance(value, str):
        raise Invalid("header without a name")
    return name, value


def _more_bytes(record: Record, waiting: list[Record], rule: BatchRule) -> int | None:
    """Bytes by which the batch grows; None if the record may not be in it."""
    base_timestamp = waiting[0].timestamp
    if rule.log_append_time and record.timestamp != base_timestamp:
        return None
    return None if record.offset_delta > _INT32_MAX else encoded_bytes(record, base_timestamp)


def _batch(records: list[Record], base_offset: int, rule: BatchRule) -> bytes:
    return encode_batch(
        records,
        base_offset=base_offset,
        leader_epoch=rule.leader_epoch,
        log_append_time=rule.log_append_time,
    )
