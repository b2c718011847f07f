"""Reads one field of many records at once, with Arrow's kernels.

Positions are int64 arrays of places in the data, one per record. Checks are made on whole arrays:
`Odd` says that some record is not the plain case, not which one and not that it is wrong.
"""

from __future__ import annotations

import sys
from array import array
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

_VARINT_BITS_MAX = 63  # longer ones would need unsigned arithmetic


class Odd(Exception):
    """Not the plain case."""


class ColumnFieldReader:
    """Reads the same field of many records at once. Every method returns the positions after it."""

    def __init__(self, data: bytes) -> None:
        import pyarrow as pa

        self._buffer = pa.py_buffer(data)
        self._bytes = pa.Array.from_buffers(pa.uint8(), len(data), [None, self._buffer])

    def varints(self, at: pa.Array) -> tuple[pa.Array, pa.Array]:
        """Varints as they are written, zig-zagged and so never negative."""
        import pyarrow as pa
        import pyarrow.compute as pc

        byte = self._bytes.take(at).cast(pa.int64())
        value, at, shift = byte, pc.add(at, 1), 0
        more = pc.greater_equal(byte, 128)
        while pc.any(more).as_py():
            shift += 7
            if shift >= _VARINT_BITS_MAX:
                raise Odd
            byte = pc.if_else(more, self._bytes.take(at).cast(pa.int64()), 0)
            # The byte before it brought bit 7 along, which is worth -1 here.
            carry = pc.subtract(byte, more.cast(pa.int64()))
            value = pc.add(value, pc.shift_left(carry, shift))
            at = pc.add(at, more.cast(pa.int64()))
            more = pc.greater_equal(byte, 128)
        return value, at

    def lengths(self, at: pa.Array) -> tuple[pa.Array, pa.Array]:
        """Varints that may not be negative."""
        import pyarrow.compute as pc

        value, at = self.varints(at)
        require(pc.equal(pc.bit_wise_and(value, 1), 0))
        return pc.shift_right(value, 1), at

    def slices(self, size: pa.Array, at: pa.Array, stop: pa.Array) -> tuple[pa.Array, pa.Array]:
        """Bytes of zig-zagged `size` at `at`, null where it is -1, none past `stop`."""
        import pyarrow as pa
        import pyarrow.compute as pc

        null = pc.equal(pc.bit_wise_and(size, 1), 1)
        null_count = pc.sum(null, min_count=0).as_py()
        if null_count:
            require(pc.equal(size.filter(null), 1))
        length = pc.shift_right(size, 1)  # of 1, which means null: 0
        require(pc.less_equal(length, pc.subtract(stop, at)))
        end = pc.add(at, length)
        if null_count == len(at):
            return pa.nulls(len(at), pa.binary()), end
        return self._copy(at, end, null if null_count else None), end

    def _copy(self, start: pa.Array, end: pa.Array, null: pa.Array | None) -> pa.Array:
        """A binary array over [start 0, end 0, start 1, …] has our slices at its even places."""
        import pyarrow as pa
        import pyarrow.compute as pc

        count = len(start)
        low, high = (start, end) if sys.byteorder == "little" else (end, start)
        pairs = pc.bit_wise_or(low, pc.shift_left(high, 32)).buffers()[1]
        between = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pairs, self._buffer])
        even = pc.cumulative_sum(pa.repeat(pa.scalar(2, pa.int64()), count), start=-2)
        if null is not None:
            even = pc.if_else(null, pa.scalar(None, pa.int64()), even)
        return between.take(even)


def unzigzag(value: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    half = pc.shift_right(value, 1)
    return pc.if_else(pc.equal(pc.bit_wise_and(value, 1), 1), pc.bit_wise_not(half), half)


def require(holds: pa.Array) -> None:
    import pyarrow.compute as pc

    if not pc.all(holds, min_count=0).as_py():
        raise Odd


def as_arrow(numbers: array[int]) -> pa.Array:
    import pyarrow as pa

    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])
