"""What tables hold for sure, asked for trimming as seldom as that allows.

Looking at a table costs a few requests, and trimming looks every minute: so a tenth of the grace
may pass before a table is looked at again. That will do to raise trim points. Before anything is
deleted it is asked anew (`fresh`). Logs without tables cost one query of the registry.
"""

import asyncio
from collections.abc import Callable, Mapping

from logstore.history.delta import Tables
from logstore.history.held import Held, held_ends
from logstore.metadata import read_table_rows, read_topics
from logstore.perform import Performer
from logstore.rows import TopicStatus
from logstore.steps import Steps

LOOKS_PER_GRACE = 10
NONE = Held({}, ())


class HeldByTables:
    """Remembers the last look. `open_tables` is called when there first is a table."""

    def __init__(self, open_tables: Callable[[], Tables], grace_ms: int) -> None:
        self._open_tables = open_tables
        self._grace_ms = grace_ms
        self._known = NONE
        self._known_at_ms: int | None = None
        self._tables: Tables | None = None

    async def look(self, performer: Performer, *, fresh: bool) -> Held:
        """Raises as registry and tables do; then nothing may be trimmed."""
        now_ms = performer.clock.now_ms()
        topics = await performer.run(_topics_with_tables())
        if not topics:
            self._known, self._known_at_ms = NONE, None
            return NONE
        if not fresh and self._is_recent(now_ms):
            return self._known
        if self._tables is None:
            self._tables = self._open_tables()
        tables, grace_ms = self._tables, self._grace_ms
        self._known = await asyncio.to_thread(held_ends, tables, list(topics), grace_ms, now_ms)
        self._known_at_ms = now_ms
        return self._known

    def _is_recent(self, now_ms: int) -> bool:
        if self._known_at_ms is None:
            return False
        return 0 <= now_ms - self._known_at_ms < self._grace_ms // LOOKS_PER_GRACE


def _topics_with_tables() -> Steps[Mapping[bytes, str]]:
    """Live topics that have a table, and their names."""
    tables = yield from read_table_rows()
    if not tables:
        return {}
    topics = yield from read_topics()
    return {
        row.topic_id: name
        for name, row in topics.items()
        if row.status is TopicStatus.LIVE and row.topic_id in tables
    }
