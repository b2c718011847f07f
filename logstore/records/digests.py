"""Digests of keys, by which key compaction tells them apart: BLAKE2s of 128 bits (RFC 7693).

And the last row of each digest: most of what a scan of small records costs, hence in C.

Clients choose keys, and two keys with one digest lose a record: hence a hash for which such keys
cannot be found, at any number of tries that is feasible.
"""

from __future__ import annotations

from hashlib import blake2s
from typing import TYPE_CHECKING

from logstore.records import native

if TYPE_CHECKING:
    import pyarrow as pa

DIGEST_BYTES = 16
OFFSET_BYTES = 8


def digests_of(keys: pa.Array) -> pa.Array:
    """A digest of `DIGEST_BYTES` per item of a binary array without nulls."""
    import pyarrow as pa

    codec = native.codec
    if codec is None or len(keys) == 0:
        found = [blake2s(key, digest_size=DIGEST_BYTES).digest() for key in keys.to_pylist()]
        packed = b"".join(found)
    else:
        valid, ends, data = keys.buffers()
        packed = codec.digest_keys(len(keys), (keys.offset, valid, ends, data))
    return pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(DIGEST_BYTES), len(keys), [None, pa.py_buffer(packed)]
    )


def last_rows(digests: pa.Array, offsets: pa.Array) -> pa.Array:
    """Whether a row has the greatest offset of its digest; several rows may, with one offset.

    Neither has nulls.
    """
    import pyarrow as pa

    codec = native.codec
    if codec is None:
        return _last_rows(digests, offsets)
    columns = ((digests, DIGEST_BYTES), (offsets, OFFSET_BYTES))
    bits = codec.last_rows(*(_items(column, width) for column, width in columns))
    return pa.Array.from_buffers(pa.bool_(), len(digests), [None, pa.py_buffer(bits)])


def _items(column: pa.Array, width: int) -> pa.Buffer | bytes:
    data = column.buffers()[1]
    return b"" if data is None else data.slice(width * column.offset, width * len(column))


def _last_rows(digests: pa.Array, offsets: pa.Array) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = pa.table({"digest": digests, "offset": offsets})
    last = rows.group_by("digest", use_threads=False).aggregate([("offset", "max")])
    at = pc.index_in(digests, value_set=last["digest"].combine_chunks())
    return pc.equal(offsets, last["offset_max"].combine_chunks().take(at))
