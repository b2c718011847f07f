"""Key compaction's decisions: what is cleaned, when, and which files are rewritten. Pure.

    log start          clean end before         clean end          table end
    │◀──── clean part ────▶│◀──── dirty part ────▶│◀─ younger than ─▶│
                                                    min.compaction.lag.ms

Of each key the row with the greatest offset below the clean end stays, whatever its timestamp. Rows
that a newer one replaces are dead. A file is rewritten once enough of its rows are: files cost more
to write than dead rows cost to keep.

A *unit* is what is rewritten as a whole: one file, or files whose offsets overlap, as an OPTIMIZE
by the table's owner may leave them.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from types import MappingProxyType

from logstore.config.topic_limits import number_of
from logstore.config.topics import BUILTIN_DEFAULTS, CLEANING_NAMES, topic_value
from logstore.errors import Refused
from logstore.formats.table_row import POINTER_AGAIN_S
from logstore.history.forms.snapshot import DataFile

MiB = 1024 * 1024
NOTHING_ASKED: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanLimits:
    """Sizes of tasks. A partition whose key rows have at most `in_memory_bytes` is decided by one
    task; a larger one in buckets of about `bucket_bytes`, by scans of `scan_rows` each. One whose
    rows have at most `at_once_bytes` in memory is read and written by one task.

    `core_bytes` of tables per core are cleaned in one run, for moves must not wait for long. A task
    leaves up to `within_bytes` to others in its result, without an object: half of the requests
    where partitions are small, and the run holds it for each of them.
    """

    in_memory_bytes: int = 128 * MiB
    bucket_bytes: int = 128 * MiB
    scan_rows: int = 4_000_000
    core_bytes: int = 4096 * MiB
    within_bytes: int = 4096
    at_once_bytes: int = 32 * MiB

    def may_be_at_once(self, size_bytes: int) -> bool:
        """Whether to try it with files of so many bytes: rows take some four times that."""
        return 0 < 4 * size_bytes <= self.at_once_bytes

    @staticmethod
    def within(task_bytes: int) -> "CleanLimits":
        """For tasks that need about as much memory as a move of `task_bytes` does."""
        return CleanLimits(
            in_memory_bytes=task_bytes // 2,
            bucket_bytes=task_bytes // 2,
            scan_rows=max(1, task_bytes // 64),
            at_once_bytes=min(32 * MiB, task_bytes // 4),
        )


@dataclass(frozen=True, slots=True)
class CleanRules:
    """Settings of one topic."""

    is_compacted: bool = False
    dirty_ratio_min: float = 0.5
    lag_min_ms: int = 0
    lag_max_ms: int = 2**63 - 1
    tombstones_kept_ms: int = 86_400_000
    dead_ratio_min: float = 0.2

    @staticmethod
    def of(configs: Mapping[str, str], defaults: Mapping[str, str]) -> "CleanRules":
        """`defaults`: what brokers published, where they differ from the product's."""
        defaults = {**{name: BUILTIN_DEFAULTS[name] for name in CLEANING_NAMES}, **defaults}
        policy = topic_value("cleanup.policy", configs, defaults)
        assert isinstance(policy, tuple)
        return CleanRules(
            "compact" in policy,
            float(str(topic_value("min.cleanable.dirty.ratio", configs, defaults))),
            number_of("min.compaction.lag.ms", configs, defaults),
            number_of("max.compaction.lag.ms", configs, defaults),
            number_of("delete.retention.ms", configs, defaults),
            float(str(topic_value("logstore.clean.dead.ratio", configs, defaults))),
        )


@dataclass(frozen=True, slots=True)
class Unit:
    """Files of one partition that are rewritten together. Units do not overlap."""

    index: int
    files: tuple[DataFile, ...]
    min_offset: int
    max_offset: int

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    def young(self, since_ms: int, written_ms: Mapping[str, int]) -> list[DataFile]:
        """Returns its files in which a row may be younger than `since_ms`.

        A file without timestamps is as old as its object, in `written_ms` by path; one that is not
        in there counts as young.
        """
        return [file for file in self.files if _newest_ms(file, written_ms) > since_ms]


@dataclass(frozen=True, slots=True)
class CleanRange:
    """Part of a partition that may be cleaned: units in order, all of them below `clean_end`."""

    partition: int
    units: Sequence[Unit]
    clean_before: int
    """The clean end that the table has."""
    clean_end: int

    @property
    def rows(self) -> int:
        return sum(unit.rows for unit in self.units)

    @property
    def size_bytes(self) -> int:
        return sum(unit.size_bytes for unit in self.units)

    @property
    def dirty(self) -> Sequence[Unit]:
        return [unit for unit in self.units if unit.max_offset >= self.clean_before]

    @property
    def dirty_ratio(self) -> float:
        """Share of the bytes that no run has looked at, from 0 to 1."""
        total = self.size_bytes
        return sum(unit.size_bytes for unit in self.dirty) / total if total else 0.0


