"""Record batches as Arrow record batches, in Python and by Arrow's kernels.

What the native codec is held to, and what it leaves the odd batches to; `records.arrow` says what
comes out. Batches are gathered until decoding them together pays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from logstore.errors import Invalid
from logstore.records.batch import BatchHeader, CorruptBatch, check_crc, read_header
from logstore.records.columns import Columns, decode_columns
from logstore.records.crc32c import Buffer
from logstore.records.decode import payload_of

if TYPE_CHECKING:
    import pyarrow as pa

_ROW_BYTES = 32  # about what a row takes beside its key and value
_MILLISECONDS_MAX = (2**63 - 1) // 1000

_Whole = tuple[BatchHeader, Buffer, Buffer]  # header, batch as stored, payload


def decode_purely(
    batches: Iterable[Buffer],
    start: int,
    end: int,
    schema: pa.Schema,
    rows_max: int,
    bytes_max: int,
    payload_bytes_max: int,
) -> Iterator[pa.RecordBatch]:
    """As `decode_to_arrow`, for limits that it has checked."""
    builder = _Builder(start, end, schema)
    waiting: list[_Whole] = []
    rows = size_bytes = 0
    next_offset = -(2**63)
    for batch in batches:
        header = read_header(batch, 0, len(batch))
        if header.is_control or not max(start, header.base_offset) < min(end, header.next_offset):
            continue
        if header.base_offset < next_offset:
            raise Invalid(f"batches out of order: base_offset={header.base_offset}")
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
        next_offset = header.next_offset
        rows += header.record_count
        size_bytes += more_bytes
    yield from builder.build(waiting, rows_max, bytes_max)


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
