"""Record batches as Arrow record batches, by the native codec.

C checks, decodes and copies; it finds memory lent by Arrow's pool, of just the size that is needed.
What it calls odd, be it one batch of a group, goes to `records.arrow_pure`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from logstore.errors import Invalid
from logstore.records import native
from logstore.records.arrow_pure import decode_purely
from logstore.records.arrow_schema import header_list_type, row_bytes
from logstore.records.batch import CorruptBatch, Reason, read_header
from logstore.records.crc32c import Buffer
from logstore.records.decode import payload_of

if TYPE_CHECKING:
    import pyarrow as pa

_INT32_MAX = 2**31 - 1


def decode_natively(
    batches: Iterable[Buffer],
    start: int,
    end: int,
    schema: pa.Schema,
    rows_max: int,
    bytes_max: int,
    payload_bytes_max: int,
) -> Iterator[pa.RecordBatch]:
    """As `decode_to_arrow`, for limits that it has checked."""
    codec = native.codec
    assert codec is not None
    group = _BatchGroup(codec, (start, end, schema, rows_max, bytes_max, payload_bytes_max))
    for batch in batches:
        verdict = group.offer(batch)
        if verdict in (codec.TAKEN, codec.SKIPPED):
            continue
        if verdict == codec.OUT_OF_ORDER:
            raise Invalid(f"batches out of order: base_offset={int.from_bytes(batch[:8])}")
        yield from group.rows()
        if verdict == codec.FULL:
            verdict = group.offer_again()
        if verdict != codec.TAKEN:
            yield from decode_purely([batch], *group.limits)
    yield from group.rows()


_Limits = tuple[int, int, "pa.Schema", int, int, int]


class _BatchGroup:
    """The batches that the decoder holds; their rows come out before it takes more."""

    def __init__(self, codec: native.Codec, limits: _Limits) -> None:
        start, end, self._schema, rows_max, bytes_max, self._payload_bytes_max = limits
        self.limits = limits
        self._codec = codec
        self._decoder = codec.Decoder(
            start=start,
            end=end,
            rows_max=min(rows_max, _INT32_MAX),
            bytes_max=bytes_max,
            payload_bytes_max=self._payload_bytes_max,
            row_bytes=row_bytes(self._schema.names),
        )
        self._add = self._decoder.add
        self._batches: list[Buffer] = []
        self._offered: tuple[Buffer, ...] = ()

    def offer(self, batch: Buffer) -> int:
        """The decoder's verdict. A packed batch is unpacked, one that cannot be is REFUSED."""
        self._offered = (batch,)
        verdict = self._add(batch)
        if verdict == self._codec.PACKED:
            header = read_header(batch, 0, len(batch))
            try:
                payload = payload_of(batch, header, max_bytes=self._payload_bytes_max)
            except CorruptBatch:
                return self._codec.REFUSED
            self._offered = (batch, payload)
            verdict = self._add(batch, payload)
        if verdict == self._codec.TAKEN:
            self._batches.append(batch)
        return verdict

    def offer_again(self) -> int:
        """The batch that was too much; now the group is empty."""
        verdict = self._add(*self._offered)
        if verdict == self._codec.TAKEN:
            self._batches.append(self._offered[0])
        return verdict

    def rows(self) -> Iterator[pa.RecordBatch]:
        """All rows of the group, which is empty then."""
        batches, self._batches = self._batches, []
        is_begun = False
        while True:
            try:
                sizes = self._decoder.take()
                rows = None if sizes is None else _filled(self._decoder, sizes, self._schema)
            except ValueError:
                break
            if rows is None:
                return
            yield rows
            is_begun = True
        if is_begun:  # all was sound before the first row was given out
            raise CorruptBatch(Reason.BAD_RECORD, 0, "batch was changed while it was read")
        for batch in batches:  # one is to blame; keep what is before and after it
            decode = decode_natively if len(batches) > 1 else decode_purely
            yield from decode([batch], *self.limits)


_Buffers = tuple["pa.Buffer | None", ...]
"""Of an array: validity, offsets where it has some, data."""


def _filled(decoder: native.Decoder, sizes: native.Sizes, schema: pa.Schema) -> pa.RecordBatch:
    """The rows that the decoder chose. Buffers are in the order of `enum column` in decoder.h."""
    import pyarrow as pa

    count, key_nulls, key_bytes, value_nulls, value_bytes = sizes[:5]
    header_count, name_bytes, header_nulls, header_value_bytes = sizes[5:]
    has_headers = "headers" in schema.names
    widths = {"offset": 8, "timestamp": 8, "timestamp_ms": 8, "timestampType": 4, "leader_epoch": 4}
    buffers: dict[str, _Buffers] = {
        name: (None, _buffer(width * count) if name in schema.names else None)
        for name, width in widths.items()
    }
    buffers["key"] = _binary_buffers(count, key_nulls, key_bytes, "key" in schema.names)
    buffers["value"] = _binary_buffers(count, value_nulls, value_bytes, "value" in schema.names)
    header_ends = _buffer(4 * count + 4) if has_headers else None
    header_names = _binary_buffers(header_count, 0, name_bytes, has_headers)
    header_values = _binary_buffers(header_count, header_nulls, header_value_bytes, has_headers)
    decoder.fill(
        *(buffers[name][1] for name in widths),
        *(*buffers["key"], *buffers["value"]),
        *(header_ends, *header_names[1:], *header_values),
    )
    whole: dict[str, pa.Array] = {}
    for name, kind in zip(schema.names, schema.types, strict=True):
        if name == "headers":
            lists = _header_lists(count, header_ends, header_count, header_names, header_values)
            whole[name] = lists
        elif name == "raw_batch":
            whole[name] = pa.nulls(count, kind)
        else:
            whole[name] = pa.Array.from_buffers(kind, count, buffers[name])
    return pa.RecordBatch.from_arrays([whole[name] for name in schema.names], schema=schema)


def _buffer(size: int) -> pa.Buffer:
    import pyarrow as pa

    return pa.allocate_buffer(size)


def _binary_buffers(count: int, nulls: int, data_bytes: int, is_wanted: bool) -> _Buffers:
    if not is_wanted:
        return None, None, None
    valid = _buffer((count + 7) // 8) if nulls else None
    return valid, _buffer(4 * count + 4), _buffer(data_bytes)


def _header_lists(
    count: int, ends: pa.Buffer, header_count: int, names: _Buffers, values: _Buffers
) -> pa.Array:
    import pyarrow as pa

    lists = header_list_type()
    item = lists.value_type
    parts = [
        pa.Array.from_buffers(item.field("key").type, header_count, names),
        pa.Array.from_buffers(item.field("value").type, header_count, values),
    ]
    headers = pa.Array.from_buffers(item, header_count, [None], 0, children=parts)
    return pa.Array.from_buffers(lists, count, [None, ends], 0, children=[headers])