@dataclass(frozen=True, slots=True)
class UnitCounts:
    """Rows of a unit, and those of them that may go."""

    rows: int
    superseded: int
    """By a row of the same key with a greater offset."""
    keyless: int
    """Written before the topic was compacted: no key names them."""
    tombstones: int
    """Those that may go."""

    @property
    def dead(self) -> int:
        return self.superseded + self.keyless + self.tombstones


def units_of(files: Iterable[DataFile]) -> list[Unit]:
    """Of one partition's files by smallest offset, in order.

    Raises `Refused` where a file may hold any offset: what overlaps it cannot be said.
    """
    groups: list[list[DataFile]] = []
    reached = -1
    for file in files:
        if not file.has_bounds or file.rows < 0:
            raise Refused(
                f"key compaction needs the statistics of every file: path={file.path}; let the "
                "program that wrote it write numRecords and bounds of offset, or OPTIMIZE the table"
            )
        if groups and file.min_offset <= reached:
            groups[-1].append(file)
        else:
            groups.append([file])
        reached = max(reached, file.max_offset)
    return [
        Unit(
            index,
            tuple(group),
            min(file.min_offset for file in group),
            max(file.max_offset for file in group),
        )
        for index, group in enumerate(groups)
    ]


def clean_range(
    partition: int,
    files: Iterable[DataFile],
    table_end: int,
    clean_before: int,
    rules: CleanRules,
    now_ms: int,
    written_ms: Mapping[str, int] = NOTHING_ASKED,
) -> CleanRange:
    """Returns the range from log start to the first unit that holds a row younger than the lag.

    Everything below the table end is committed. `written_ms`: by path, when the store took files
    that `undated` named. Raises as `units_of`.
    """
    units = units_of(files)
    young = _first_young(units, clean_before, rules, now_ms, written_ms)
    if young is None:
        return CleanRange(partition, units, clean_before, table_end)
    return CleanRange(partition, units[: young.index], clean_before, young.min_offset)


def undated(
    files: Iterable[DataFile],
    clean_before: int,
    rules: CleanRules,
    now_ms: int,
    written_ms: Mapping[str, int],
) -> str | None:
    """Returns the path of the file whose age decides next where the range ends; None: none.

    Its object's age is to be added to `written_ms`. One request for each file that has become old
    since the last run, and one for the first that has not. Raises as `units_of`.
    """
    unit = _first_young(units_of(files), clean_before, rules, now_ms, written_ms)
    young = () if unit is None else unit.young(now_ms - rules.lag_min_ms, written_ms)
    paths = [file.path for file in young if _is_undated(file) and file.path not in written_ms]
    return paths[0] if len(paths) == len(young) and paths else None


def _first_young(
    units: Sequence[Unit],
    clean_before: int,
    rules: CleanRules,
    now_ms: int,
    written_ms: Mapping[str, int],
) -> Unit | None:
    """Returns the first unit with a row that may be younger than the lag.

    Clean files without timestamps are old, although key compaction wrote their objects just now.
    """
    if not rules.lag_min_ms:
        return None
    for unit in units:
        young = unit.young(now_ms - rules.lag_min_ms, written_ms)
        if unit.max_offset < clean_before:
            young = [file for file in young if not _is_undated(file)]
        if young:
            return unit
    return None


def _is_undated(file: DataFile) -> bool:
    return file.max_timestamp_ms is None or file.max_timestamp_ms < 0


def _newest_ms(file: DataFile, written_ms: Mapping[str, int]) -> float:
    if file.max_timestamp_ms is None or file.max_timestamp_ms < 0:
        return written_ms.get(file.path, inf)
    return file.max_timestamp_ms


def is_due(wanted: CleanRange, rules: CleanRules, now_ms: int) -> bool:
    """Whether enough of it is dirty, or a dirty row is too old.

    A clean end never goes back: after the lag was raised, nothing is due until it has passed.
    """
    if wanted.clean_end <= wanted.clean_before or not wanted.dirty:
        return False
    return wanted.dirty_ratio >= rules.dirty_ratio_min or overdue_ms(wanted, rules, now_ms) > 0


