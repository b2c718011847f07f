"""Whether a topic's rows, table and files may be deleted, and where a log starts. Pure.

It decides on everything but segments: those are of `protocol.rules.trim`.

Rows, topic records, tables and chains are four witnesses, and each of them can be lost or be an
older copy. Nothing is deleted because one of them says so or says nothing:

    what                       may be deleted when
    segments, of one topic     the topic is deleted (below); or all their offsets are below log
                               start or in its table (`rules.trim`, `epoch.durable_table_ends`)
    files of a table           all their offsets are below log start
    files that a sweep finds   no version of the period that the table promises names them, by the
                               times in its log and by those of the store; and they are that old
    entries of a table's log   older than the table's owner and we need, below an old checkpoint
    log start, for all these   its row says why it was raised, and to where
    everything of a topic      the registry has no live row of its id, and a topic record says that
                               it was deleted; without that record the registry is an old copy
    the table of a topic       the same, an hour ago; and neither the table pointer nor the record
                               says that it is kept
    rows of a topic that       chains hold nothing of the topic, or its deletion is recorded
    lacks some

A lost registry gets its log starts from chains and tables: no log start is raised above offsets
that one of them still holds.
"""

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from logstore.formats.partition_row import PartitionRow, StartReason
from logstore.formats.table_row import TableRow
from logstore.formats.topic_row import TopicRow, TopicStatus

ON_DELETE, DROP = "logstore.table.on.delete", "drop"
DROP_GRACE_MS = 3_600_000
"""Between finding that a topic is gone and dropping its table: for those who still read it."""


class Fate(Enum):
    """State of a topic id of which chains or tables hold data."""

    LIVE = "the registry has the topic"
    UNRECORDED = "the topic is being deleted, and no record of the deletion is stored yet"
    DELETED = "no live row, and a record says that the topic was deleted"
    UNKNOWN = "no row of the topic, and no record says that it was deleted"


def fate_of(row: TopicRow | None, *, deletion_recorded: bool, has_partitions: bool = True) -> Fate:
    """`row` is the registry's row with this topic id, None if it has none.

    A live row prevails over a record of a deletion: the registry may be older than the deletion,
    and then it is `logstore restore` that settles it. Unless the registry has no row of its
    partitions (`has_partitions` is False): those come before a topic's row and go before it, so it
    is a late put of the topic's creation.
    """
    if row is not None and row.status is TopicStatus.LIVE:
        if deletion_recorded and not has_partitions:
            return Fate.DELETED
        return Fate.LIVE
    if deletion_recorded:
        return Fate.DELETED
    return Fate.UNKNOWN if row is None else Fate.UNRECORDED


class Ruling(NamedTuple):
    """Whether it may be deleted, and why or why not."""

    may: bool
    why: str


def may_drop_rows(fate: Fate, *, was_led: bool) -> Ruling:
    """The rows of partitions without a topic row, or the row of a topic without partition rows.

    Such rows are left by a creation or a deletion that died, and then no leader ever wrote for
    them. `was_led`: a chain holds an epoch range of the topic; then rows were lost beside them.
    """
    if fate is Fate.DELETED:
        return Ruling(True, fate.value)
    if was_led:
        return Ruling(False, "chains hold records of the topic, so its other rows were lost")
    return Ruling(True, "no chain ever led it: its creation died")


def may_drop_table(fate: Fate, pointer: TableRow, recorded: str | None, now_ms: int) -> Ruling:
    """A topic's table, once the topic is gone.

    `pointer` is the table's row, which says when a run first found the topic gone; `recorded` is
    the topic's `logstore.table.on.delete` by the record of its deletion, None without one. `now_ms`
    is believed time (`believed_time`).
    """
    if fate is not Fate.DELETED:
        return Ruling(False, fate.value)
    if pointer.on_delete != DROP or recorded != DROP:
        return Ruling(False, "its topic says that the table is kept")
    if not 0 < pointer.gone_ms <= now_ms - DROP_GRACE_MS:
        return Ruling(False, "its topic has been gone for less than an hour")
    return Ruling(True, fate.value)


def may_sweep_file(*, is_named: bool, stored_ms: int, kept_since_ms: int) -> Ruling:
    """An object in the folder of a live topic's table.

    `is_named`: a version of the table since `kept_since_ms` has the file, by the times that
    committers wrote or by the times at which the store took their entries: the clock of a
    committer can be wrong. `stored_ms` is the store's time of the object, since a run may be about
    to commit a young one. `kept_since_ms` is believed time less the longest period promised.
    """
    if is_named:
        return Ruling(False, "a version of the table that is still promised names it")
    if stored_ms >= kept_since_ms:
        return Ruling(False, "it is younger than the period for which files are kept")
    return Ruling(True, "no version of the period for which files are kept names it")


class LogObject(NamedTuple):
    """An entry of a table's log, its checksum, or a checkpoint; `stored_ms` by the store."""

    version: int
    stored_ms: int
    is_checkpoint: bool = False
    """A whole one."""


def first_entry_kept(objects: Iterable[LogObject], kept_since_ms: int) -> int:
    """The lowest version of a table's log that has to stay: entries never have gaps.

    An older version is needed to read a younger one, so all from the newest checkpoint on that is
    itself old enough stay, and all from the first young object on.
    """
    known = list(objects)
    old = [one.version for one in known if one.is_checkpoint and one.stored_ms < kept_since_ms]
    young = [one.version for one in known if one.stored_ms >= kept_since_ms]
    return min([max(old, default=0), *young])


def confirmed_start(row: PartitionRow) -> int:
    """The log start below which data may be deleted: what the row's reason accounts for.

    A writer that raises a log start stores the reason and the offset with it. A log start without
    a reason, or with another offset, was not raised by a leader or by retention: it came from an
    older restore or from a damaged or edited row. Readers follow it; deletion does not.
    """
    reason, _, offset = row.start_reason.rpartition(": ")
    if reason not in frozenset(StartReason) or not offset.isascii() or not offset.isdigit():
        return 0
    return min(int(offset), row.log_start)


class Span(NamedTuple):
    """Offsets [start, end) of one partition."""

    start: int
    end: int


class InTable(NamedTuple):
    """A partition in its topic's table: `first` is the lowest offset that a file may hold, or may
    have held before key compaction, None without files; `end` is the table end.
    """

    first: int | None
    end: int


def restored_log_start(
    known: int, end: int, segments: Iterable[Span], table: InTable | None
) -> int:
    """The log start of a partition whose row is lost or old, at least `known`, at most `end`.

    `known` is the log start of the old row, `end` the end of the log, `segments` the offsets that
    chains hold; `table` is None only if the partition never had one. Trimmed offsets were below log
    start, or in the table. So without a table all offsets below a gap are below log start. With a
    table the gap may come from lost commits of the table, and a log start above the gap would let
    its other files be dropped: so the gap stays, and reading it fails until the table is put back
    or a client deletes the records.
    """
    spans = [span for span in segments if span.start < span.end]
    if table is not None:
        if table.first is not None and table.first < table.end:
            spans.append(Span(table.first, table.end))
        start = min((span.start for span in spans), default=end)
    else:
        start = _contiguous_from(end, spans)
    return min(max(known, start), end)


def _contiguous_from(end: int, spans: Iterable[Span]) -> int:
    """The lowest offset from which on every offset below `end` is in one of `spans`."""
    start = end
    for span in sorted(spans, key=lambda span: span.end, reverse=True):
        if span.end >= start:
            start = min(start, span.start)
    return start
