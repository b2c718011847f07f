"""Which rows are dead, beside a model that looks at one row after the other."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.compaction.decisions.clean_keys import (
    by_bucket,
    by_unit,
    decide,
    key_rows,
    key_schema,
    reduced,
)
from logstore.compaction.decisions.clean_objects import Piece, PieceWriter, decode_piece
from logstore.errors import Corrupt
from logstore.records.digests import DIGEST_BYTES, digests_of


class Row(NamedTuple):
    offset: int
    unit: int
    key: bytes
    tombstone: bool


def history() -> st.SearchStrategy[list[Row]]:
    """Rows of up to 6 units, offsets rising with gaps."""
    one = st.tuples(st.integers(1, 3), st.integers(0, 1), st.integers(0, 8), st.booleans())
    return st.lists(one, max_size=60).map(_rows)


def _rows(steps: Sequence[tuple[int, int, int, bool]]) -> list[Row]:
    rows, offset, unit = [], -1, 0
    for gap, next_unit, key, tombstone in steps:
        offset, unit = offset + gap, min(5, unit + next_unit)
        rows.append(Row(offset, unit, b"k" * key, tombstone))
    return rows


def table_of(rows: Sequence[Row]) -> pa.Table:
    parts = [
        key_rows(
            row.unit,
            pa.array([row.key], pa.binary()),
            pa.array([row.offset], pa.int64()),
            pa.array([row.tombstone]),
        )
        for row in rows
    ]
    return pa.concat_tables(parts) if parts else key_schema().empty_table()


def naive_dead(rows: Sequence[Row]) -> set[int]:
    return {
        row.offset
        for row in rows
        if any(other.key == row.key and other.offset > row.offset for other in rows)
    }


def naive_held(rows: Sequence[Row]) -> dict[int, int]:
    """By unit with an older row: the least offset of tombstones that are the last of their key."""
    held: dict[int, int] = {}
    for row in rows:
        if row.tombstone and row.offset not in naive_dead(rows):
            for other in rows:
                if other.key == row.key and other.offset < row.offset:
                    held[other.unit] = min(row.offset, held.get(other.unit, row.offset))
    return held


def naive_tombstones(rows: Sequence[Row], horizon: int) -> set[int]:
    """Old ones that are the only row of their key."""
    return {
        row.offset
        for row in rows
        if row.tombstone
        and row.offset < horizon
        and all(other is row or other.key != row.key for other in rows)
    }


@given(history(), st.integers(0, 100))
def test_decisions_are_the_models(rows: list[Row], horizon: int) -> None:
    decided = decide(table_of(rows), horizon)

    assert set(decided.dead["offset"].to_pylist()) == naive_dead(rows)
    units = {row.offset: row.unit for row in rows}
    for part in (decided.dead, decided.tombstones):
        pairs = zip(part["offset"].to_pylist(), part["unit"].to_pylist(), strict=True)
        assert all(units[offset] == unit for offset, unit in pairs)
    dropped = decided.tombstones["offset"].to_pylist()
    assert sorted(dropped) == sorted(naive_tombstones(rows, horizon))
    assert decided.held == naive_held(rows)
    last = [row.offset for row in rows if row.tombstone and row.offset not in naive_dead(rows)]
    assert decided.newest_tombstone == max(last, default=-1)
    assert decided.last_tombstones == len(last)


@given(history(), st.integers(0, 100), st.integers(1, 5), st.integers(1, 7))
def test_parts_and_buckets_decide_as_the_whole(
    rows: list[Row], horizon: int, buckets: int, part_rows: int
) -> None:
    whole = decide(table_of(rows), horizon)

    dead: set[int] = set()
    by_number: dict[int, list[pa.Table]] = {}
    for part in parts_of(rows, part_rows):
        newest, older = reduced(table_of(part))
        dead |= set(older["offset"].to_pylist())
        for number, mine in by_bucket(newest, buckets).items():
            by_number.setdefault(number, []).append(mine)
    tombstones: set[int] = set()
    held: dict[int, int] = {}
    count = 0
    for parts in by_number.values():
        decided = decide(pa.concat_tables(parts), horizon)
        dead |= set(decided.dead["offset"].to_pylist())
        tombstones |= set(decided.tombstones["offset"].to_pylist())
        count += decided.last_tombstones
        for unit, offset in decided.held.items():
            held[unit] = min(offset, held.get(unit, offset))

    assert dead == set(whole.dead["offset"].to_pylist())
    assert tombstones == set(whole.tombstones["offset"].to_pylist())
    assert (held, count) == (whole.held, whole.last_tombstones)


def parts_of(rows: Sequence[Row], part_rows: int) -> Iterator[Sequence[Row]]:
    """As a scan makes them: of one unit each."""
    for _, mine in groupby(rows, lambda row: row.unit):
        unit = list(mine)
        for start in range(0, len(unit), part_rows):
            yield unit[start : start + part_rows]


def test_digests_have_128_bits_and_are_of_the_whole_key() -> None:
    digests = digests_of(pa.array([b"", b"a", b"a" * 100, b"a" * 101], pa.binary())).to_pylist()

    assert [len(digest) for digest in digests] == [16] * 4
    assert len({digest[:8] for digest in digests}) == len({digest[8:] for digest in digests}) == 4
    assert DIGEST_BYTES * 8 == 128


def test_buckets_are_about_equal() -> None:
    keys = pa.array([b"%d" % number for number in range(20_000)], pa.binary())
    rows = key_rows(0, keys, pa.array(range(20_000)), pa.repeat(pa.scalar(False), 20_000))

    sizes = [bucket.num_rows for bucket in by_bucket(rows, 7).values()]

    assert len(sizes) == 7
    assert max(sizes) < 1.2 * min(sizes)


def test_rows_by_unit_are_in_order() -> None:
    rows = pa.table({"unit": pa.array([3, 1, 3], pa.int32()), "offset": [9, 4, 2]})

    assert [(unit, part.to_pydict()) for unit, part in by_unit(rows)] == [
        (1, {"offset": [4]}),
        (3, {"offset": [2, 9]}),
    ]


@given(history())
def test_pieces_come_back_as_they_were(rows: list[Row]) -> None:
    writer = PieceWriter("compaction/x")
    tables = [table_of(rows), table_of(rows).select(["offset"]), table_of(rows[:1])]

    pieces = [writer.add(table) for table in tables]

    data = b"".join(writer.parts)
    for piece, table in zip(pieces, tables, strict=True):
        part = data[piece.start : piece.start + piece.length]
        assert decode_piece(piece, part).equals(table.combine_chunks())
        assert piece.data is None
        assert piece.within(data).data == part


def test_a_damaged_piece_is_refused() -> None:
    writer = PieceWriter("compaction/x")
    piece = writer.add(table_of([Row(5, 1, b"a", False)]))
    (data,) = writer.parts
    for position in (0, 3, 4, len(data) // 2, len(data) - 1):
        damaged = bytearray(data)
        damaged[position] ^= 1
        with pytest.raises(Corrupt, match="damaged: key=compaction/x"):
            decode_piece(piece, bytes(damaged))
    with pytest.raises(Corrupt):
        decode_piece(piece, data[:-1])
    with pytest.raises(Corrupt):
        decode_piece(Piece("k", 0, 3), data[:3])
    with pytest.raises(Corrupt, match="damaged: key=k"):
        _ = Piece("k", 0, 3, "no Base64").data
