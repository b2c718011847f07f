"""Kafka's key hash, so that a key's partition is the one Kafka's clients choose."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from logstore.records import native

if TYPE_CHECKING:
    import pyarrow as pa

NO_KEY = -1

_SEED = 0x9747B28C
_FACTOR = 0x5BD1E995
_MASK = 0xFFFFFFFF


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


def hash_keys(keys: pa.Array) -> pa.Array:
    """An int32 per item of a binary array: its hash without the sign, `NO_KEY` for a null.

    A key's partition is its hash modulo the number of partitions.
    """
    import pyarrow as pa

    codec = native.codec
    if codec is None or keys.null_count == len(keys):
        found = [NO_KEY if key is None else murmur2(key) & 0x7FFFFFFF for key in keys.to_pylist()]
        return pa.array(found, pa.int32())
    valid, ends, data = keys.buffers()
    packed = codec.hash_keys(len(keys), (keys.offset, valid, ends, data))
    return pa.Array.from_buffers(pa.int32(), len(keys), [None, pa.py_buffer(packed)])
