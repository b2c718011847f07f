"""Key compaction of a table held against its own log: a part of `logstore fsck`.

A commit of key compaction takes files out and puts others in, and says up to which offset it looked
at keys. Which rows went between the two versions can be seen as long as the files that it took out
are there, for a week unless the table says otherwise. Of each key the last row below the clean end
must be left, unless it is a tombstone and every older row of its key went too. Of no tombstone
below the settled end may an older row be left: the tombstone goes by it some time later.

This states the rule once more, by the keys themselves, and shares no code with the compaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from logstore.history.forms.entries import LogEntry
from logstore.history.forms.names import entry_key
from logstore.history.forms.snapshot import DataFile, Snapshot
from logstore.history.read_keys import read_keys
from logstore.protocol.rules.checks import Problem, ProblemKind
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
        ends = [(entry.facts.version, entry.cleaned.get(partition)) for entry in entries]
        for version, after, before in _falls(ends):
            detail = (
                f"partition {partition} is cleaned up to {after}, an earlier version says {before}"
            )
            yield _problem(snapshot.topic_id, version, detail)


def settled_end_problems(snapshot: Snapshot, entries: Sequence[LogEntry]) -> Iterator[Problem]:
    """A settled end comes with a clean end, of a partition that the table has, and is not above it.

    It goes back only after the table's owner changed rows: a RESTORE brings older records back.
    """
    for partition, settled in snapshot.settled.items():
        clean_end = snapshot.cleaned.get(partition)
        if snapshot.end(partition) is None or clean_end is None:
            lacks = "clean end" if snapshot.end(partition) is not None else "table end"
            detail = f"partition {partition} has a settled end of {settled} and no {lacks}"
        elif settled > clean_end:
            detail = (
                f"partition {partition} is settled up to {settled}, its clean end is {clean_end}"
            )
        else:
            continue
        yield _settled(snapshot.topic_id, snapshot.version, detail)
    for partition in snapshot.settled:
        for some in _without_edits(entries, partition):
            ends = [(entry.facts.version, entry.settled.get(partition)) for entry in some]
            for version, after, before in _falls(ends):
                detail = (
                    f"partition {partition} is settled up to {after}, an earlier version says "
                    f"{before}, and its owner changed no row in between"
                )
                yield _settled(snapshot.topic_id, version, detail)


def _falls(ends: Iterable[tuple[int, int | None]]) -> Iterator[tuple[int, int, int]]:
    """Of versions and their ends, if they say any: version, end, and a greater one before it."""
    said = [(version, end) for version, end in ends if end is not None]
    for (_, before), (version, after) in pairwise(said):
        if after < before:
            yield version, after, before


def _without_edits(entries: Sequence[LogEntry], partition: int) -> Iterator[Sequence[LogEntry]]:
    """Series of entries in which the table's owner changed no rows of the partition."""
    some: list[LogEntry] = []
    for entry in entries:
        if entry.facts.run is None and partition in entry.facts.rewritten:
            yield some
            some = []
        some.append(entry)
    yield some


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
    settled = entry.settled.get(partition, 0)
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
            where = f"partition={partition} clean end={clean_end} offsets={_shown(offsets)}"
            yield _problem(topic_id, entry.facts.version, f"{what}: {where}")
    unsettled = _unsettled(keyed, last, gone, settled)
    if len(unsettled):
        where = f"partition={partition} settled end={settled} offsets={_shown(unsettled)}"
        detail = f"an older record is left of a deletion below the settled end: {where}"
        yield _settled(topic_id, entry.facts.version, detail)


def _undone(keyed: pa.Table, last: pa.Table, gone: pa.Array) -> pa.Array:
    """Offsets of tombstones that are gone while an older row of their key is left."""
    import pyarrow.compute as pc

    tombstones = last.filter(pc.and_(last["is_null"], pc.is_in(last["offset"], value_set=gone)))
    left = keyed.filter(pc.invert(pc.is_in(keyed["offset"], value_set=gone)))
    is_left = pc.is_in(tombstones["key"], value_set=left["key"].combine_chunks())
    return tombstones.filter(is_left)["offset"].combine_chunks()


def _unsettled(keyed: pa.Table, last: pa.Table, gone: pa.Array, settled: int) -> pa.Array:
    """Offsets of tombstones below the settled end that are left beside an older row of their key.

    `_undone` has those that are gone.
    """
    import pyarrow.compute as pc

    stones = last.filter(pc.and_(last["is_null"], pc.less(last["offset"], settled)))
    stones = stones.filter(pc.invert(pc.is_in(stones["offset"], value_set=gone)))
    others = keyed.filter(pc.invert(pc.is_in(keyed["offset"], value_set=_all(last["offset"]))))
    older = others.filter(pc.invert(pc.is_in(others["offset"], value_set=gone)))
    return _all(stones.filter(pc.is_in(stones["key"], value_set=_all(older["key"])))["offset"])


def _both(offsets: pa.Array, others: pa.ChunkedArray) -> pa.Array:
    import pyarrow.compute as pc

    return offsets.filter(pc.is_in(offsets, value_set=others.combine_chunks()))


def _all(values: pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks()


def _shown(offsets: pa.Array) -> str:
    shown = ", ".join(str(one) for one in offsets[:OFFSETS_SHOWN].to_pylist())
    return (
        shown
        if len(offsets) <= OFFSETS_SHOWN
        else f"{shown} and {len(offsets) - OFFSETS_SHOWN} more"
    )


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


def _settled(topic_id: bytes, version: int, detail: str) -> Problem:
    return Problem(ProblemKind.TABLE_SETTLED, entry_key(topic_id, version), detail, ())
