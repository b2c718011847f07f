"""Which rows of a partition are dead, by key: columns in, columns out. Pure.

Keys are compared by their BLAKE2s digests of 128 bits: rows of fixed size, however large keys are.
64 bits would lose data: among a billion keys two share a digest with odds of 1 in 37.

A digest may come several times for one unit: a part of a unit is reduced as soon as it was read, so
that no step holds all rows of a unit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from logstore.records.digests import DIGEST_BYTES, digests_of, last_rows

if TYPE_CHECKING:
    import pyarrow as pa

ROW_BYTES = 32
"""Memory of one row here, about: digest, offset, unit, and whether it is a tombstone."""


@dataclass(frozen=True, slots=True)
class Decided:
    """`dead`, `tombstones`: columns unit, offset; these tombstones may go.

    `held`: of each unit that has older rows of keys whose last row is a tombstone, the least offset
    of these tombstones. `last_tombstones`: how many are the last row of their key, whatever their
    age; `newest_tombstone`: the greatest offset of these, -1 for none.
    """

    dead: pa.Table
    tombstones: pa.Table
    held: Mapping[int, int]
    last_tombstones: int
    newest_tombstone: int


def key_schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema(
        [
            ("digest", pa.binary(DIGEST_BYTES)),
            ("offset", pa.int64()),
            ("unit", pa.int32()),
            ("tombstone", pa.bool_()),
        ]
    )


def key_rows(unit: int, keys: pa.Array, offsets: pa.Array, tombstones: pa.Array) -> pa.Table:
    """Rows of one unit, none of which has a null key."""
    import pyarrow as pa

    units = pa.repeat(pa.scalar(unit, pa.int32()), len(keys))
    return pa.table([digests_of(keys), offsets, units, tombstones], schema=key_schema())


def newest_of(rows: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The row with the greatest offset of each digest, and all others. Order is kept."""
    import pyarrow.compute as pc

    columns = (rows[name].combine_chunks() for name in ("digest", "offset"))
    is_newest = last_rows(*columns)
    if is_newest.true_count == rows.num_rows:
        return rows, rows.slice(0, 0)
    return rows.filter(is_newest), rows.filter(pc.invert(is_newest))


def reduced(rows: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Rows of one unit that a decision needs, and all others, which are dead.

    The newest row of each digest, and of one that ends in a tombstone an older row too: the
    decision has to know which units have any.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    newest, dead = newest_of(rows)
    stones = newest.filter(newest["tombstone"])
    if not stones.num_rows or not dead.num_rows:
        return newest, dead
    older, _ = newest_of(dead.filter(pc.is_in(dead["digest"], value_set=stones["digest"])))
    is_kept = pc.is_in(dead["offset"], value_set=older["offset"])
    return pa.concat_tables([newest, older]), dead.filter(pc.invert(is_kept))


def decide(rows: pa.Table, horizon: int) -> Decided:
    """`rows` hold all rows of their digests below the clean end, reduced or not.

    Tombstones at offsets below `horizon` may go, once no older row of their key is left.
    """
    import pyarrow.compute as pc

    rows = rows.combine_chunks()
    newest, dead = newest_of(rows)
    stones = newest.filter(newest["tombstone"]).combine_chunks()
    last = pc.max(stones["offset"]).as_py()
    holders = dead.filter(pc.is_in(dead["digest"], value_set=stones["digest"]))
    at = pc.index_in(holders["digest"], value_set=stones["digest"])
    held = stones.select(["offset"]).take(at).append_column("holder", holders["unit"])
    is_held = pc.is_in(stones["offset"], value_set=held["offset"])
    is_old = pc.less(stones["offset"], horizon)
    free = stones.filter(pc.and_(is_old, pc.invert(is_held)))
    return Decided(
        dead.select(["unit", "offset"]),
        free.select(["unit", "offset"]),
        {unit: some["offset"][0].as_py() for unit, some in _cut_by("holder", held)},
        stones.num_rows,
        -1 if last is None else last,
    )


def by_unit(rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Rows by their column `unit`, rising, within it by offset; without that column."""
    yield from _cut_by("unit", rows)


def by_bucket(rows: pa.Table, bucket_count: int) -> dict[int, pa.Table]:
    """Rows by the first two bytes of their digests: each bucket is about as large as the others."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if bucket_count == 1:
        return {0: rows}
    rows = rows.combine_chunks()  # `take` of many chunks costs several times as much
    digests = rows["digest"].combine_chunks().cast(pa.binary())
    number = pc.add(pc.multiply(_byte(digests, 0), 256), _byte(digests, 1))
    buckets = pc.shift_right(pc.multiply(number, bucket_count), 16)
    ordered = pc.array_sort_indices(buckets)  # stable: offsets stay as they are within a bucket
    return dict(_parts(buckets, rows.take(ordered)))


def _cut_by(name: str, rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Rows that are alike in a column, without it, by offset; the column's values rise.

    By no `group_by` or `sort_by`: these load Arrow's query engine, a fifth of a second of a process
    that may run one task.
    """
    import pyarrow.compute as pc

    if not rows.num_rows:
        return
    rows = rows.combine_chunks()
    keys = [(name, "ascending"), ("offset", "ascending")]
    ordered = pc.sort_indices(rows, sort_keys=keys)
    yield from _parts(rows[name].combine_chunks(), rows.drop_columns([name]).take(ordered))


def _parts(values: pa.Array, ordered: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """`ordered` by `values`, cut where these change."""
    start = 0
    for value, count in sorted(
        (one["values"], one["counts"]) for one in values.value_counts().to_pylist()
    ):
        yield value, ordered.slice(start, count)
        start += count


def _byte(digests: pa.Array, at: int) -> pa.Array:
    """The byte at `at` of each, as int64."""
    import pyarrow as pa
    import pyarrow.compute as pc

    one = pc.binary_slice(digests, at, at + 1).cast(pa.binary(1))
    start = one.offset
    raw = one.buffers()[1].slice(start, len(one)) if len(one) else pa.py_buffer(b"")
    return pa.Array.from_buffers(pa.uint8(), len(one), [None, raw]).cast(pa.int64())
