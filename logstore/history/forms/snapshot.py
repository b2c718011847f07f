"""A table at one version: how far it goes, and which of its files may hold which offsets. Pure.

A file is known by its smallest and largest offset. Files that compaction wrote do not overlap; what
an OPTIMIZE or a Z-order by the table's owner left may, and holds other rows between its bounds than
its neighbours. So a look-up gives every file that *may* hold an offset, and readers merge.

Files are kept in columns, since a table may have 100,000 of them: a `DataFile` is made on access.
"""

from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, overload

from logstore.errors import Invalid, Retryable
from logstore.history.forms.features import TableRules
from logstore.history.forms.names import table_key

OFFSET_MAX = 2**63 - 1


class TableConflict(Retryable):
    """The table is not at the version that was thought: begin again from a new snapshot."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """One Parquet file; `path` is relative to the table.

    A file without statistics (of another writer) has `rows` -1 and may hold any offset: bounds 0
    and `OFFSET_MAX`, both inclusive like all bounds here.
    """

    path: str
    partition: int
    rows: int
    size_bytes: int
    min_offset: int
    max_offset: int
    min_timestamp_ms: int | None = None
    """None: not known, or no row has a timestamp."""
    max_timestamp_ms: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.min_offset <= self.max_offset or self.size_bytes < 1:
            raise Invalid(f"not a data file: {self}")

    @property
    def has_bounds(self) -> bool:
        return self.max_offset < OFFSET_MAX

    def values(self) -> tuple[str | int | None, ...]:
        """Its fields in order. `astuple` copies each: a tenth of the work on a small file."""
        return (
            *(self.path, self.partition, self.rows, self.size_bytes),
            *(self.min_offset, self.max_offset, self.min_timestamp_ms, self.max_timestamp_ms),
        )


class FileList(Sequence[DataFile]):
    """The files of one partition, by smallest offset, in columns."""

    __slots__ = ("_columns", "_highest", "_max", "_min", "_partition")

    def __init__(self, partition: int, files: Sequence[DataFile]) -> None:
        ordered = sorted(files, key=_position)
        self._set(
            partition,
            [file.min_offset for file in ordered],
            [file.max_offset for file in ordered],
            [
                [file.path for file in ordered],
                [file.rows for file in ordered],
                [file.size_bytes for file in ordered],
                [file.min_timestamp_ms for file in ordered],
                [file.max_timestamp_ms for file in ordered],
            ],
        )

    @classmethod
    def of_columns(
        cls,
        partition: int,
        min_offsets: Sequence[int],
        max_offsets: Sequence[int],
        others: list[list[Any]],
    ) -> "FileList":
        """Of files in order. `others`: paths, rows, sizes, earliest and latest timestamps."""
        self = cls.__new__(cls)
        self._set(partition, min_offsets, max_offsets, others)
        return self

    def _set(
        self,
        partition: int,
        min_offsets: Sequence[int],
        max_offsets: Sequence[int],
        others: list[list[Any]],
    ) -> None:
        self._partition = partition
        self._min = array("q", min_offsets)
        self._max = array("q", max_offsets)
        self._columns = others
        self._highest = array("q", accumulate(self._max, max))  # up to here, for bisecting

    def __len__(self) -> int:
        return len(self._min)

    @overload
    def __getitem__(self, index: int) -> DataFile: ...

    @overload
    def __getitem__(self, index: slice) -> list[DataFile]: ...

    def __getitem__(self, index: int | slice) -> DataFile | list[DataFile]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        path, rows, size_bytes, earliest, latest = (column[index] for column in self._columns)
        bounds = self._min[index], self._max[index]
        return DataFile(path, self._partition, rows, size_bytes, *bounds, earliest, latest)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FileList):
            return NotImplemented
        mine = self._partition, self._min, self._max, self._columns
        return mine == (other._partition, other._min, other._max, other._columns)

    __hash__ = None  # type: ignore[assignment]

    def between(self, start: int, end: int) -> list[DataFile]:
        """Every file that may hold an offset in [start, end)."""
        if start >= end:
            return []
        first = bisect_left(self._highest, start)  # those before all end below start
        past = bisect_left(self._min, end)
        return [self[i] for i in range(first, past) if self._max[i] >= start]

    def before(self, offset: int) -> DataFile | None:
        """The file that ends last of those that end below `offset`; None if one may hold it."""
        first = bisect_left(self._highest, offset)
        if not first or (first < len(self) and self._min[first] <= offset):
            return None
        return self[bisect_left(self._highest, self._highest[first - 1])]

    def changed(self, adds: Sequence[DataFile], removed_paths: Collection[str]) -> "FileList":
        """Without some files, and with others. Adding at the end, which is usual, is cheap."""
        if removed_paths:
            kept = [i for i, path in enumerate(self._columns[0]) if path not in removed_paths]
            return FileList(self._partition, [*map(self.__getitem__, kept), *adds])
        ordered = sorted(adds, key=_position)
        if self._min and ordered and ordered[0].min_offset <= self._min[-1]:
            return FileList(self._partition, [*self, *adds])
        more = FileList(self._partition, ordered)
        columns = [a + b for a, b in zip(self._columns, more._columns, strict=True)]
        return FileList.of_columns(
            self._partition, self._min + more._min, self._max + more._max, columns
        )


def _position(file: DataFile) -> tuple[int, int, str]:
    return file.min_offset, file.max_offset, file.path


_NO_FILES: Sequence[DataFile] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`ends` are table ends: per partition, the first offset that was not moved here."""

    topic_id: bytes
    version: int
    ends: Mapping[int, int] = field(default_factory=dict)
    files: Mapping[int, Sequence[DataFile]] = field(default_factory=dict)
    """Per partition, by smallest offset. A partition without files may have an end all the same."""
    rules: TableRules = field(default_factory=TableRules)
    cleaned: Mapping[int, int] = field(default_factory=dict)
    """Clean ends: per partition, the offset up to which key compaction has looked at its rows."""
    settled: Mapping[int, int] = field(default_factory=dict)
    """Settled ends: of no tombstone below, the last row of its key, is an older row left."""

    def end(self, partition: int) -> int | None:
        """None: nothing of the partition was ever moved here."""
        return self.ends.get(partition)

    def first(self, partition: int) -> int | None:
        """The smallest offset that a file of the partition may hold, None without files."""
        files = self.files.get(partition, _NO_FILES)
        return files[0].min_offset if files else None

    def key_of(self, path: str) -> str:
        """The key of the object that is the file with this path."""
        return f"{table_key(self.topic_id)}/{path}"

    def all_files(self) -> Iterator[DataFile]:
        for files in self.files.values():
            yield from files

    def files_for(
        self, partition: int, start: int, end: int, *, whole_batches: bool = False
    ) -> list[DataFile]:
        """Every file that may hold an offset in [start, end), by smallest offset.

        With `whole_batches`, as `read_rows` takes it, also the file before a gap at `start`: its
        last row may be a batch that could not be decoded and goes on beyond its row's offset.
        """
        files = self.files.get(partition, _NO_FILES)
        if not isinstance(files, FileList):
            files = FileList(partition, files)
        between = files.between(start, end)
        before = files.before(start) if whole_batches else None
        return between if before is None else [before, *between]


