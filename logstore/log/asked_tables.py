"""What retention and trimming ask of topics' tables, beside the event loop.

Delta's library is loaded with the first question, so a log without tables never loads it.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from logstore.history.snapshot import Snapshot
from logstore.pieces import TopicPartition

if TYPE_CHECKING:
    from logstore.history.delta import Tables


class InTables(NamedTuple):
    """`ends`: below them a table holds a partition for sure. `troubles`: one line each, alarms."""

    ends: Mapping[TopicPartition, int]
    troubles: Sequence[str]


class AskedTables(Protocol):
    """Raises as stores do, `Refused` for tables that this version cannot read."""

    async def snapshot(self, topic_id: bytes) -> Snapshot | None:
        """The newest version; None: the topic has no table."""

    async def held(self, topic_ids: Sequence[bytes], grace_ms: int, now_ms: int) -> InTables:
        """What the tables held a grace ago and hold now (`logstore.history.held`)."""


class TablesInThreads:
    """Asks in threads. `open_tables` is called with the first question."""

    def __init__(self, open_tables: "Callable[[], Tables]") -> None:
        self._open_tables = open_tables
        self._tables: Tables | None = None

    async def snapshot(self, topic_id: bytes) -> Snapshot | None:
        return await asyncio.to_thread(lambda: self._opened().snapshot(topic_id))

    async def held(self, topic_ids: Sequence[bytes], grace_ms: int, now_ms: int) -> InTables:
        return await asyncio.to_thread(lambda: held_in(self._opened(), topic_ids, grace_ms, now_ms))

    def _opened(self) -> "Tables":
        if self._tables is None:
            self._tables = self._open_tables()
        return self._tables


def held_in(tables: "Tables", topic_ids: Sequence[bytes], grace_ms: int, now_ms: int) -> InTables:
    """As `AskedTables.held`, blocking."""
    from logstore.history.held import held_ends

    held = held_ends(tables, topic_ids, grace_ms, now_ms)
    return InTables(held.ends, held.troubles)
