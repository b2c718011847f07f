"""Digests of keys, by which key compaction tells them apart: BLAKE2s of 128 bits (RFC 7693).

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
