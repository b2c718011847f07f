"""Tables of topics held against their files and their own logs: a part of `logstore fsck`.

A table is read before chains are, and its table pointer before it: both only go up, so what was
read later may be ahead and must not be behind. The list of files comes first of all; a file that a
concurrent run creates is found by the second check.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from logstore.cli.fsck.chain import FsckCounts
from logstore.cli.fsck.cleaned import (
    clean_end_problems,
    is_small,
    row_problems,
    settled_end_problems,
)
from logstore.cli.inspect.registry_view import query_all
from logstore.errors import Corrupt, LogstoreError, NotFound, Refused
from logstore.formats.chain_state import EpochKey
from logstore.formats.partition_row import PartitionRow
from logstore.formats.table_row import TABLE, TableRow
from logstore.formats.topic_partition import TopicPartition
from logstore.history.forms import names
from logstore.history.forms.entries import CHECKPOINT_INTERVAL, LogEntry
from logstore.history.forms.snapshot import CommitFacts, DataFile, Snapshot
from logstore.history.table_log import TableLog
from logstore.protocol.rules.checks import Problem, ProblemKind, SeenChain
from logstore.protocol.rules.disposal import confirmed_start
from logstore.runners.retrying import RetryingStore
from logstore.wiring.open import ReadableLog

INTERVALS_MAX = 2
"""So many times the interval of checkpoints may pass before their absence is worth a warning."""

COMMITS_CHECKED = 100
"""The newest ones, unless every byte is looked at."""


@dataclass(slots=True)
class SeenTables:
    """Tables as they were found, by topic id. `unreadable`: there is one, and it says nothing."""

    snapshots: dict[bytes, Snapshot] = field(default_factory=dict)
    unreadable: set[bytes] = field(default_factory=set)
    problems: list[Problem] = field(default_factory=list)

    def ends(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Of partitions, up to where a table holds them. One that cannot be read is trusted."""
        ends = {}
        for topic_id, number in partitions:
            snapshot = self.snapshots.get(topic_id)
            end = None if snapshot is None else snapshot.end(number)
            if topic_id in self.unreadable:
                ends[TopicPartition(topic_id, number)] = _FAR
            elif end is not None:
                ends[TopicPartition(topic_id, number)] = end
        return ends


_FAR = 2**63 - 1


def check_tables(log: ReadableLog, counts: FsckCounts, *, bodies: bool) -> SeenTables:
    """Every table there is, also of topics that are gone. `bodies`: read every file."""
    check = _TableCheck(log, counts, bodies)
    for topic_id in check.topic_ids():
        check.visit(topic_id)
    return check.seen


