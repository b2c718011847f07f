"""One task of a key compaction: read keys, decide about a bucket of them, or write files again.

A scan holds the digests of so many rows as its task says, and writes them when it has more; a
decision holds one bucket; a rewrite holds the dead offsets of its files as they are stored, some
bytes each, and one row group. None holds all keys of a partition, or of a file, unless it is small:
then one task reads all rows once, decides, and writes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from time import thread_time
from typing import TYPE_CHECKING

from logstore.compaction.clean_rewrite import write_without
from logstore.compaction.dead_offsets import DeadOffsets
from logstore.compaction.decisions.clean_keys import (
    Decided,
    by_bucket,
    by_unit,
    decide,
    key_rows,
    key_schema,
    reduced,
)
from logstore.compaction.decisions.clean_objects import (
    Piece,
    PieceWriter,
    decode_piece,
    object_key,
    offsets_of,
)
from logstore.compaction.decisions.clean_plan import (
    CleanFound,
    CleanTask,
    DecideTask,
    RewriteTask,
    ScanTask,
)
from logstore.compaction.decisions.clean_rules import (
    Unit,
    chosen_units,
    neighbours_of,
    tombstone_horizon,
)
from logstore.compaction.decisions.plan import TaskResult
from logstore.compaction.decoding import BYTES_MAX, ROWS_MAX
from logstore.errors import AlreadyExists
from logstore.history.forms.columns import TABLE_COLUMNS
from logstore.history.forms.snapshot import DataFile
from logstore.history.read import read_rows
from logstore.history.read_keys import keys_of, read_keys
from logstore.history.write import TableWriter
from logstore.ports.objects import BlockingObjectStore
from logstore.runners.retrying import RetryingStore

if TYPE_CHECKING:
    import pyarrow as pa

PART_ROWS = 1_000_000
"""Rows that are reduced together, some 32 MB."""

OBJECT_BYTES = 32 << 20
"""Pieces of a task are stored when they have as many bytes; the next ones are another object."""


def run_clean_task(store: BlockingObjectStore, task: CleanTask, attempt: str) -> TaskResult:
    """`attempt` makes the names of objects unique. Raises `NotFound` where a file is gone: the
    table has a newer version; `Corrupt` for damage."""
    began_s = thread_time()
    work = _Work(RetryingStore.of(store), task, attempt)
    if isinstance(task, RewriteTask):
        work.rewrite(task)
    elif isinstance(task, ScanTask):
        work.scan(task)
    else:
        work.decide_bucket(task)
    work.close()
    return TaskResult(
        number=task.number,
        files=[(task.topic_id, file) for file in work.files],
        rows=work.rows,
        cpu_s=round(thread_time() - began_s, 3),
        found=work.found,
    )


class _Work:
    def __init__(self, store: RetryingStore, task: CleanTask, attempt: str) -> None:
        self._store = store
        self._task = task
        self._attempt = attempt
        kind = {ScanTask: "scan", DecideTask: "decide", RewriteTask: "rewrite"}[type(task)]
        self._key = object_key(task.run, task.topic_id, task.partition, kind, task.number, attempt)
        self._pieces = PieceWriter(self._key)
        self._stored = 0
        self._in_hand: Mapping[int, Sequence[pa.RecordBatch]] | None = None
        """All rows of a small partition, by unit. Its dead offsets need no pieces then."""
        self._dead: dict[int, list[pa.Array]] = defaultdict(list)
        self._stones: dict[int, list[pa.Array]] = defaultdict(list)
        self.found = CleanFound()
        self.files: list[DataFile] = []
        self.rows = 0

    def scan(self, task: ScanTask) -> None:
        """Read the keys of units; write what is left of them by bucket, or decide at once, and then
        write files again if the partition is small.
        """
        import pyarrow as pa

        if task.at_once_bytes:
            self._in_hand = self._all_rows(task)
        parts = (part for unit in task.units for part in self._reduced(unit, task))
        if task.bucket_count:
            self._scan_by_bucket(parts, task)
            return
        rows = pa.concat_tables([key_schema().empty_table(), *parts])
        raw_offset = None if self.found.raw_offset < 0 else self.found.raw_offset
        horizon = tombstone_horizon(task.horizon, task.horizon, raw_offset)
        self._take(decide(rows, horizon))
        if self._in_hand is not None:
            self._rewrite_in_hand(task, self._in_hand)

    def _scan_by_bucket(self, parts: Iterator[pa.Table], task: ScanTask) -> None:
        # Part by part: in memory that was used before, which costs a third of fresh pages.
        by_number: dict[int, list[pa.Table]] = {}
        held = 0
        for part in parts:
            if held and held + part.num_rows > task.rows_max:
                self._leave(by_number)
                held = 0
            for bucket, mine in by_bucket(part, task.bucket_count).items():
                by_number.setdefault(bucket, []).append(mine)
            held += part.num_rows
        self._leave(by_number)

    def decide_bucket(self, task: DecideTask) -> None:
        import pyarrow as pa

        # No name for the rows: `decide` lets go of the pieces when it has joined them.
        self._take(decide(pa.concat_tables(map(self._read, task.pieces)), task.horizon))

    def rewrite(self, task: RewriteTask) -> None:
        """Write files without the rows that a scan and decisions found dead.

        Raises `Corrupt` where the files do not hold what the scan saw.
        """
        if task.dead or task.tombstones:
            pieces = task.dead, task.tombstones
            dead, stones = (DeadOffsets(map(self._offsets, some)) for some in pieces)
            self._write(task.units, self._rows_of(task.units), task.rows, dead, stones)

    def _rewrite_in_hand(
        self, task: ScanTask, in_hand: Mapping[int, Sequence[pa.RecordBatch]]
    ) -> None:
        found = self.found
        rows = sum(unit.rows for unit in found.units.values())
        chosen = chosen_units(
            found.counts(), found.held, found.last_tombstones, rows, task.dead_ratio_min
        )
        for units in neighbours_of(task.units, chosen, task.at_once_bytes):
            indexes = [unit.index for unit in units]
            batches = (batch for index in indexes for batch in in_hand[index])
            said = sum(found.units[index].rows for index in indexes)
            dead, stones = (
                DeadOffsets(partial(iter, [some]) for index in indexes for some in kind[index])
                for kind in (self._dead, self._stones)
            )
            self._write(units, batches, said, dead, stones)
        found.rewritten = chosen

    def _write(
        self,
        units: Sequence[Unit],
        batches: Iterable[pa.RecordBatch],
        rows_said: int,
        dead: DeadOffsets,
        stones: DeadOffsets,
    ) -> None:
        task = self._task
        writer = TableWriter(
            self._store,
            task.topic_id,
            task.partition,
            f"{task.run}-{self._attempt}",
            task.number,
            counts_null_values=True,
        )
        path = units[0].files[0].path
        where = f"topic={task.topic} partition={task.partition} first file={path}"
        done = write_without(writer, batches, rows_said, dead, stones, where)
        self.files += done.files
        self.rows += done.rows
        self.found.dropped += done.dropped
        self.found.dropped_tombstones += done.dropped_tombstones

    def _rows_of(self, units: Sequence[Unit]) -> Iterator[pa.RecordBatch]:
        return read_rows(
            self._store,
            self._task.topic_id,
            [file for unit in units for file in unit.files],
            self._task.partition,
            units[0].min_offset,
            units[-1].max_offset + 1,
            TABLE_COLUMNS,
            rows_max=ROWS_MAX,
            bytes_max=BYTES_MAX,
        )

    def _all_rows(self, task: ScanTask) -> dict[int, list[pa.RecordBatch]] | None:
        """By unit; None: more than expected, files inflate more than others."""
        in_hand: dict[int, list[pa.RecordBatch]] = {}
        left_bytes = task.at_once_bytes
        for unit in task.units:
            mine = in_hand[unit.index] = []
            for rows in self._rows_of([unit]):
                left_bytes -= rows.nbytes
                if left_bytes < 0:
                    return None
                mine.append(rows)
        return in_hand

    def close(self) -> None:
        """Store what other tasks read, or give it to the result if it is little."""
        if self._stored or self._pieces.size_bytes > self._task.within_bytes:
            self._store_pieces()
        else:
            self.found = self.found.within(b"".join(self._pieces.parts))

    def _store_pieces(self) -> None:
        pieces = self._pieces
        if pieces.size_bytes and not self._store.create_equal(pieces.key, b"".join(pieces.parts)):
            raise AlreadyExists(f"another attempt has this name: key={pieces.key}")
        self._stored += 1
        self._pieces = PieceWriter(f"{self._key}-{self._stored}")

    def _add(self, rows: pa.Table) -> Piece:
        piece = self._pieces.add(rows)
        if self._pieces.size_bytes >= OBJECT_BYTES:
            self._store_pieces()
        return piece

    def _leave(self, by_number: dict[int, list[pa.Table]]) -> None:
        """Rows of buckets to their decisions, and out of memory."""
        import pyarrow as pa

        for bucket in sorted(by_number):
            piece = self._add(pa.concat_tables(by_number.pop(bucket)))
            self.found.buckets.setdefault(bucket, []).append(piece)

    def _reduced(self, unit: Unit, task: ScanTask) -> Iterator[pa.Table]:
        """Rows of each part of a unit that a decision needs; the others are dead."""
        import pyarrow as pa

        rows_max = min(PART_ROWS, task.rows_max)
        parts: list[pa.Table] = []
        for rows in self._keyed(unit):
            parts.append(rows)
            if sum(part.num_rows for part in parts) >= rows_max:
                yield self._newest(unit.index, pa.concat_tables(parts))
                parts = []
        if parts:
            yield self._newest(unit.index, pa.concat_tables(parts))

    def _keyed(self, unit: Unit) -> Iterator[pa.Table]:
        """Rows with a key; those without are counted, and dead."""
        import pyarrow.compute as pc

        found = self.found.unit(unit.index)
        for rows in self._keys(unit):
            found.rows += rows.num_rows
            raw = rows.filter(rows["is_raw"])
            if raw.num_rows:
                self.found.see_raw(pc.min(raw["offset"]).as_py())
                rows = rows.filter(pc.invert(rows["is_raw"]))
            if rows["key"].null_count:
                keyless = rows.filter(pc.is_null(rows["key"]))
                found.keyless += keyless.num_rows
                self._leave_out(unit.index, _rising(keyless))
                rows = rows.filter(pc.is_valid(rows["key"]))
            if rows.num_rows:
                columns = (rows[name].combine_chunks() for name in ("key", "offset", "is_null"))
                yield key_rows(unit.index, *columns)

    def _keys(self, unit: Unit) -> Iterator[pa.Table]:
        topic_id, partition = self._task.topic_id, self._task.partition
        if self._in_hand is None:
            return read_keys(self._store, topic_id, partition, unit.files)
        return (keys_of(rows, topic_id) for rows in self._in_hand[unit.index])

    def _newest(self, unit: int, rows: pa.Table) -> pa.Table:
        left, dead = reduced(rows)
        if dead.num_rows:
            self._add_dead(unit, _rising(dead))
        return left

    def _take(self, decided: Decided) -> None:
        self.found.newest_tombstone = max(self.found.newest_tombstone, decided.newest_tombstone)
        self.found.last_tombstones += decided.last_tombstones
        for unit, offset in decided.held.items():
            self.found.hold(unit, offset)
        for unit, rows in by_unit(decided.dead):
            self._add_dead(unit, rows)
        for unit, rows in by_unit(decided.tombstones):
            self.found.unit(unit).tombstones += rows.num_rows
            if self._in_hand is None:
                self.found.unit(unit).tombstone_pieces.append(self._add(rows))
            else:
                self._stones[unit].append(rows["offset"].combine_chunks())

    def _add_dead(self, unit: int, rows: pa.Table) -> None:
        self.found.unit(unit).superseded += rows.num_rows
        self._leave_out(unit, rows)

    def _leave_out(self, unit: int, rows: pa.Table) -> None:
        """Of these offsets the task that writes the unit again has to know."""
        if self._in_hand is None:
            self.found.unit(unit).dead_pieces.append(self._add(rows))
        else:
            self._dead[unit].append(rows["offset"].combine_chunks())

    def _read(self, piece: Piece) -> pa.Table:
        return decode_piece(piece, self._data(piece))

    def _offsets(self, piece: Piece) -> Callable[[], Iterator[pa.Array]]:
        return partial(offsets_of, piece, self._data(piece))

    def _data(self, piece: Piece) -> bytes:
        data = piece.data
        return self._store.get_range(piece.key, piece.start, piece.length) if data is None else data


def _rising(rows: pa.Table) -> pa.Table:
    """Offsets alone, in order; a file of another engine may have others."""
    import pyarrow.compute as pc

    offsets = rows["offset"].combine_chunks()
    if not pc.all(pc.greater(offsets[1:], offsets[:-1]), min_count=0).as_py():
        offsets = offsets.take(pc.sort_indices(offsets))
    return rows.select(["offset"]).set_column(0, "offset", offsets)