@dataclass(frozen=True, slots=True)
class TableCommit:
    """Changes of one commit to one table, and the start and end of each partition it moves.

    `starts` are the table ends that the run read from the very snapshot it commits on; for a
    partition that has none yet, where its rows begin. A commit that only merges files, or drops old
    ones, moves nothing: both are empty. `cleaned` are the clean ends that key compaction reaches,
    `settled` the settled ends that come with them.
    """

    starts: Mapping[int, int]
    ends: Mapping[int, int]
    adds: Sequence[DataFile] = ()
    removes: Sequence[DataFile] = ()
    run: str = ""
    cleaned: Mapping[int, int] = field(default_factory=dict)
    settled: Mapping[int, int] = field(default_factory=dict)


def check_commit(snapshot: Snapshot, commit: TableCommit) -> None:
    """Raises `TableConflict` where starts are not the snapshot's ends, `Invalid` for nonsense."""
    if commit.starts.keys() != commit.ends.keys():
        raise Invalid(f"starts and ends name different partitions: run={commit.run}")
    for partition, start in commit.starts.items():
        now = snapshot.end(partition)
        if now is not None and now != start:
            raise TableConflict(
                f"the table ends elsewhere: partition={partition} end={now} start={start} "
                f"run={commit.run}"
            )
        if not 0 <= start <= commit.ends[partition]:
            raise Invalid(
                f"not a range of offsets: partition={partition} start={start} "
                f"end={commit.ends[partition]} run={commit.run}"
            )
    for partition, clean_end in commit.cleaned.items():
        if clean_end > (snapshot.end(partition) or 0):
            raise Invalid(
                f"a clean end above the table end: partition={partition} clean end={clean_end} "
                f"run={commit.run}"
            )
    for partition, settled in commit.settled.items():
        if settled > commit.cleaned.get(partition, -1):
            raise Invalid(
                f"a settled end above the clean end, or without one: partition={partition} "
                f"settled end={settled} run={commit.run}"
            )
    _check_removes(snapshot, commit)
    _check_adds(snapshot, commit)


