"""What tables hold for sure, asked for trimming as seldom as that allows.

Looking at a table costs a few requests, and trimming looks every minute: so a tenth of the grace
may pass before a table is looked at again. That will do to raise trim points. Before anything is
deleted it is asked anew (`fresh`). Logs without tables cost one query of the registry.
"""

from collections.abc import Sequence

from logstore.log.asked_tables import AskedTables, InTables
from logstore.metadata import read_table_rows, read_topics
from logstore.perform import Performer
from logstore.rows import TopicStatus
from logstore.steps import Steps

LOOKS_PER_GRACE = 10
NONE = InTables({}, ())


class HeldByTables:
    """Remembers the last look."""

    def __init__(self, tables: AskedTables, grace_ms: int) -> None:
        self._tables = tables
        self._grace_ms = grace_ms
        self._known = NONE
        self._known_at_ms: int | None = None

    async def look(self, performer: Performer, *, fresh: bool) -> InTables:
        """Raises as registry and tables do; then nothing may be trimmed."""
        now_ms = performer.clock.now_ms()
        if not fresh and self._is_recent(now_ms):
            return self._known
        topic_ids = await performer.run(_topics_with_tables())
        if not topic_ids:
            return NONE
        self._known = await self._tables.held(topic_ids, self._grace_ms, now_ms)
        self._known_at_ms = now_ms
        return self._known

    def _is_recent(self, now_ms: int) -> bool:
        if self._known_at_ms is None:
            return False
        return 0 <= now_ms - self._known_at_ms < self._grace_ms // LOOKS_PER_GRACE


def _topics_with_tables() -> Steps[Sequence[bytes]]:
    """Live topics that may have a table."""
    tables = yield from read_table_rows()
    if not tables:
        return ()
    topics = yield from read_topics()
    live = [row.topic_id for row in topics.values() if row.status is TopicStatus.LIVE]
    return [topic_id for topic_id in live if topic_id in tables]