class _TableCheck:
    def __init__(self, log: ReadableLog, counts: FsckCounts, bodies: bool) -> None:
        self._log, self._counts, self._bodies = log, counts, bodies
        self._store = RetryingStore(log.runner.store)
        self.seen = SeenTables()
        self._sizes = {info.key: info.size_bytes for info in self._store.list(f"{names.TABLES}/")}
        self._rows = self._read_rows()

    def topic_ids(self) -> Sequence[bytes]:
        """Of whatever lies there, and of table pointers that say that something does."""
        topic_ids = {topic_id for topic_id, row in self._rows.items() if row.ends}
        for folder in {key.split("/")[1] for key in self._sizes}:
            try:
                topic_ids.add(bytes.fromhex(folder))
            except ValueError:
                self._problem(
                    ProblemKind.STRANGE_KEY, f"{names.TABLES}/{folder}/", "no topic's table"
                )
        return sorted(topic_ids)

    def visit(self, topic_id: bytes) -> None:
        where = names.table_key(topic_id)
        table = TableLog(self._store, topic_id)
        try:
            snapshot = table.snapshot(None)
            entries = [] if snapshot is None else self._entries(table, snapshot)
        except (Corrupt, Refused, NotFound) as error:
            self.seen.unreadable.add(topic_id)
            self._problem(ProblemKind.TABLE, where, str(error))
            return
        row = self._rows.get(topic_id)
        if snapshot is None:
            if row is not None and row.ends:
                self._problem(ProblemKind.TABLE, where, "there is a table pointer and no table")
            return
        for name, damage in table.damaged.items():
            self._problem(ProblemKind.TABLE_CHECKPOINT, name.keys(topic_id)[0], str(damage))
        self._counts.tables += 1
        self._count_entries(where, table, snapshot)
        self.seen.snapshots[topic_id] = snapshot
        if row is not None:
            self.seen.problems += table_pointer_problems(row, snapshot)
        self.seen.problems += commit_problems(where, [entry.facts for entry in entries])
        self.seen.problems += clean_end_problems(snapshot, entries)
        self.seen.problems += settled_end_problems(snapshot, entries)
        for files in snapshot.files.values():
            self._counts.table_files += len(files)
            self.seen.problems += file_problems(where, snapshot, files, self._sizes)
            if self._bodies:
                self._read(where, files)
        for entry in entries if self._bodies else ():
            for partition in entry.cleaned:
                self._check_cleaned(where, table, entry, partition)

    def _check_cleaned(self, where: str, table: TableLog, entry: LogEntry, partition: int) -> None:
        """Rows that a commit of key compaction took out of one partition, and its settled end."""
        if not entry.removed_paths and partition not in entry.settled:
            return
        try:
            before = table.snapshot(entry.facts.version - 1)
            is_checked = before is not None and is_small(before, partition)
            if before is not None and is_checked:
                self.seen.problems += row_problems(self._store, before, entry, partition)
        except NotFound:  # swept since; a file that the table still names is looked at above
            is_checked = False
        except Corrupt as error:
            is_checked = False
            self._problem(ProblemKind.TABLE_CLEANED, where, str(error))
        self._counts.cleanings += is_checked
        self._counts.old_cleanings += not is_checked

    def _count_entries(self, where: str, table: TableLog, snapshot: Snapshot) -> None:
        """A warning, no problem: nothing is wrong with the table but its length."""
        configured = snapshot.rules.configuration.get("delta.checkpointInterval", "")
        every = int(configured) if configured.isdigit() else CHECKPOINT_INTERVAL
        entries = snapshot.version - table.checkpoint_version()
        if every and entries > INTERVALS_MAX * every:
            self._counts.unsummed_entries[where] = entries

    def _entries(self, table: TableLog, snapshot: Snapshot) -> list[LogEntry]:
        first = max(0, snapshot.version - COMMITS_CHECKED)
        return list(table.entries(first, snapshot.version))

    def _read(self, where: str, files: Sequence[DataFile]) -> None:
        """Every row of them: as many as were promised, each offset once."""
        from logstore.cli.fsck.table_files import read_offsets

        seen_up_to, held = -1, set[int]()
        for file in files:
            key = f"{where}/{file.path}"
            try:
                offsets = read_offsets(self._store.get(key))
            except NotFound:
                continue  # named already
            except LogstoreError as error:
                self._problem(ProblemKind.TABLE_FILE, key, str(error))
                continue
            actual = (len(offsets), min(offsets, default=0), max(offsets, default=0))
            if file.has_bounds and actual != (file.rows, file.min_offset, file.max_offset):
                detail = f"rows, first and last offset are {actual}, the table says otherwise"
                self._problem(ProblemKind.TABLE_FILE, key, detail)
            if file.min_offset > seen_up_to:
                held.clear()
            if len(set(offsets)) != len(offsets) or not held.isdisjoint(offsets):
                self._problem(
                    ProblemKind.TABLE_FILE, key, "holds offsets that are in the table twice"
                )
            held.update(offsets)
            seen_up_to = max(seen_up_to, file.max_offset)

    def _read_rows(self) -> Mapping[bytes, TableRow]:
        rows = {}
        for sk, row in query_all(self._log, TABLE):
            try:
                rows[bytes.fromhex(sk)] = TableRow.of(row)
            except (LogstoreError, ValueError) as error:
                self._problem(ProblemKind.BAD_ROW, f"row {TABLE}/{sk}", str(error))
        return rows

    def _problem(self, what: ProblemKind, where: str, detail: str) -> None:
        self.seen.problems.append(Problem(what, where, detail, ()))


def table_pointer_problems(row: TableRow, snapshot: Snapshot) -> Iterator[Problem]:
    """The row was read before the table, so it cannot know more."""
    ahead = [n for n, end in row.ends.items() if end > (snapshot.end(n) or 0)]
    if ahead or row.version > snapshot.version:
        detail = f"row says version={row.version}, the table has {snapshot.version}"
        if ahead:
            detail = f"{detail}; partitions that end lower in the table: {ahead[:10]}"
        where = f"row {TABLE}/{snapshot.topic_id.hex()}"
        yield Problem(ProblemKind.TABLE_BEHIND, where, detail, ())


