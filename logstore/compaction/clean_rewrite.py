"""Rows of neighbouring units of a partition, written again without those that key compaction drops.

What is written has exactly the rows that were decided about, or nothing is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from logstore.compaction.dead_offsets import DeadOffsets
from logstore.errors import Corrupt
from logstore.history.forms.snapshot import DataFile
from logstore.history.write import TableWriter

if TYPE_CHECKING:
    import pyarrow as pa


class Rewritten(NamedTuple):
    """`rows`: how many are left; `dropped`: how many are not, tombstones among them."""

    files: Sequence[DataFile]
    rows: int
    dropped: int
    dropped_tombstones: int


def write_without(
    writer: TableWriter,
    batches: Iterable[pa.RecordBatch],
    rows_said: int,
    dead: DeadOffsets,
    tombstones: DeadOffsets,
    where: str,
) -> Rewritten:
    """All of `batches`, in order, without the offsets in `dead` and `tombstones`.

    Raises `Corrupt`, saying `where`, if they have not `rows_said` rows, and all of these offsets.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    no_offsets = pa.array([], pa.int64())
    seen = kept = 0
    for rows in batches:
        offsets = rows.column("offset")
        last = offsets[-1].as_py()
        here = pa.concat_arrays([no_offsets, *dead.up_to(last), *tombstones.up_to(last)])
        left = rows.filter(pc.invert(pc.is_in(offsets, value_set=here)))
        writer.write(pa.record_batch(left.columns, schema=rows.schema))
        seen += rows.num_rows
        kept += left.num_rows
    files = writer.close()
    dropped = dead.all_count() + tombstones.all_count()
    if seen != rows_said or seen - kept != dropped:
        raise Corrupt(
            f"files do not hold the rows that were decided about: {where} rows={seen} "
            f"said={rows_said} left out={seen - kept} decided={dropped}"
        )
    return Rewritten(files, kept, dropped, tombstones.all_count())
