"""Kafka's key hash, so that a key's partition is the one Kafka's clients choose."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from logstore.errors import Invalid
from logstore.records import native

if TYPE_CHECKING:
    import pyarrow as pa

_SEED = 0x9747B28C
_FACTOR = 0x5BD1E995
_MASK = 0xFFFFFFFF
_INT32_MAX = 2**31 - 1


def murmur2(key: bytes) -> int:
    """MurmurHash2, 32 bits, unsigned. Source: Kafka's `Utils.murmur2`."""
    size = len(key)
    whole = size & ~3
    state = _SEED ^ size
    for (word,) in struct.iter_unpack("<I", key[:whole]):
        mixed = word * _FACTOR & _MASK
        mixed = (mixed ^ mixed >> 24) * _FACTOR & _MASK
        state = state * _FACTOR & _MASK ^ mixed
    if size > whole:
        state = (state ^ int.from_bytes(key[whole:], "little")) * _FACTOR & _MASK
    state = (state ^ state >> 13) * _FACTOR & _MASK
    return state ^ state >> 15


def partition_for_key(key: bytes, partitions: int) -> int:
    """Where Kafka's default partitioner puts a record with `key`."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def partitions_for_keys(keys: pa.Array, partitions: int) -> pa.Array:
    """The same for every key of a binary array, as int32; null where the key is null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not 0 < partitions <= _INT32_MAX:
        raise Invalid(f"partitions out of range: {partitions=}")
    keys = keys.cast(pa.binary())
    if native.codec is None or keys.null_count == len(keys):
        chosen = [
            None if key is None else partition_for_key(key, partitions) for key in keys.to_pylist()
        ]
        return pa.array(chosen, pa.int32())
    out = pa.allocate_buffer(4 * len(keys))
    valid, ends, data = keys.buffers()
    native.codec.partitions_of((keys.offset, valid, ends, data), len(keys), partitions, out)
    numbers = pa.Array.from_buffers(pa.int32(), len(keys), [None, out])
    return pc.if_else(keys.is_valid(), numbers, None) if keys.null_count else numbers
