"""Key compaction of a table held against its own log: a part of `logstore fsck`.

A commit of key compaction takes files out and puts others in, and says up to which offset it looked
at keys. Which rows went between the two versions can be seen as long as the files that it took out
are there, for a week unless the table says otherwise. Of each key the last row below the clean end
must be left, unless it is a tombstone and every older row of its key went too.

This states the rule once more, by the keys themselves, and shares no code with the compaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from logstore.history.entries import LogEntry
from logstore.history.names import entry_key
from logstore.history.read_keys import read_keys
from logstore.history.snapshot import DataFile, Snapshot
from logstore.protocol.checks import Problem, ProblemKind
from logstore.runners.retrying import RetryingStore

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_MAX = 4_000_000
"""Of a partition whose commits are checked row by row: all of its keys are in memory."""

OFFSETS_SHOWN = 5


def clean_end_problems(snapshot: Snapshot, entries: Sequence[LogEntry]) -> Iterator[Problem]:
    """A clean end is not above the table end, and never goes back. `entries` rise by version."""
    for partition, clean_end in snapshot.cleaned.items():
        end = snapshot.end(partition) or 0
        if clean_end > end:
            detail = f"partition {partition} is cleaned up to {clean_end}, the table ends at {end}"
            yield _problem(snapshot.topic_id, snapshot.version, detail)
    for partition in snapshot.cleaned:
        said = [entry for entry in entries if partition in entry.cleaned]
        for before, after in pairwise(said):
            if after.cleaned[partition] < before.cleaned[partition]:
                detail = (
                    f"partition {partition} is cleaned up to {after.cleaned[partition]}, an "
                    f"earlier version says {before.cleaned[partition]}"
                )
                yield _problem(snapshot.topic_id, after.facts.version, detail)


def is_small(before: Snapshot, partition: int) -> bool:
    """Whether a partition's commits can be checked row by row."""
    return sum(max(file.rows, 0) for file in before.files.get(partition, ())) <= ROWS_MAX


def row_problems(
    store: RetryingStore, before: Snapshot, entry: LogEntry, partition: int
) -> Iterator[Problem]:
    """Rows of a partition that `entry`, the version after `before`, took out and that must stay,
    and rows that it put in.

    Raises `NotFound` where a file has been swept since, `Corrupt` for one that is damaged.
    """
    import pyarrow.compute as pc

    topic_id, clean_end = before.topic_id, entry.cleaned[partition]
    files, taken_out = before.files.get(partition, ()), set(entry.removed_paths)
    rows = _rows(store, topic_id, partition, files)
    old = _rows(store, topic_id, partition, [one for one in files if one.path in taken_out])
    new = _rows(
        store, topic_id, partition, [one for one in entry.adds if one.partition == partition]
    )
    old_offsets, new_offsets = old["offset"].combine_chunks(), new["offset"].combine_chunks()
    gone = old_offsets.filter(pc.invert(pc.is_in(old_offsets, value_set=new_offsets)))
    made = new_offsets.filter(pc.invert(pc.is_in(new_offsets, value_set=old_offsets)))

    below = rows.filter(pc.less(rows["offset"], clean_end))
    raw = rows.filter(rows["is_raw"])["offset"]
    young = rows.filter(pc.greater_equal(rows["offset"], clean_end))["offset"]
    keyed = below.filter(pc.and_(pc.is_valid(below["key"]), pc.invert(below["is_raw"])))
    newest = keyed.group_by("key").aggregate([("offset", "max")])["offset_max"]
    is_last = pc.is_in(keyed["offset"], value_set=newest)
    last = keyed.filter(is_last)
    values = last.filter(pc.invert(last["is_null"]))["offset"]

    found: list[tuple[str, pa.Array]] = [
        ("the last record of a key is gone", _both(gone, values)),
        ("a record that is not below the clean end is gone", _both(gone, young)),
        ("a batch that cannot be decoded is gone", _both(gone, raw)),
        ("a deletion is gone, and an older record of its key is left", _undone(keyed, last, gone)),
        ("a record is there that the files taken out did not have", made),
    ]
    for what, offsets in found:
        if len(offsets):
            shown = ", ".join(str(one) for one in offsets[:OFFSETS_SHOWN].to_pylist())
            more = (
                "" if len(offsets) <= OFFSETS_SHOWN else f" and {len(offsets) - OFFSETS_SHOWN} more"
            )
            detail = f"{what}: partition={partition} clean end={clean_end} offsets={shown}{more}"
            yield _problem(topic_id, entry.facts.version, detail)


def _undone(keyed: pa.Table, last: pa.Table, gone: pa.Array) -> pa.Array:
    """Offsets of tombstones that are gone while an older row of their key is left."""
    import pyarrow.compute as pc

    tombstones = last.filter(pc.and_(last["is_null"], pc.is_in(last["offset"], value_set=gone)))
    left = keyed.filter(pc.invert(pc.is_in(keyed["offset"], value_set=gone)))
    is_left = pc.is_in(tombstones["key"], value_set=left["key"].combine_chunks())
    return tombstones.filter(is_left)["offset"].combine_chunks()


def _both(offsets: pa.Array, others: pa.ChunkedArray) -> pa.Array:
    import pyarrow.compute as pc

    return offsets.filter(pc.is_in(offsets, value_set=others.combine_chunks()))


def _rows(
    store: RetryingStore, topic_id: bytes, partition: int, files: Sequence[DataFile]
) -> pa.Table:
    import pyarrow as pa

    schema = pa.schema(
        [
            ("offset", pa.int64()),
            ("key", pa.binary()),
            ("is_null", pa.bool_()),
            ("is_raw", pa.bool_()),
        ]
    )
    parts = [part for file in files for part in read_keys(store, topic_id, partition, [file])]
    return pa.concat_tables([schema.empty_table(), *parts])


def _problem(topic_id: bytes, version: int, detail: str) -> Problem:
    return Problem(ProblemKind.TABLE_CLEANED, entry_key(topic_id, version), detail, ())