def commit_problems(where: str, commits: Sequence[CommitFacts]) -> Iterator[Problem]:
    """Every commit starts where the one before it ended; else one was overwritten."""
    ends: dict[int, int] = {}
    for commit in commits:
        for number, start in (commit.starts or {}).items():
            if ends.get(number, start) != start:
                detail = (
                    f"version={commit.version} run={commit.run} begins partition {number} at "
                    f"{start}, the version before ended it at {ends[number]}"
                )
                yield Problem(ProblemKind.TABLE_COMMITS, where, detail, ())
        ends.update(commit.ends or {})


def file_problems(
    where: str, snapshot: Snapshot, files: Sequence[DataFile], sizes: Mapping[str, int]
) -> Iterator[Problem]:
    """Files of one partition by what the table says: there, whole, and no offset twice."""
    for file in files:
        key = f"{where}/{file.path}"
        end = snapshot.end(file.partition)
        if key not in sizes:
            yield Problem(ProblemKind.TABLE_FILE, key, "the table names it and it is not there", ())
        elif sizes[key] != file.size_bytes:
            detail = f"bytes={sizes[key]}, the table says {file.size_bytes}"
            yield Problem(ProblemKind.TABLE_FILE, key, detail, ())
        elif file.has_bounds and (end is None or file.max_offset >= end):
            detail = f"holds offsets up to {file.max_offset}, the table ends at {end}"
            yield Problem(ProblemKind.TABLE_FILE, key, detail, ())
    for some in _overlapping([file for file in files if file.has_bounds]):
        span = max(file.max_offset for file in some) - some[0].min_offset + 1
        rows = sum(file.rows for file in some)
        if rows > span:
            detail = f"{rows} rows for {span} offsets in {len(some)} files: some are there twice"
            yield Problem(ProblemKind.TABLE_FILE, f"{where}/{some[0].path}", detail, ())


def _overlapping(files: Sequence[DataFile]) -> Iterator[Sequence[DataFile]]:
    """Groups of files, by smallest offset, that share offsets with no other group."""
    some: list[DataFile] = []
    end = -1
    for file in files:
        if some and file.min_offset > end:
            yield some
            some = []
        some.append(file)
        end = max(end, file.max_offset)
    if some:
        yield some


def end_problems(
    tables: SeenTables,
    rows: Mapping[TopicPartition, PartitionRow],
    chains: Mapping[int, SeenChain],
) -> Iterator[Problem]:
    """No table holds what the log has not committed; none begins above what was dropped of it."""
    ends = tables.ends(rows.keys())
    for (topic_id, number), row in rows.items():
        where = f"row partition/{topic_id.hex()}/{number}"
        end = ends.get(TopicPartition(topic_id, number), 0)
        chain = chains.get(row.chain)
        if chain is not None and chain.is_whole and topic_id in tables.snapshots:
            epoch_range = chain.epoch_ranges.get(EpochKey(topic_id, number, row.leader_epoch))
            committed = row.epoch_ranges[-1].start if epoch_range is None else epoch_range.end
            if end > committed:
                detail = f"the table holds offsets below {end}, the log only below {committed}"
                yield Problem(ProblemKind.OLD_REGISTRY, where, detail, (row.chain,))
        table = tables.snapshots.get(topic_id)
        first_offset = None if table is None else table.first(number)
        yield from _log_start_problems(row, first_offset, where)
        first = row.epoch_ranges[0]
        if first.start > max(row.log_start, end):
            detail = f"offsets [{max(row.log_start, end)}, {first.start}) are in no epoch range"
            yield Problem(ProblemKind.LOST, where, f"{detail} and in no table", (first.chain,))


def _log_start_problems(row: PartitionRow, first: int | None, where: str) -> Iterator[Problem]:
    """A log start without a reason may hide records that are still stored below it."""
    confirmed = confirmed_start(row)
    if confirmed < row.log_start:
        detail = f"log start is {row.log_start}, and the row gives a reason only for {confirmed}"
        if first is not None and first < row.log_start:
            detail = f"{detail}; the table begins at {first}"
        yield Problem(ProblemKind.LOG_START, where, detail, (row.chain,))
