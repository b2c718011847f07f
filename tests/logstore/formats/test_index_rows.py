"""Look-ups in packed index rows find what a walk over all of them finds."""

from itertools import accumulate

from hypothesis import example, given
from hypothesis import strategies as st

from logstore.formats.index_rows import (
    ROW,
    IndexRow,
    first_row_for_offset,
    first_row_for_seq,
    first_row_for_time,
    largest_timestamp,
    max_timestamp_below,
    row_at,
    row_count,
    row_for_time,
)

steps = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2), st.integers(-50, 50)), max_size=60)


def rows_of(found: list[tuple[int, int, int]]) -> tuple[bytes, list[IndexRow]]:
    """Rows of batches given by (record count, seqs further, max timestamp)."""
    rows, offset, seq, largest = [], 100, 1, -1
    for count, further, timestamp in found:
        seq += further
        largest = max(largest, timestamp)
        last = offset + count - 1
        rows.append(IndexRow(seq, 0, 70, count, 0, 0, offset, last, timestamp, -1, largest))
        offset += count
    return b"".join(ROW.pack(*row) for row in rows), rows


@given(steps)
def test_rows_are_read_as_they_were_packed(found: list[tuple[int, int, int]]) -> None:
    packed, rows = rows_of(found)

    assert row_count(packed) == len(rows)
    assert [row_at(packed, number) for number in range(len(rows))] == rows
    assert [row.running_max for row in rows] == list(
        accumulate((row.max_timestamp for row in rows), max, initial=-1)
    )[1:]


@given(steps, st.integers(90, 400))
def test_by_offset(found: list[tuple[int, int, int]], offset: int) -> None:
    packed, rows = rows_of(found)
    reaching = [number for number, row in enumerate(rows) if row.last_offset >= offset]

    assert first_row_for_offset(packed, offset) == min(reaching, default=len(rows))


@given(steps, st.integers(-60, 60))
def test_by_time_though_timestamps_do_not_rise(
    found: list[tuple[int, int, int]], timestamp: int
) -> None:
    packed, rows = rows_of(found)
    late = [number for number, row in enumerate(rows) if row.running_max >= timestamp]
    first = first_row_for_time(packed, timestamp)

    assert first == min(late, default=len(rows))
    assert all(row.max_timestamp < timestamp for row in rows[:first])


@given(steps, st.integers(0, 60), st.integers(-60, 60), st.integers(90, 240))
def test_by_time_from_a_log_start_on_though_a_larger_timestamp_lies_below_it(
    found: list[tuple[int, int, int]], dropped: int, timestamp: int, log_start: int
) -> None:
    packed, rows = rows_of(found)
    dropped = min(dropped, len(rows))  # rows that went into a checkpoint; the maximum runs on
    log_start = max(log_start, rows[dropped - 1].last_offset + 1 if dropped else 0)
    kept = rows[dropped:]
    wanted = [
        number
        for number, row in enumerate(kept)
        if row.last_offset >= log_start and row.max_timestamp >= timestamp
    ]

    first = row_for_time(packed[dropped * ROW.size :], timestamp, log_start)

    assert first == min(wanted, default=len(kept))


@given(steps, st.integers(0, 130))
def test_by_seq(found: list[tuple[int, int, int]], seq: int) -> None:
    packed, rows = rows_of(found)
    later = [number for number, row in enumerate(rows) if row.seq >= seq]

    assert first_row_for_seq(packed, seq) == min(later, default=len(rows))


@given(steps, st.integers(0, 9), st.integers(0, 20), st.integers(90, 240))
@example([(1, 0, 9), (1, 0, 5), (1, 0, 7)], 1, 2, 103)
@example([(1, 0, 9), (1, 0, 5), (1, 0, 9)], 1, 2, 103)
@example([(1, 0, 9), (1, 0, 9)], 1, 1, 102)
def test_the_largest_timestamp_of_the_last_rows_is_found_or_said_to_be_of_earlier_ones(
    found: list[tuple[int, int, int]], dropped: int, cut: int, offset: int
) -> None:
    packed, rows = rows_of(found)
    dropped = min(dropped, len(rows))
    cut = max(dropped, min(cut, len(rows)))
    runs = [packed[dropped * ROW.size : cut * ROW.size], packed[cut * ROW.size :]]
    below = [row for row in rows if row.base_offset < offset]
    largest = max((row.max_timestamp for row in below), default=-1)

    expected = (-1, -1)
    if len(below) > dropped and largest > -1:
        here = [row.base_offset for row in below[dropped:] if row.max_timestamp == largest]
        is_earlier = any(row.max_timestamp == largest for row in rows[:dropped])
        is_first = below[dropped].max_timestamp == largest
        expected = (largest, here[0] if is_first or not is_earlier else -1)
    assert max_timestamp_below(runs, offset) == expected


@given(steps, st.integers(0, 60), st.integers(90, 240))
def test_the_largest_timestamp_of_a_part_is_that_of_its_own_rows(
    found: list[tuple[int, int, int]], dropped: int, offset: int
) -> None:
    packed, rows = rows_of(found)
    mine = [row for row in rows[dropped:] if row.base_offset < offset and row.max_timestamp > -1]
    largest = max((row.max_timestamp for row in mine), default=-1)
    at = next((row.base_offset for row in mine if row.max_timestamp == largest), -1)

    assert largest_timestamp(packed[dropped * ROW.size :], offset) == (largest, at)
