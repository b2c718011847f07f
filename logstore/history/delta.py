"""The log of a topic's table, by delta-rs. The only module that names deltalake.

Blocking: brokers call it from threads. See docs/formats/table.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from logstore.history.snapshot import CommitFacts, Snapshot, TableCommit, TableConflict

__all__ = ["CommitFacts", "TableConflict", "Tables"]


class Tables:
    """The tables of the log at `url`; `storage` are its `storage.*` settings. For any thread."""

    def __init__(self, url: str, storage: Mapping[str, str] | None = None) -> None:
        self._url = url
        self._storage = storage

    def snapshot(
        self, topic_id: bytes, *, version: int | None = None, known: Snapshot | None = None
    ) -> Snapshot | None:
        """The newest version, or `version`; None: the topic has no table yet.

        `known` is given back when it is the newest, and makes the rest cheap. Raises `Refused` for
        a table that this version cannot read, `Retryable` and `OutcomeUnknown` as stores do,
        `NotFound` for a version that is not there (any more).
        """
        raise NotImplementedError

    def create(self, topic_id: bytes, topic_name: str) -> Snapshot:
        """The topic's table, which is made if there is none. Repeatable."""
        raise NotImplementedError

    def commit(self, snapshot: Snapshot, commit: TableCommit) -> Snapshot:
        """Makes `commit` the version after `snapshot`; durable when it returns.

        Raises `TableConflict`: another version is there, nothing was done, begin again from a new
        snapshot. `OutcomeUnknown`: the answer was lost and the table cannot be asked.
        """
        raise NotImplementedError

    def commits(self, topic_id: bytes, since_version: int) -> Sequence[CommitFacts]:
        """Every version from `since_version` on, oldest first. Raises `NotFound`: cleaned away."""
        raise NotImplementedError

    def version_at(self, topic_id: bytes, time_ms: int) -> int | None:
        """The newest version committed at `time_ms` or before, None if there is none."""
        raise NotImplementedError

    def vacuum(self, topic_id: bytes, retention_hours: int, dry_run: bool) -> int:
        """Deletes files that no version of the last hours names; says how many."""
        raise NotImplementedError

    def checkpoint(self, topic_id: bytes) -> None:
        """Sums up the table's log, so that opening it costs a few requests."""
        raise NotImplementedError

    def delete_table(self, topic_id: bytes) -> int:
        """Deletes everything below the table's folder; says how many objects. Repeatable."""
        raise NotImplementedError
