"""Queries of topics' tables for retention and trimming, outside the event loop.

Delta's library is loaded with the first question, so a log without tables never loads it.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from logstore.errors import Corrupt, NotFound, Refused
from logstore.formats.topic_partition import TopicPartition
from logstore.history.forms.snapshot import Snapshot

if TYPE_CHECKING:
    from logstore.history.delta import Tables

NOTHING_VERIFIED = -1


class VerifiedEnds(NamedTuple):
    """`ends`: below them a table holds a partition durably. `troubles`: one line each, alarms.

    `verified`: by topic, the version up to which commits were found to follow each other.
    """

    ends: Mapping[TopicPartition, int]
    troubles: Sequence[str]
    verified: Mapping[bytes, int]


class TableQueries(Protocol):
    """Raises as stores do."""

    async def snapshot(self, topic_id: bytes) -> Snapshot | None:
        """The newest version; None: the topic has no table."""

    async def held(self, marks: Mapping[bytes, int], grace_ms: int, now_ms: int) -> VerifiedEnds:
        """Ends held by tables a grace ago and now; `marks`: `verified` of the last call."""


class ThreadedTableQueries:
    """Asks in threads. `open_tables` is called with the first question."""

    def __init__(self, open_tables: "Callable[[], Tables]") -> None:
        self._open_tables = open_tables
        self._tables: Tables | None = None

    async def snapshot(self, topic_id: bytes) -> Snapshot | None:
        return await asyncio.to_thread(lambda: self._opened().snapshot(topic_id))

    async def held(self, marks: Mapping[bytes, int], grace_ms: int, now_ms: int) -> VerifiedEnds:
        return await asyncio.to_thread(lambda: held_in(self._opened(), marks, grace_ms, now_ms))

    def _opened(self) -> "Tables":
        if self._tables is None:
            self._tables = self._open_tables()
        return self._tables


def held_in(
    tables: "Tables", marks: Mapping[bytes, int], grace_ms: int, now_ms: int
) -> VerifiedEnds:
    """As `TableQueries.held`, blocking. Of the topics that have a mark, if only a low one."""
    from logstore.history.durable_ends import held_ends

    verified: dict[bytes, int] = {}
    troubles: list[str] = []
    for topic_id, mark in marks.items():
        try:
            outcome = _verify(tables, topic_id, mark)
        except (Corrupt, Refused) as error:
            outcome = str(error)
        if isinstance(outcome, str):
            troubles.append(outcome)
        elif outcome is not None:
            verified[topic_id] = outcome
    held = held_ends(tables, list(verified), grace_ms, now_ms)
    troubles += held.troubles
    return VerifiedEnds(held.ends, troubles, {} if held.troubles else verified)


def _verify(tables: "Tables", topic_id: bytes, mark: int) -> int | str | None:
    """The version up to which all is well, or what is not; None: there is no table."""
    from logstore.history.durable_ends import broken_link
    from logstore.history.forms.names import table_key

    now = tables.snapshot(topic_id)
    if now is None:
        return None
    table = table_key(topic_id)
    if now.version < mark:
        return f"a table's version went back: table={table} version={now.version} seen={mark}"
    if now.version == mark:
        return mark
    before = Snapshot(topic_id, NOTHING_VERIFIED)
    try:
        if mark > NOTHING_VERIFIED:
            snapshot = tables.snapshot(topic_id, version=mark)
            before = before if snapshot is None else snapshot
        facts = tables.commits(topic_id, mark + 1)
    except NotFound:
        return now.version  # the table forgot commits that old: those of a grace must do
    trouble = broken_link(before, now, facts)
    return now.version if trouble is None else f"{trouble} table={table}"
