"""The log of a topic's table: opened, committed to, kept short; and its folder swept.

Entries are read and created through our own store: a commit is one conditional create, of the same
bytes until its outcome is known, and durable when it returns. delta-rs would repeat a lost request
and take its own entry for another's, does not sync files, and reads the whole log for every
table end. Why: docs/decisions/0011-history-table.md.

Blocking; brokers call it from threads. What is stored: docs/formats/table.md.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress

from logstore.errors import Corrupt, LogstoreError, NotFound
from logstore.history.forms import names
from logstore.history.forms.columns import delta_schema
from logstore.history.forms.durations import DELETED_FILES, kept_ms
from logstore.history.forms.entries import CHECKPOINT_INTERVAL, encode_commit, encode_creation
from logstore.history.forms.features import check_writable
from logstore.history.forms.snapshot import (
    CommitFacts,
    Snapshot,
    TableCommit,
    TableConflict,
    advanced,
    check_commit,
)
from logstore.history.log_upkeep import LogUpkeep
from logstore.history.table_log import TableLog, shown
from logstore.ports.clock import Clock, SystemClock
from logstore.ports.objects import BlockingObjectStore
from logstore.protocol.rules.disposal import may_sweep_file
from logstore.runners.retrying import RetryingStore
from logstore.stores.backends import Backends
from logstore.stores.location import parse_location

__all__ = ["CommitFacts", "TableConflict", "Tables"]

_HOUR_MS = 3_600_000

logger = logging.getLogger(__name__)


class Tables:
    """The tables of the log at `url`; `storage` are its `storage.*` settings. For any thread."""

    def __init__(
        self,
        url: str,
        storage: Mapping[str, str] | None = None,
        *,
        store: BlockingObjectStore | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`store` is the log's, if the caller has it open. Raises `Invalid` for bad settings."""
        opened = store or Backends(parse_location(url), dict(storage or {})).blocking_store()
        self._store = RetryingStore.of(opened)
        self._clock = clock or SystemClock()
        self._without_checkpoint: set[bytes] = set()
        """Topics whose last checkpoint failed, and of which this was logged."""

    def snapshot(
        self, topic_id: bytes, *, version: int | None = None, known: Snapshot | None = None
    ) -> Snapshot | None:
        """The newest version, or `version`; None: the topic has no table yet.

        `known` is given back when it is the newest: 2 GETs; else its entries are added: one GET
        each. From nothing: about 20 GETs, and a LIST for an older `version`. Raises `Refused` for
        a table that this version cannot read, `NotFound` for a version that is not there (any
        more), `Corrupt`, and what stores raise.
        """
        log = self._log(topic_id)
        if known is not None and (version is None or known.version <= version):
            newer = log.after(known, version)
            if newer is not None:
                return newer
        return log.snapshot(version)

    def create(self, topic_id: bytes, topic_name: str) -> Snapshot:
        """The topic's table, which is made if there is none. Repeatable."""
        snapshot = self.snapshot(topic_id)
        if snapshot is None:
            entry = encode_creation(topic_id, topic_name, delta_schema(), self._clock.now_ms())
            self._store.create_equal(names.entry_key(topic_id, 0), entry)
            snapshot = self.snapshot(topic_id)
        if snapshot is None:
            raise Corrupt(f"a table vanished: table={names.table_key(topic_id)}")
        return snapshot

    def commit(self, snapshot: Snapshot, commit: TableCommit) -> Snapshot:
        """Makes `commit` the version after `snapshot`; durable when it returns. One PUT.

        Raises `TableConflict`: another version is there, nothing was done, begin again from a new
        snapshot. `OutcomeUnknown`: whether it was done could not be found out; the same call again
        tells. `Refused`: the table's owner uses what we cannot keep right.
        """
        check_commit(snapshot, commit)
        topic_id, version = snapshot.topic_id, snapshot.version + 1
        check_writable(shown(snapshot), snapshot.rules, removes=bool(commit.removes))
        entry = encode_commit(topic_id, snapshot.version, commit, self._clock.now_ms())
        if not self._store.create_equal(names.entry_key(topic_id, version), entry):
            self._require_own(topic_id, version, commit)
        interval = snapshot.rules.configuration.get("delta.checkpointInterval", "")
        every = int(interval) if interval.isdigit() else CHECKPOINT_INTERVAL
        if every and version % every == 0:
            self._checkpoint_if_possible(topic_id)
        return advanced(snapshot, commit)

    def _checkpoint_if_possible(self, topic_id: bytes) -> None:
        """The commit is made and stays; the next checkpoint covers what this one should have.

        Until then every reader of the table reads more entries: a failure is logged once for each
        table, until a checkpoint succeeds; `logstore fsck` counts the entries.
        """
        try:
            self.checkpoint(topic_id)
        except LogstoreError as error:
            if topic_id not in self._without_checkpoint:
                logger.warning(
                    "cannot write a checkpoint of a table's log: table=%s error=%s",
                    names.table_key(topic_id),
                    error,
                )
            self._without_checkpoint.add(topic_id)
        else:
            self._without_checkpoint.discard(topic_id)

    def commits(self, topic_id: bytes, since_version: int) -> Sequence[CommitFacts]:
        """Every version from `since_version` on, oldest first. Raises `NotFound`: cleaned away."""
        log = self._log(topic_id)
        facts = [entry.facts for entry in log.entries(since_version)]
        if not facts and since_version <= log.newest():
            key = names.entry_key(topic_id, since_version)
            raise NotFound(f"an entry of a table's log was removed: key={key}")
        return facts

    def version_at(self, topic_id: bytes, time_ms: int) -> int | None:
        """The newest version committed at `time_ms` or before, None if there is none.

        By the clocks of those who committed. Raises `NotFound` if the log does not go back so far.
        """
        return self._log(topic_id).since(time_ms)[0]

    def version_and_later(
        self, topic_id: bytes, time_ms: int
    ) -> tuple[int | None, Sequence[CommitFacts]]:
        """The newest version that was committed at `time_ms` or before, and the commits after it.

        By the clocks of those who committed and by the store's time, so that a clock which is
        behind makes no commit older. Nothing comes from a cache. Raises as `version_at`.
        """
        return self._log(topic_id).stored_since(time_ms)

    def vacuum(self, topic_id: bytes, retention_hours: int, dry_run: bool, *, now_ms: int) -> int:
        """Deletes files that no version of the last hours names; says how many. Repeatable.

        `logstore.protocol.rules.disposal` decides. How old a version is, the clocks of committers
        say and the store: a version counts as over once both say so.
        The hours are the longer of `retention_hours` and what the table promises its readers
        (`delta.deletedFileRetentionDuration`, Delta's default: a week). Also what runs left behind
        that never committed; no run may take as long. Old entries of the table's log go as well.
        `now_ms` is what time it is believed to be (`logstore.protocol.deletion.believed_time`).
        Raises `Refused` for a promise that cannot be read.
        """
        now = self.snapshot(topic_id)
        horizon_ms = now_ms - retention_hours * _HOUR_MS
        oldest = None if now is None else self.version_at(topic_id, horizon_ms)
        if now is None or oldest is None:
            return 0
        then = self.snapshot(topic_id, version=oldest)
        named = {file.path for shot in (then, now) if shot for file in shot.all_files()}
        for entry in self._log(topic_id).entries(oldest + 1):
            named.update(file.path for file in entry.adds)
        promised_ms = kept_ms(now.rules.configuration, DELETED_FILES)
        since_ms = min(horizon_ms, now_ms - promised_ms)
        upkeep = LogUpkeep(self._store, topic_id)
        named |= upkeep.removed_since(since_ms) | self._named_at_age(topic_id, upkeep, since_ms)
        front = f"{names.table_key(topic_id)}/"
        deleted = 0
        for info in self._store.list(f"{front}{names.PARTITION_FOLDER}"):
            ruling = may_sweep_file(
                is_named=info.key.removeprefix(front) in named,
                stored_ms=info.modified_ms,
                kept_since_ms=since_ms,
            )
            if ruling.may:
                deleted += 1
                if not dry_run:
                    self._store.delete(info.key)
        if not dry_run:
            upkeep.forget(now_ms, removed_before_ms=since_ms)
        return deleted

    def checkpoint(self, topic_id: bytes) -> None:
        """Checkpoints the table's log; keeps every action that `vacuum` may need."""
        LogUpkeep(self._store, topic_id).checkpoint()

    def delete_table(self, topic_id: bytes) -> int:
        """Deletes everything below the table's folder; says how many objects. Repeatable."""
        deleted = 0
        for prefix in (names.log_prefix(topic_id), f"{names.table_key(topic_id)}/"):
            for info in self._store.list(prefix):
                self._store.delete(info.key)
                deleted += 1
        return deleted

    def _named_at_age(self, topic_id: bytes, upkeep: LogUpkeep, since_ms: int) -> set[str]:
        """Files of the version that was the newest at `since_ms` by the store's times."""
        version = upkeep.version_stored_before(since_ms)
        snapshot = None
        with suppress(NotFound):  # cleaned away: the log does not go back so far
            snapshot = None if version is None else self.snapshot(topic_id, version=version)
        return set() if snapshot is None else {file.path for file in snapshot.all_files()}

    def _log(self, topic_id: bytes) -> TableLog:
        return TableLog(self._store, topic_id)

    def _require_own(self, topic_id: bytes, version: int, commit: TableCommit) -> None:
        """Another entry has the version: mine all the same if an earlier call's answer was lost."""
        there = self._log(topic_id).entry(version)
        if there is not None:
            facts = there.facts
            same_moves = facts.starts == commit.starts and facts.ends == commit.ends
            same_files = {file.path for file in there.adds} == {file.path for file in commit.adds}
            same_cleaned = there.cleaned == commit.cleaned
            if facts.run == commit.run and same_moves and same_files and same_cleaned:
                return
        raise TableConflict(
            f"another commit has this version: table={names.table_key(topic_id)} version={version} "
            f"run={commit.run}"
        )