def _check_removes(snapshot: Snapshot, commit: TableCommit) -> None:
    for file in commit.removes:
        there = snapshot.files_for(file.partition, file.min_offset, file.min_offset + 1)
        if all(other.path != file.path for other in there):
            raise TableConflict(f"the table has no such file: path={file.path} run={commit.run}")


def _check_adds(snapshot: Snapshot, commit: TableCommit) -> None:
    """New rows lie in [start, end); rows of merged files lie where the removed ones were."""
    gone = {file.path for file in commit.removes}
    spans: dict[int, tuple[int, int]] = {}
    for file in commit.removes:
        low, high = spans.get(file.partition, (file.min_offset, file.max_offset))
        spans[file.partition] = (min(low, file.min_offset), max(high, file.max_offset))
    for file in commit.adds:
        partition = file.partition
        low, high = spans.get(partition, (OFFSET_MAX, -1))
        low = min(low, commit.starts.get(partition, OFFSET_MAX))
        high = max(high, commit.ends.get(partition, 0) - 1)
        if not low <= file.min_offset <= file.max_offset <= high or not file.has_bounds:
            raise Invalid(f"a file holds offsets that the commit does not move: path={file.path}")
        if any(
            other.path not in gone and other.has_bounds
            for other in snapshot.files_for(partition, file.min_offset, file.max_offset + 1)
        ):
            raise Invalid(f"a file overlaps one that the table has: path={file.path}")


def advanced(snapshot: Snapshot, commit: TableCommit) -> Snapshot:
    """The snapshot after `commit` became the next version."""
    gone = {file.path for file in commit.removes}
    after = changed(snapshot, snapshot.version + 1, commit.ends, commit.adds, gone)
    cleaned = {**snapshot.cleaned, **commit.cleaned}
    return replace(after, cleaned=cleaned, settled={**snapshot.settled, **commit.settled})


def changed(
    snapshot: Snapshot,
    version: int,
    ends: Mapping[int, int],
    adds: Sequence[DataFile],
    removed_paths: Collection[str],
) -> Snapshot:
    """The snapshot with some ends and files changed; lists of other partitions are shared."""
    more: dict[int, list[DataFile]] = {}
    for file in adds:
        more.setdefault(file.partition, []).append(file)
    # A path says nothing certain of its partition, so a removed file is looked for everywhere.
    partitions = snapshot.files.keys() | more.keys() if removed_paths else more.keys()
    files = dict(snapshot.files)
    for partition in partitions:
        before = files.get(partition, _NO_FILES)
        if not isinstance(before, FileList):
            before = FileList(partition, before)
        after = before.changed(more.get(partition, _NO_FILES), removed_paths)
        if after:
            files[partition] = after
        else:
            files.pop(partition, None)
    return replace(snapshot, version=version, ends={**snapshot.ends, **ends}, files=files)


@dataclass(frozen=True, slots=True)
class CommitFacts:
    """One version of a table, as its `commitInfo` tells it.

    `starts` and `ends` are None for a commit that is not compaction's: the owner's OPTIMIZE, VACUUM
    and so on. These move nothing.
    """

    version: int
    timestamp_ms: int
    starts: Mapping[int, int] | None
    ends: Mapping[int, int] | None
    operation: str
    run: str | None = None
    rewritten: frozenset[int] = frozenset()
    """Partitions of files that it took out with their rows: the owner's DELETE, UPDATE, MERGE."""
