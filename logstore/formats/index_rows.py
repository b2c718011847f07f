"""Index rows: one batch each, packed alike in memory and in checkpoint pages.

An index entry of a segment is another layout, of 96 bytes: `formats.segment`.

    at    size  row field (big-endian)
      0      8  seq              of the segment
      8      8  position         in the segment's body (or in the staged object's, see place)
     16      4  length
     20      4  record count
     24      2  place            0: the segment itself; n: the n-th place of the checkpoint
                                 (reserved: `formats.segment`)
     26      1  flags            as in an index entry
     27      1  reserved
     28      8  base offset
     36      8  last offset
     44      8  max timestamp
     52      8  its offset       -1: some record of this batch
     60      8  running max      largest max timestamp of the epoch range up to this row
     68

Rows of one epoch range lie in offset order, so both look-ups are binary searches over the packed
bytes: by offset on last offset, by time on the running max (client timestamps need not rise). Pure.
"""

import struct
from collections.abc import Iterable
from typing import NamedTuple

ROW = struct.Struct(">QQIIHBxqqqqq")
ROW_BYTES = ROW.size
assert ROW_BYTES == 68

_LAST_OFFSET = struct.Struct(">q")
_LAST_OFFSET_AT = 36
_RUNNING_MAX_AT = 60
_SEQ = struct.Struct(">Q")
_POSITION_AT = 8
POSITION_BYTES = 8

SCAN_ROWS_MAX = 2048
"""Copied and walked in one go: 3 ms of a thread, which the event loop may have to wait for."""

Rows = bytes | bytearray | memoryview


class IndexRow(NamedTuple):
    seq: int
    position: int
    length: int
    record_count: int
    place: int
    flags: int
    base_offset: int
    last_offset: int
    max_timestamp: int
    max_timestamp_offset: int
    running_max: int


def row_count(rows: Rows) -> int:
    return len(rows) // ROW_BYTES


def row_at(rows: Rows, number: int) -> IndexRow:
    return IndexRow(*ROW.unpack_from(rows, number * ROW_BYTES))


def set_last_positions(rows: bytearray, positions: bytes) -> None:
    """The last rows get `positions`, packed as in a row: of batches that were moved."""
    begin = len(rows) - len(positions) // POSITION_BYTES * ROW_BYTES
    assert begin >= 0, f"more positions than rows: missing={-begin}"
    for byte in range(POSITION_BYTES):
        rows[begin + _POSITION_AT + byte :: ROW_BYTES] = positions[byte::POSITION_BYTES]


def first_row_for_offset(rows: Rows, offset: int) -> int:
    """Number of the first row whose last offset is >= `offset`; the row count if there is none."""
    return _first_at_least(rows, offset, _LAST_OFFSET_AT)


def first_row_for_time(rows: Rows, timestamp: int) -> int:
    """Number of the first row with a record at or after `timestamp`; the row count if none."""
    return _first_at_least(rows, timestamp, _RUNNING_MAX_AT)


def row_for_time(rows: Rows, timestamp: int, log_start: int) -> int:
    """As `first_row_for_time`, but not wholly below `log_start`; the row count if there is none."""
    first = first_row_for_time(rows, timestamp)
    kept = first_row_for_offset(rows, log_start)
    # The running maximum may be that of a row that is passed over, here or before these rows.
    number, count = max(first, kept), row_count(rows)
    while number < count and row_at(rows, number).max_timestamp < timestamp:
        number += 1
    return number


def find_offset(runs: Iterable[Rows], offset: int) -> tuple[Rows, int] | None:
    """The rows of `runs` that hold `offset`, and the number of that row; None: before or after all.

    `runs` follow one another by offsets; some may be empty.
    """
    is_first = True
    for rows in runs:
        if not rows:
            continue
        if is_first and row_at(rows, 0).base_offset > offset:
            return None
        number, is_first = first_row_for_offset(rows, offset), False
        if number < row_count(rows):
            return rows, number
    return None


def find_time(runs: Iterable[Rows], timestamp: int, from_offset: int) -> tuple[Rows, int] | None:
    """The rows of `runs` with the first record at or after `timestamp` (ms), and its row's number.

    Batches wholly below `from_offset` are passed over.
    """
    for rows in runs:
        number = row_for_time(rows, timestamp, from_offset)
        if number < row_count(rows):
            return rows, number
    return None


def max_timestamp_below(runs: Iterable[Rows], offset: int) -> tuple[int, int]:
    """Largest timestamp (ms) of an epoch range below `offset`, and an offset in its batch.

    `runs` are the last rows of the epoch range. By binary searches for the running maximum, however
    many rows there are. The offset is -1 if a batch before `runs` has it, and not their first too;
    (-1, -1) without rows.
    """
    best = (-1, -1)
    for rows in runs:
        count = first_row_for_offset(rows, offset)
        if count < row_count(rows) and row_at(rows, count).base_offset < offset:
            count += 1
        largest = row_at(rows, count - 1).running_max if count else -1
        if largest > best[0]:
            first = row_at(rows, first_row_for_time(rows, largest))
            best = (largest, first.base_offset if first.max_timestamp == largest else -1)
    return best


def some_from(rows: Rows, number: int) -> bytes:
    """A copy of the rows from `number` on, few enough for one walk over all of them."""
    begin = number * ROW_BYTES
    return bytes(rows[begin : begin + SCAN_ROWS_MAX * ROW_BYTES])


def largest_timestamp(rows: Rows, offset: int) -> tuple[int, int]:
    """Largest timestamp (ms) in `rows` below `offset`, and an offset in its batch, or (-1, -1).

    Looks at every row, since running maxima may be of batches before `rows`.
    """
    best = (-1, -1)
    for number in range(row_count(rows)):
        row = row_at(rows, number)
        if row.base_offset < offset and row.max_timestamp > best[0]:
            best = (row.max_timestamp, row.base_offset)
    return best


def first_row_for_seq(rows: Rows, seq: int) -> int:
    """Number of the first row of segment `seq` or a later one."""
    low, high = 0, row_count(rows)
    unpack = _SEQ.unpack_from
    while low < high:
        middle = (low + high) // 2
        if unpack(rows, middle * ROW_BYTES)[0] < seq:
            low = middle + 1
        else:
            high = middle
    return low


def _first_at_least(rows: Rows, wanted: int, field_at: int) -> int:
    low, high = 0, row_count(rows)
    unpack = _LAST_OFFSET.unpack_from
    while low < high:
        middle = (low + high) // 2
        if unpack(rows, middle * ROW_BYTES + field_at)[0] < wanted:
            low = middle + 1
        else:
            high = middle
    return low
