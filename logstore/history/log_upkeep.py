"""Keeps the log of a table short: a checkpoint now and then, and old entries deleted.

A checkpoint is created through our own store, as entries are: durable, and never changed. Only
`_last_checkpoint` names another one each time: it is deleted and created again, since the store
port has no overwrite. Between the two, and should it stay absent, readers list the log.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import unquote

from logstore.errors import AlreadyExists, Corrupt, NotFound, Unavailable
from logstore.history.checkpoints import decode_hint
from logstore.history.forms import names
from logstore.history.forms.actions import Reconciled
from logstore.history.forms.checkpoint_write import encode_checkpoint
from logstore.history.forms.durations import LOG_ENTRIES, kept_ms
from logstore.history.table_log import TableLog, whole_checkpoints
from logstore.ports.objects import ObjectInfo
from logstore.protocol.rules.disposal import LogObject, first_entry_kept
from logstore.runners.retrying import RetryingStore

LOG_KEPT_MS_MIN = 48 * 3_600_000
"""Minimum, whatever the owner sets: trimming and sweeping read commits of up to a day ago."""

_OLD_FILE = re.compile(r"(\d{20})\.(?:json|crc|checkpoint(?:\.\d{10}\.\d{10})?\.parquet)")


class LogUpkeep:
    """Of one topic's table. Raises `Corrupt`, `Refused`, and what stores raise."""

    def __init__(self, store: RetryingStore, topic_id: bytes) -> None:
        self._store = store
        self._topic_id = topic_id
        self._log = TableLog(store, topic_id)

    def state(self) -> tuple[int, Reconciled]:
        """The newest version, -1 without a table, and the state of its log.

        Damaged checkpoints are passed over where earlier ones and entries say the same.
        """
        version, state = -1, Reconciled()
        damaged: tuple[int, Corrupt] | None = None
        for base in self._log.bases():
            try:
                version, state = self._loaded(base)
                break
            except NotFound:
                continue  # cleaned away since it was named
            except Corrupt as error:
                damaged = damaged or (-1 if base is None else base.version, error)
        for data in self._log.raw_entries(version + 1):
            state.apply(data)
            version += 1
        if damaged is not None and version < damaged[0]:
            raise damaged[1]
        return version, state

    def _loaded(self, base: names.CheckpointName | None) -> tuple[int, Reconciled]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        state = Reconciled()
        if base is None:
            return -1, state
        try:
            for key in base.keys(self._topic_id):
                state.load(pq.read_table(io.BytesIO(self._store.get(key))))
        except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
            raise self._damaged(base, repr(error)) from error
        if state.protocol is None or state.metadata is None:
            raise self._damaged(base, "no protocol or schema")
        return base.version, state

    def _damaged(self, name: names.CheckpointName, cause: str) -> Corrupt:
        return Corrupt(
            f"not a checkpoint of a table: key={name.keys(self._topic_id)[0]} error={cause}; it is "
            "not needed while the entries are there: move it away"
        )

    def removed_since(self, since_ms: int) -> set[str]:
        """Paths of files that versions of before name and the newest one does not.

        By the times in the remove actions. One without a time is named as long as a checkpoint is.
        """
        _, state = self.state()
        removes = state.files("remove")
        times = removes.field("deletionTimestamp").to_pylist()
        paths = removes.field("path").to_pylist()
        return {
            unquote(path)
            for path, time_ms in zip(paths, times, strict=True)
            if time_ms is None or time_ms >= since_ms
        }

    def checkpoint(self, *, removed_before_ms: int = 0) -> int:
        """Checkpoints the newest version, and returns it. Repeatable.

        Files that were removed before that time are no longer named. A checkpoint that is there
        already will do, of another writer too. Raises `Corrupt` where that one is damaged: it is
        not named in `_last_checkpoint`, and the checkpoint of a later version has another name.
        """
        version, state = self.state()
        return self._create(version, state, removed_before_ms)

    def forget(self, now_ms: int, *, removed_before_ms: int) -> None:
        """Drops outdated metadata: names of files removed before, and old entries.

        `now_ms` must be a time that is not ahead of the true one:
        `logstore.protocol.deletion.believed_time`.
        """
        version, state = self.state()
        times = state.files("remove").field("deletionTimestamp").to_pylist()
        if any((time_ms or 0) < removed_before_ms for time_ms in times):
            with suppress(Corrupt):  # a damaged file has the name: a later version drops them
                self._create(version, state, removed_before_ms)
        self._clean(configuration_of(state), now_ms)

    def _create(self, version: int, state: Reconciled, removed_before_ms: int) -> int:
        if version < 0:
            raise NotFound(f"no table: table={names.table_key(self._topic_id)}")
        written = encode_checkpoint(state, version, removed_before_ms)
        name = names.CheckpointName(version)
        (key,) = name.keys(self._topic_id)
        if not self._store.create_equal(key, written.parquet):
            self._loaded(name)
        self._name(version, written.hint)
        return version

    def _name(self, version: int, hint: bytes) -> None:
        key = names.last_checkpoint_key(self._topic_id)
        try:
            if decode_hint(self._store.get(key)).version >= version:
                return
        except (Corrupt, NotFound):
            pass  # named by nothing yet, or by half a file: an engine that died while writing it
        self._store.delete(key)
        # One attempt: another checkpoint may be named by now, and some stores with versions create
        # nothing where an object was deleted. Readers do without.
        with suppress(AlreadyExists, Unavailable):
            self._store.create(key, [hint])

    def _clean(self, configuration: Mapping[str, str], now_ms: int) -> None:
        """Deletes outdated entries, oldest first, so that entries never have gaps.

        What an older version needs goes with it: all below the newest checkpoint that is itself
        old enough. Ages are the store's.
        """
        if configuration.get("delta.enableExpiredLogCleanup", "true").lower() == "false":
            return
        since_ms = now_ms - max(kept_ms(configuration, LOG_ENTRIES), LOG_KEPT_MS_MIN)
        listed = self._listed()
        kept = first_entry_kept(self._objects(listed, since_ms), since_ms)
        for info in sorted(listed, key=lambda info: info.key):
            version = _version_of(info.key)
            if version is not None and version < kept and info.modified_ms < since_ms:
                self._store.delete(info.key)

    def version_stored_before(self, time_ms: int) -> int | None:
        """The newest version whose entry the store took before `time_ms`, by the store's times.

        The oldest one whose entry is there, if all are younger; None without any. One LIST.
        """
        listed = [info for info in self._listed() if info.key.endswith(".json")]
        ages = {_version_of(info.key): info.modified_ms for info in listed}
        versions = sorted(version for version in ages if version is not None)
        old = [version for version in versions if ages[version] < time_ms]
        return old[-1] if old else next(iter(versions), None)

    def _objects(self, listed: Sequence[ObjectInfo], since_ms: int) -> list[LogObject]:
        """Of the checkpoints from before `since_ms` only the newest that can be read counts."""
        old = [info.key for info in listed if info.modified_ms < since_ms]
        whole: set[str] = set()
        for name in whole_checkpoints(old):
            with suppress(Corrupt, NotFound):
                self._loaded(name)
                whole.update(name.keys(self._topic_id))
                break
        versions = [(_version_of(info.key), info) for info in listed]
        return [
            LogObject(version, info.modified_ms, info.key in whole)
            for version, info in versions
            if version is not None
        ]

    def _listed(self) -> list[ObjectInfo]:
        return list(self._store.list(names.log_prefix(self._topic_id)))


def configuration_of(state: Reconciled) -> dict[str, str]:
    metadata: Mapping[str, Any] = state.metadata or {}
    return dict(metadata.get("configuration") or {})


def _version_of(key: str) -> int | None:
    """Of an entry, its checksum or a checkpoint; None for what is left alone."""
    match = _OLD_FILE.fullmatch(key.rpartition("/")[2])
    return None if match is None else int(match[1])