def overdue_ms(wanted: CleanRange, rules: CleanRules, now_ms: int) -> int:
    """For how long its oldest dirty row has been older than `max.compaction.lag.ms`; 0: it is not.

    Kafka's `LogCleanerManager.maxCompactionDelay`, for which rows without a timestamp have no age.
    """
    times = (file.min_timestamp_ms for unit in wanted.dirty for file in unit.files)
    dated = (time_ms for time_ms in times if time_ms is not None and time_ms >= 0)
    oldest = min(dated, default=now_ms)
    return max(0, now_ms - rules.lag_max_ms - oldest)


def settled_since_ms(now_ms: int, rules: CleanRules, behind_ms: int) -> int | None:
    """Tombstones may go that were settled by this time; None: none may.

    `delete.retention.ms` begins when the last broker has stopped serving the older records, which
    is some time after the commit that took them out: as long as a table pointer is believed, and
    not before the pointer was written, which may have been behind until `behind_ms` (`TableRow`).
    0 promises nothing to a consumer, and waits for nothing.
    """
    if not rules.tombstones_kept_ms:
        return now_ms
    time_ms = now_ms - rules.tombstones_kept_ms - int(1000 * POINTER_AGAIN_S)
    return time_ms if time_ms >= behind_ms else None


def tombstone_horizon(settled_then: int, edited_end: int, raw_offset: int | None) -> int:
    """Tombstones below it may go. See docs/decisions/0022-key-compaction.md.

    `settled_then`: the settled end that the table had by `settled_since_ms`: a consumer that has
    read an older row of their keys began before. `edited_end`: below
    it brokers read no segment, where older rows of the key may still be. `raw_offset`: the first
    batch that cannot be decoded here; consumers may find an older row of the key in it.
    """
    horizon = min(settled_then, edited_end)
    return horizon if raw_offset is None else min(horizon, raw_offset)


def chosen_units(
    counts: Mapping[int, UnitCounts],
    held: Mapping[int, int],
    last_tombstones: int,
    rows: int,
    dead_ratio_min: float,
) -> list[int]:
    """Indexes of the units of a partition of so many rows that are rewritten, in order.

    `held`, `last_tombstones` as in `clean_keys.Decided`.
    """
    waiting = last_tombstones - sum(unit.tombstones for unit in counts.values())
    settling = units_to_settle(held, waiting, rows, dead_ratio_min)
    return sorted({*units_to_rewrite(counts, dead_ratio_min), *settling})


def units_to_rewrite(counts: Mapping[int, UnitCounts], dead_ratio_min: float) -> list[int]:
    """Indexes of the units of which enough rows are dead, in order."""
    return [
        index
        for index, unit in sorted(counts.items())
        if unit.dead and unit.dead >= dead_ratio_min * unit.rows
    ]


def units_to_settle(
    held: Mapping[int, int], waiting: int, rows: int, dead_ratio_min: float
) -> list[int]:
    """Indexes of the units to rewrite so that tombstones may go some day.

    `held` as in `clean_keys.Decided`; of the rows of the partition so many tombstones are `waiting`
    until they may. They are allowed to be as many as dead rows are.
    """
    return sorted(held) if waiting and waiting >= dead_ratio_min * rows else []


def settled_end(held: Mapping[int, int], rewritten: Collection[int], clean_end: int) -> int:
    """After these units were rewritten: below it no tombstone has an older row of its key left."""
    left = [offset for unit, offset in held.items() if unit not in rewritten]
    return min(left, default=clean_end)


def neighbours_of(units: Sequence[Unit], wanted: Sequence[int], bytes_max: int) -> list[list[Unit]]:
    """The wanted units in groups that may become one file: without another unit in between.

    A group has `bytes_max` at most, unless it is one unit.
    """
    groups: list[list[Unit]] = []
    size_bytes = 0
    for index in wanted:
        unit = units[index]
        follows = bool(groups) and groups[-1][-1].index + 1 == index
        if follows and size_bytes + unit.size_bytes <= bytes_max:
            groups[-1].append(unit)
            size_bytes += unit.size_bytes
        else:
            groups.append([unit])
            size_bytes = unit.size_bytes
    return groups


def most_dirty(ranges: Sequence[CleanRange], bytes_max: int) -> list[CleanRange]:
    """The dirtiest of them, as many as have `bytes_max` together, and one at least."""
    taken: list[CleanRange] = []
    left = bytes_max
    for one in sorted(ranges, key=lambda one: (-one.dirty_ratio, one.partition)):
        left -= one.size_bytes
        if taken and left < 0:
            break
        taken.append(one)
    return taken
