"""Kafka's key hash, so that a key's partition is the one Kafka's clients choose."""

import struct

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
