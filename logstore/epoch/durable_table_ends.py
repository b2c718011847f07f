"""Durable ends of tables for trimming, read as rarely as possible.

Looking at a table costs requests, and trimming looks every minute: so a tenth of the grace may pass
before tables are read again, and a table whose table pointer has not changed since all of it was
held is not read. That suffices to raise trim points. Before a deletion the tables of its topics are
read again (`fresh`). Logs without tables cost one query of the registry.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from logstore.epoch.table_queries import NOTHING_VERIFIED, TableQueries
from logstore.formats.table_row import TableRow
from logstore.formats.topic_partition import TopicPartition
from logstore.formats.topic_row import TopicStatus
from logstore.protocol.rows.metadata import read_table_rows, read_topics
from logstore.protocol.rows.verified_versions import change_marks, drop_mark, read_marks
from logstore.protocol.steps import Steps, believed_ms
from logstore.runners.step_runner import StepRunner, outcome_of

READS_PER_GRACE = 10
MARK_EVERY = 32
"""A mark is raised by so many versions at least: a registry write for each would cost more than
looking at some commits twice."""


class _KnownEnds(NamedTuple):
    """One table at the last read, by the table pointer that there was."""

    row: TableRow
    ends: Mapping[TopicPartition, int]

    @property
    def is_settled(self) -> bool:
        """Whether all offsets of the row are durably held; then only a new row changes it."""
        return sum(self.ends.values()) == sum(self.row.ends.values())


class TableRead(NamedTuple):
    """The ends that tables hold durably, by partition; troubles with tables, a line each."""

    ends: Mapping[TopicPartition, int]
    troubles: Sequence[str]
    asked_ms: int
    """The accepted time before tables were read: nothing later is known of them."""


class DurableTableEnds:
    """Remembers the last look."""

    def __init__(self, tables: TableQueries, grace_ms: int) -> None:
        self._tables = tables
        self._grace_ms = grace_ms
        self._known: dict[bytes, _KnownEnds] = {}
        self._troubles: Sequence[str] = ()
        self._looked_at_s: float | None = None

    async def look(self, runner: StepRunner, *, fresh: Collection[bytes] = ()) -> TableRead:
        """Of every live topic that has a table; those in `fresh` are read again.

        Raises as registry and tables do; then nothing may be trimmed.
        """
        now_s, wall_ms = runner.clock.monotonic_s(), runner.clock.now_ms()
        if not fresh and self._is_recent(now_s):
            return TableRead(self._ends(), self._troubles, wall_ms)
        rows = await runner.run(_live_tables())
        self._known = {key: known for key, known in self._known.items() if key in rows}
        wanted = [
            topic_id
            for topic_id, row in rows.items()
            if topic_id in fresh or not self._is_settled(topic_id, row)
        ]
        if not fresh:
            self._looked_at_s = now_s
            self._troubles = ()
        if not wanted:
            return TableRead(self._ends(), self._troubles, wall_ms)
        marks = await runner.run(read_marks())
        asked = {topic_id: marks.get(topic_id, NOTHING_VERIFIED) for topic_id in wanted}
        now_ms = await runner.run(believed_ms())
        held = await self._tables.held(asked, self._grace_ms, now_ms)
        for topic_id in wanted:
            ends = {key: end for key, end in held.ends.items() if key.topic_id == topic_id}
            self._known[topic_id] = _KnownEnds(rows[topic_id], ends)
        self._troubles = sorted({*self._troubles, *held.troubles})
        await self._mark(runner, marks, held.verified, rows.keys())
        return TableRead(self._ends(), self._troubles, min(wall_ms, now_ms))

    def pointed_ends(self, topic_id: bytes) -> Mapping[int, int]:
        """Where a topic's table ends by its table pointer, by partition, as last read."""
        known = self._known.get(topic_id)
        return {} if known is None else known.row.ends

    def _is_recent(self, now_s: float) -> bool:
        if self._looked_at_s is None:
            return False
        return (now_s - self._looked_at_s) * 1000 < self._grace_ms // READS_PER_GRACE

    def _is_settled(self, topic_id: bytes, row: TableRow) -> bool:
        known = self._known.get(topic_id)
        return known is not None and known.row == row and known.is_settled

    def _ends(self) -> dict[TopicPartition, int]:
        return {key: end for known in self._known.values() for key, end in known.ends.items()}

    async def _mark(
        self,
        runner: StepRunner,
        marks: Mapping[bytes, int],
        verified: Mapping[bytes, int],
        live: Collection[bytes],
    ) -> None:
        """A help for later looks: trouble with it is none."""
        higher = {
            topic_id: version
            for topic_id, version in verified.items()
            if version - marks.get(topic_id, NOTHING_VERIFIED) >= MARK_EVERY
        }
        await outcome_of(runner.run(change_marks(marks, higher)))
        for topic_id, version in marks.items():
            if topic_id not in live:
                await outcome_of(runner.run(drop_mark(topic_id, version)))


def _live_tables() -> Steps[dict[bytes, TableRow]]:
    """Table pointers of live topics, by topic id."""
    tables = yield from read_table_rows()
    if not tables:
        return {}
    topics = yield from read_topics()
    live = {row.topic_id for row in topics.values() if row.status is TopicStatus.LIVE}
    return {topic_id: row for topic_id, row in tables.items() if topic_id in live}
