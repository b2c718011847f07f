"""Record batches as Arrow record batches: what the Spark source and the history writer yield.

Columns, in the order asked for:

    offset          int64
    timestamp       timestamp[us, UTC]   from ms; clamped where it leaves 64 bits
    timestamp_ms    int64                as it was written
    timestampType   int32                0 create time, 1 log append time
    key, value      binary
    headers         list<struct<key: string, value: binary>>   empty list where there are none
    leader_epoch    int32
    raw_batch       binary               null, except for a batch that cannot be decoded

Asking for `raw_batch` means that a batch whose payload cannot be decoded becomes one row at its
base offset with all its bytes there and null elsewhere; otherwise it raises. Damage that the CRC
shows raises always: such bytes are not what a producer sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from logstore.errors import Invalid
from logstore.records.batch import BatchHeader, CorruptBatch, check_crc, read_header
from logstore.records.columns import Columns, decode_columns, header_list_type
from logstore.records.crc32c import Buffer
from logstore.records.decode import payload_of

if TYPE_CHECKING:
    import pyarrow as pa

KAFKA_COLUMNS = ("offset", "timestamp", "timestampType", "key", "value")  # Spark's, without headers

_ROW_BYTES = 32  # about what a row takes beside its key and value
_MILLISECONDS_MAX = (2**63 - 1) // 1000
_LARGE_BYTES = 1 << 30  # one call of `decode_columns` takes less than 2 GiB

_Whole = tuple[BatchHeader, Buffer, Buffer]  # header, batch as stored, payload


def decode_to_arrow(
    batches: Iterable[Buffer],
    *,
    start: int,
    end: int,
    columns: Sequence[str] = KAFKA_COLUMNS,
    rows_max: int,
    bytes_max: int,
    payload_bytes_max: int,
) -> Iterator[pa.RecordBatch]:
    """Rows of the records with offsets [start, end), as few and large as the limits allow.

    Each of `batches` is one whole batch of one partition, in offset order; control batches give no
    rows. No result has more than `rows_max` rows, or more than `bytes_max` bytes unless it is one
    row. `payload_bytes_max` bounds what one batch decompresses to. Raises `CorruptBatch`.
    """
    if min(rows_max, bytes_max) < 1 or max(bytes_max, payload_bytes_max) > _LARGE_BYTES:
        raise Invalid(f"limits out of range: {rows_max=} {bytes_max=} {payload_bytes_max=}")
    builder = _Builder(start, end, arrow_schema(columns))
    waiting: list[_Whole] = []
    rows = size_bytes = 0
    for batch in batches:
        header = read_header(batch, 0, len(batch))
        if header.is_control or not max(start, header.base_offset) < min(end, header.next_offset):
            continue
        check_crc(memoryview(batch), 0, header)
        try:
            payload = payload_of(batch, header, max_bytes=payload_bytes_max)
        except CorruptBatch as fault:
            yield from builder.build(waiting, rows_max, bytes_max)
            waiting, rows, size_bytes = [], 0, 0
            yield from builder.quarantine(header, batch, fault)
            continue
        more_bytes = len(payload) + _ROW_BYTES * header.record_count
        if rows + header.record_count > rows_max or size_bytes + more_bytes > bytes_max:
            yield from builder.build(waiting, rows_max, bytes_max)
            waiting, rows, size_bytes = [], 0, 0
        waiting.append((header, batch, payload))
        rows += header.record_count
        size_bytes += more_bytes
    yield from builder.build(waiting, rows_max, bytes_max)


def arrow_schema(columns: Sequence[str]) -> pa.Schema:
    """Raises `Invalid` for a column that is not in the list above, or for none at all."""
    import pyarrow as pa

    types = {
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "timestamp_ms": pa.int64(),
        "timestampType": pa.int32(),
        "key": pa.binary(),
        "value": pa.binary(),
        "headers": header_list_type(),
        "leader_epoch": pa.int32(),
        "raw_batch": pa.binary(),
    }
    if not columns or not types.keys() >= set(columns):
        raise Invalid(f"no such columns: asked={','.join(columns)} known={','.join(types)}")
    return pa.schema([(name, types[name]) for name in columns])


class _Builder:
    """Makes Arrow of batches, and cuts it to the offsets and columns that were asked for."""

    def __init__(self, start: int, end: int, schema: pa.Schema) -> None:
        self._start = start
        self._end = end
        self._schema = schema

    def build(
        self, batches: Sequence[_Whole], rows_max: int, bytes_max: int
    ) -> Iterator[pa.RecordBatch]:
        headers = [header for header, _, _ in batches]
        payloads = [(header, payload) for header, _, payload in batches]
        try:
            columns = decode_columns(payloads, headers="headers" in self._schema.names)
        except CorruptBatch as fault:
            if len(batches) == 1:
                yield from self.quarantine(headers[0], batches[0][1], fault)
            else:
                for batch in batches:  # one is to blame; keep what is before and after it
                    yield from self.build([batch], rows_max, bytes_max)
            return
        yield from _cut(self._in_range(headers, columns), rows_max, bytes_max)

    def quarantine(
        self, header: BatchHeader, batch: Buffer, fault: CorruptBatch
    ) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        if "raw_batch" not in self._schema.names:
            raise fault
        if header.base_offset >= self._start:  # else its row belongs to the range before
            row = {"offset": header.base_offset, "raw_batch": bytes(batch)}
            yield pa.RecordBatch.from_pylist([row], self._schema)

    def _in_range(self, headers: Sequence[BatchHeader], columns: Columns) -> pa.RecordBatch:
        import pyarrow as pa
        import pyarrow.compute as pc

        arrays = [_array(name, headers, columns) for name in self._schema.names]
        below = pc.sum(pc.less(columns.offsets, self._start), min_count=0).as_py()
        upto = pc.sum(pc.less(columns.offsets, self._end), min_count=0).as_py()
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema).slice(below, upto - below)


def _array(name: str, headers: Sequence[BatchHeader], columns: Columns) -> pa.Array:
    import pyarrow as pa

    match name:
        case "offset":
            return columns.offsets
        case "timestamp":
            return _microseconds(columns.timestamps)
        case "timestamp_ms":
            return columns.timestamps
        case "timestampType":
            types = [int(header.is_log_append_time) for header in headers]
            return pa.array(types, pa.int32()).take(columns.batches)
        case "key":
            return columns.keys
        case "value":
            return columns.values
        case "headers":
            return columns.headers
        case "leader_epoch":
            epochs = [header.leader_epoch for header in headers]
            return pa.array(epochs, pa.int32()).take(columns.batches)
        case _:
            return pa.nulls(len(columns.offsets), pa.binary())


def _microseconds(timestamps_ms: pa.Array) -> pa.Array:
    """A client may write any 64 bits; one absurd time must not make a topic unreadable."""
    import pyarrow as pa
    import pyarrow.compute as pc

    clamped = pc.min_element_wise(timestamps_ms, _MILLISECONDS_MAX)
    clamped = pc.max_element_wise(clamped, -_MILLISECONDS_MAX)
    return pc.multiply(clamped, 1000).view(pa.timestamp("us", tz="UTC"))


def _cut(rows: pa.RecordBatch, rows_max: int, bytes_max: int) -> Iterator[pa.RecordBatch]:
    """Halves until all are small enough; only a batch that is large by itself needs it."""
    count = rows.num_rows
    if count > rows_max or (count > 1 and rows.nbytes > bytes_max):
        yield from _cut(rows.slice(0, count // 2), rows_max, bytes_max)
        yield from _cut(rows.slice(count // 2), rows_max, bytes_max)
    elif count:
        yield rows
