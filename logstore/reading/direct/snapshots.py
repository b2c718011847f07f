"""Snapshots of topics' tables: looked at when there is a reason to, kept while they will do.

Lazily loaded, cached snapshots: a log or topics without tables never load the libraries. A stale
snapshot is safe: rows that it lacks are still in segments, or a reader that gets a 404 refreshes
it.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from logstore.errors import Corrupt
from logstore.history.forms.snapshot import Snapshot


class SnapshotSource(Protocol):
    """The calls needed of `logstore.history.delta.Tables`."""

    def snapshot(
        self, topic_id: bytes, *, version: int | None = None, known: Snapshot | None = None
    ) -> Snapshot | None: ...


OpenTables = Callable[[str, Mapping[str, str]], SnapshotSource]


def open_tables(url: str, storage: Mapping[str, str]) -> SnapshotSource:
    from logstore.history.delta import Tables

    return Tables(url, storage)


class SnapshotCache:
    """By topic id. Not for several threads at once."""

    def __init__(self, open_log: Callable[[], SnapshotSource]) -> None:
        self._open_log = open_log
        self._log: SnapshotSource | None = None
        self._known: dict[bytes, Snapshot] = {}

    def known(self, topic_id: bytes) -> Snapshot | None:
        """As it was last looked at; None: there was no table, or no reason to look."""
        return self._known.get(topic_id)

    def at_least(self, topic_id: bytes, version: int) -> Snapshot:
        """A snapshot of a table that is known to be there, of that version or a newer one.

        Raises `Corrupt` for a table that is gone or went back.
        """
        known = self._known.get(topic_id)
        if known is not None and known.version >= version:
            return known
        snapshot = self.newest(topic_id)
        if snapshot is None or snapshot.version < version:
            there = "nothing" if snapshot is None else f"version {snapshot.version}"
            raise Corrupt(
                f"a table does not match its table pointer: topic={topic_id.hex()} "
                f"version={version} there={there}; was it deleted or overwritten?"
            )
        return snapshot

    def newest(self, topic_id: bytes) -> Snapshot | None:
        """The table as it is now, whatever table pointers say; None without a table."""
        if self._log is None:
            self._log = self._open_log()
        snapshot = self._log.snapshot(topic_id, known=self._known.get(topic_id))
        if snapshot is not None:
            self._known[topic_id] = snapshot
        return snapshot
