"""Rows of a table → Kafka's record batches, with the offsets they always had."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from logstore.errors import Invalid
from logstore.records.arrow_encode import encode_from_arrow
from logstore.records.batch import CRC_FROM, HEADER, HEADER_BYTES, BatchHeader, Codec
from logstore.records.crc32c import crc32c

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_BYTES_MAX = 1 << 20

BATCH_COLUMNS = (
    *("offset", "timestamp_ms", "timestampType", "key", "value", "headers"),
    *("leader_epoch", "raw_batch"),
)
"""What `batches_of` needs of the rows it is given."""

_RECORD_COLUMNS = ["offset", "timestamp_ms", "key", "value", "headers"]
_INT64_MAX = 2**63 - 1


def batches_of(
    rows: Iterable[pa.RecordBatch],
    compression: Codec = "lz4",
    bytes_max: int = BATCH_BYTES_MAX,
) -> Iterator[bytes]:
    """Kafka batches of the rows, which have `BATCH_COLUMNS`: same offsets, times, headers, epochs.

    No batch has more than `bytes_max` bytes before compression unless it is of one record; leader
    epochs and kinds of timestamp are never mixed in one. A `raw_batch` comes as it was stored.
    """
    for some in rows:
        if missing := set(BATCH_COLUMNS) - set(some.schema.names):
            raise Invalid(f"batches need more columns: missing={','.join(sorted(missing))}")
        for run in _runs(some):
            raw = run.column("raw_batch")[0].as_py()
            if raw is not None:
                yield raw
                continue
            yield from _encoded(run, compression, bytes_max)


def _encoded(run: pa.RecordBatch, compression: Codec, bytes_max: int) -> Iterator[bytes]:
    """Batches of rows alike in all that a batch says once."""
    import pyarrow.compute as pc

    epoch = run.column("leader_epoch")[0].as_py()
    rows = run.select(_RECORD_COLUMNS)
    before_1970 = run.column("timestamp_ms")[0].as_py() < 0
    if before_1970:
        # The encoder takes no such times; all of a batch move by the same, so records stay alike.
        at = rows.schema.get_field_index("timestamp_ms")
        rows = rows.set_column(at, "timestamp_ms", pc.add(rows.column(at), _INT64_MAX))
    for batch in encode_from_arrow(
        rows,
        bytes_max=bytes_max,
        leader_epoch=-1 if epoch is None else epoch,
        log_append_time=run.column("timestampType")[0].as_py() == 1,
        compression=compression,
    ):
        yield _moved_back(batch) if before_1970 else batch


def _moved_back(batch: bytes) -> bytes:
    header = BatchHeader._make(HEADER.unpack_from(batch))
    header = header._replace(
        base_timestamp=header.base_timestamp - _INT64_MAX,
        max_timestamp=header.max_timestamp - _INT64_MAX,
    )
    payload = memoryview(batch)[HEADER_BYTES:]
    crc = crc32c(payload, crc32c(HEADER.pack(*header)[CRC_FROM:]))
    return b"".join((HEADER.pack(*header._replace(crc=crc)), payload))


def _runs(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Epoch ranges alike in leader epoch, kind of timestamp and its sign; raw batches one by one.

    No value of Python's goes into Arrow where it can be helped: for the first one Arrow loads
    pandas where that is installed, which takes a second and 40 MB of a broker.
    """
    import pyarrow.compute as pc

    if not rows.num_rows:
        return
    alike = [rows.column("leader_epoch"), rows.column("timestampType")]
    plain = rows.column("raw_batch").null_count == rows.num_rows
    earliest = pc.min(rows.column("timestamp_ms")).as_py()
    before_1970 = earliest is not None and earliest < 0
    if plain and not before_1970 and all(map(_is_constant, alike)):
        yield rows
        return
    raw = pc.is_valid(rows.column("raw_batch"))
    alike.append(raw)
    if before_1970:
        alike.append(pc.less(rows.column("timestamp_ms"), 0))
    changes = raw[1:]
    for column in alike:
        changes = pc.or_(changes, _differs(column))
    ends = [*(i + 1 for i in pc.indices_nonzero(changes).to_pylist()), rows.num_rows]
    start = 0
    for end in ends:
        yield rows.slice(start, end - start)
        start = end


def _is_constant(column: pa.Array) -> bool:
    import pyarrow.compute as pc

    bounds: dict[str, Any] = pc.min_max(column).as_py()
    return not column.null_count and bounds["min"] == bounds["max"]


def _differs(column: pa.Array) -> pa.Array:
    """Whether each value differs from the one before; none is like none."""
    import pyarrow.compute as pc

    after, before = column[1:], column[:-1]
    absent = pc.xor(pc.is_null(after), pc.is_null(before))
    # Where one is none, `absent` tells.
    return pc.coalesce(pc.or_(pc.not_equal(after, before), absent), absent)
