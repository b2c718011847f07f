"""Which rows of a partition are dead, by key: columns in, columns out. Pure.

Keys are compared by their BLAKE2s digests of 128 bits: rows of fixed size, however large keys are.
64 bits would lose data: among a billion keys two share a digest with odds of 1 in 37.

A digest may come several times for one unit: a part of a unit is reduced as soon as it was read, so
that no step holds all rows of a unit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from logstore.records.digests import DIGEST_BYTES, digests_of

if TYPE_CHECKING:
    import pyarrow as pa

ROW_BYTES = 32
"""Memory of one row here, about: digest, offset, unit, and whether it is a tombstone."""

NO_HOLDER = -1


@dataclass(frozen=True, slots=True)
class Decided:
    """`dead`: columns unit, offset. `tombstones`: columns unit, offset, holder.

    A tombstone may go only together with every older row of its key. `holder` is a unit that has
    such a row, one line for each, or `NO_HOLDER`. `newest_tombstone`: the greatest offset of a
    tombstone that is the last row of its key, whatever its age; -1 for none.
    """

    dead: pa.Table
    tombstones: pa.Table
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

    newest = rows.group_by("digest", use_threads=False).aggregate([("offset", "max")])
    if newest.num_rows == rows.num_rows:
        return rows, rows.slice(0, 0)
    is_newest = pc.is_in(rows["offset"], value_set=newest["offset_max"])
    return rows.filter(is_newest), rows.filter(pc.invert(is_newest))


def decide(rows: pa.Table, horizon: int) -> Decided:
    """`rows` hold all rows of their digests below the clean end, reduced or not.

    Tombstones at offsets below `horizon` may go.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = rows.combine_chunks()
    newest, dead = newest_of(rows)
    tombstones = newest.filter(newest["tombstone"])
    last = pc.max(tombstones["offset"]).as_py()
    old = tombstones.filter(pc.less(tombstones["offset"], horizon)).combine_chunks()
    holders = dead.filter(pc.is_in(dead["digest"], value_set=old["digest"]))
    at = pc.index_in(holders["digest"], value_set=old["digest"])
    alone = old.filter(pc.invert(pc.is_in(old["digest"], value_set=holders["digest"])))
    nothing = pa.repeat(pa.scalar(NO_HOLDER, pa.int32()), alone.num_rows)
    held = old.select(["unit", "offset"]).take(at).append_column("holder", holders["unit"])
    free = alone.select(["unit", "offset"]).append_column("holder", nothing)
    return Decided(
        dead.select(["unit", "offset"]),
        pa.concat_tables([held, free]),
        -1 if last is None else last,
    )


def by_unit(rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Rows by their column `unit`, rising, within it by offset; without that column."""
    yield from _cut_by("unit", rows.sort_by([("unit", "ascending"), ("offset", "ascending")]))


def by_bucket(rows: pa.Table, bucket_count: int) -> dict[int, pa.Table]:
    """Rows by the first two bytes of their digests: each bucket is about as large as the others."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if bucket_count == 1:
        return {0: rows}
    digests = rows["digest"].combine_chunks().cast(pa.binary())
    number = pc.add(pc.multiply(_byte(digests, 0), 256), _byte(digests, 1))
    buckets = pc.shift_right(pc.multiply(number, bucket_count), 16)
    return dict(_cut_by("bucket", rows.append_column("bucket", buckets).sort_by("bucket")))


def _cut_by(name: str, ordered: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Neighbours that are alike in a column, without it."""
    others = ordered.drop_columns([name])
    counts = ordered.group_by(name, use_threads=False).aggregate([([], "count_all")])
    start = 0
    for value, count in sorted(
        zip(counts[name].to_pylist(), counts["count_all"].to_pylist(), strict=True)
    ):
        yield value, others.slice(start, count)
        start += count


def tombstones_to_drop(tombstones: pa.Table, rewritten: pa.Array) -> pa.Array:
    """Offsets, of rows with columns offset and holder: all of their holders are rewritten."""
    import pyarrow.compute as pc

    holders = tombstones["holder"]
    stays = pc.invert(pc.or_(pc.is_in(holders, value_set=rewritten), pc.equal(holders, NO_HOLDER)))
    held = tombstones.filter(stays)["offset"].combine_chunks()
    offsets = pc.unique(tombstones["offset"].combine_chunks())
    dropped: pa.Array = offsets.filter(pc.invert(pc.is_in(offsets, value_set=held)))
    return dropped


def _byte(digests: pa.Array, at: int) -> pa.Array:
    """The byte at `at` of each, as int64."""
    import pyarrow as pa
    import pyarrow.compute as pc

    one = pc.binary_slice(digests, at, at + 1).cast(pa.binary(1))
    start = one.offset
    raw = one.buffers()[1].slice(start, len(one)) if len(one) else pa.py_buffer(b"")
    return pa.Array.from_buffers(pa.uint8(), len(one), [None, raw]).cast(pa.int64())
