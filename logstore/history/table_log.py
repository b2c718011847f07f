"""Reads the log of a table: the last checkpoint, and the entries after it, through our store.

Entries have no gaps and are only ever cleaned away from the beginning, so an absent entry is the
tail where the one before it is there.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

from logstore.errors import Corrupt, NotFound
from logstore.history.checkpoints import decode_checkpoint, decode_hint
from logstore.history.forms import names
from logstore.history.forms.entries import CHECKPOINT_INTERVAL, LogEntry, decode_entry
from logstore.history.forms.features import TableRules, check_readable
from logstore.history.forms.snapshot import (
    CommitFacts,
    DataFile,
    Snapshot,
    changed,
)
from logstore.runners.retrying import RetryingStore

_TOGETHER = 8  # entries asked for at a time, once there is more than one

_Entry = TypeVar("_Entry")


class TableLog:
    """Of one topic. Raises `Corrupt`, `Refused`, and what stores raise."""

    def __init__(self, store: RetryingStore, topic_id: bytes) -> None:
        self._store = store
        self._topic_id = topic_id
        self.damaged: dict[names.CheckpointName, Corrupt] = {}
        """Checkpoints that could not be read, so that `snapshot` took an earlier one."""

    def snapshot(self, version: int | None) -> Snapshot | None:
        """The newest version, or `version`; None: there is no table.

        Where a checkpoint is damaged, an earlier one and the entries after it give the same, if all
        of these are there: raises `Corrupt` if not.
        """
        base = self._base(version)
        snapshot = self._advanced(base, version)
        for name, error in self.damaged.items():
            if snapshot.version < name.version:
                raise error
        if snapshot.version < 0 and version is None:
            return None
        if version is not None and snapshot.version != version:
            raise NotFound(f"no such version: table={self._table} version={version}")
        check_readable(shown(snapshot), snapshot.rules)
        return snapshot

    def after(self, known: Snapshot, version: int | None) -> Snapshot | None:
        """As `snapshot`, beginning with `known`; None if that cannot be gone on with."""
        snapshot = self._advanced(known, version)
        if snapshot is known and (version is None or version > known.version):
            key = names.entry_key(self._topic_id, known.version)
            try:
                self._store.get_range(key, 0, 1)
            except NotFound:
                return None  # cleaned away since, and with it perhaps the next one
        if version is not None and snapshot.version != version:
            return None
        check_readable(shown(snapshot), snapshot.rules)
        return snapshot

    def entry(self, version: int) -> LogEntry | None:
        """None: not there, yet or any more."""
        data = self._raw(version)
        return None if data is None else decode_entry(data, self._topic_id, version)

    def entries(self, first: int, last: int | None = None) -> Iterator[LogEntry]:
        """Entries from version `first` on, up to `last` or the tail."""
        return self._each(self.entry, first, last)

    def raw_entries(self, first: int) -> Iterator[bytes]:
        """As they are stored, from version `first` on, up to the tail."""
        return self._each(self._raw, first, None)

    def _raw(self, version: int) -> bytes | None:
        try:
            return self._store.get(names.entry_key(self._topic_id, version))
        except NotFound:
            return None

    def _each(
        self, read: Callable[[int], _Entry | None], first: int, last: int | None
    ) -> Iterator[_Entry]:
        entry = None if last is not None and first > last else read(first)
        if entry is None:
            return
        yield entry
        at = first + 1
        with ThreadPoolExecutor(_TOGETHER, thread_name_prefix="table-log") as threads:
            while last is None or at <= last:
                past = at + _TOGETHER if last is None else min(at + _TOGETHER, last + 1)
                for entry in threads.map(read, range(at, past)):
                    if entry is None:
                        return
                    yield entry
                at = past

    def checkpoint_version(self) -> int:
        """The version of the newest checkpoint; -1 without one: then entry 0 is there, if any is.

        `_last_checkpoint` is a hint: where it is absent or damaged, or names a checkpoint that is
        gone, the log is listed. Raises `Corrupt` for a log without a beginning.
        """
        hint = self._hint()
        if hint is not None and self._exists(hint.keys(self._topic_id)[0]):
            return hint.version
        if self._is_young():
            return -1
        return next((name.version for name in self._listed(None)), -1)

    def newest(self) -> int:
        """The newest version, -1 if there is no table."""
        version = self.checkpoint_version()
        for entry in self.entries(version + 1):
            version = entry.facts.version
        return version

    def since(self, time_ms: int) -> tuple[int | None, list[CommitFacts]]:
        """The newest version committed at `time_ms` or before, and the commits after it.

        By the clocks of those who committed. None: the table is younger. Raises `NotFound` if the
        log does not go back so far.
        """
        checkpointed = self.checkpoint_version()
        late = [entry.facts for entry in self.entries(max(0, checkpointed))]
        if checkpointed >= 0 and not late:  # another engine removed its own entry
            late = [entry.facts for entry in self.entries(checkpointed + 1)]
            if not late:
                return checkpointed, []
        before = late[0].version - 1 if late else -1
        while late and late[0].timestamp_ms > time_ms and before >= 0:
            earlier = self._up_to(before)
            if not earlier:
                key = names.entry_key(self._topic_id, before)
                raise NotFound(f"an entry of a table's log was removed: key={key}")
            late = [*earlier, *late]
            before = earlier[0].version - 1
        for at in range(len(late) - 1, -1, -1):
            if late[at].timestamp_ms <= time_ms:
                return late[at].version, late[at + 1 :]
        return None, late

    def stored_since(self, time_ms: int) -> tuple[int | None, list[CommitFacts]]:
        """As `since`, and the store took that version at `time_ms` or before as well.

        A committer's clock may be behind. One LIST of one key; where the store disagrees, of all.
        Raises `NotFound` also where no entry is there that is so old by the store.
        """
        version, later = self.since(time_ms)
        if version is None or self._is_stored_by(version, time_ms):
            return version, later
        listed = self._store.list(names.log_prefix(self._topic_id))
        times = {names.version_of_entry(info.key): info.modified_ms for info in listed}
        stored = {one: at_ms for one, at_ms in times.items() if one is not None}
        version = max(
            (one for one, at_ms in stored.items() if one < version and at_ms <= time_ms), default=-1
        )
        if version < 0 and 0 not in stored:
            raise NotFound(f"no entry of a table's log is old enough: table={self._table}")
        later = [entry.facts for entry in self.entries(version + 1)]
        return (None if version < 0 else version), later

    def _is_stored_by(self, version: int, time_ms: int) -> bool:
        """By its entry, or by its checkpoint if the entry was removed; both begin alike."""
        front = names.entry_key(self._topic_id, version).removesuffix("json")
        times = [info.modified_ms for info in self._store.list(front)]
        return bool(times) and min(times) <= time_ms

    def _up_to(self, version: int) -> list[CommitFacts]:
        """Of a few versions up to this one, without gaps."""
        versions = range(max(version - _TOGETHER + 1, 0), version + 1)
        with ThreadPoolExecutor(_TOGETHER, thread_name_prefix="table-log") as threads:
            entries = [*threads.map(self.entry, versions)]
        facts: list[CommitFacts] = []
        for entry in reversed(entries):
            if entry is None:
                break
            facts.insert(0, entry.facts)
        return facts

    @property
    def _table(self) -> str:
        return names.table_key(self._topic_id)

    def _base(self, version: int | None) -> Snapshot:
        """The newest checkpoint up to `version`, else the state before the first entry."""
        for name in self.bases(version):
            if name is None:
                break
            try:
                return self._checkpoint(name)
            except NotFound:
                continue  # cleaned away since it was named, or never made
            except Corrupt as error:
                self.damaged[name] = error
        return Snapshot(self._topic_id, -1)

    def bases(self, version: int | None = None) -> Iterator[names.CheckpointName | None]:
        """Checkpoints up to `version` that may be there, best first; None: begin with entry 0.

        For a caller that goes on to the next where one is not there or damaged. Without what
        `_last_checkpoint` says, the log is listed.
        """
        hint = self._hint()
        if hint is not None and (version is None or hint.version <= version):
            yield hint
            hint = None
        if hint is None and self._is_young():
            yield None
        if hint is not None and version is not None:
            # Unless others make them, or at other versions.
            yield names.CheckpointName(version - version % CHECKPOINT_INTERVAL)
        yield from self._listed(version)
        yield None

    def _is_young(self) -> bool:
        """Whether all entries are there, and too few for a checkpoint of ours."""
        return self._has(0) and not self._has(CHECKPOINT_INTERVAL)

    def _has(self, version: int) -> bool:
        return self._exists(names.entry_key(self._topic_id, version))

    def _exists(self, key: str) -> bool:
        try:
            self._store.get_range(key, 0, 1)
        except NotFound:
            return False
        return True

    def _hint(self) -> names.CheckpointName | None:
        """None: absent, or damaged: half a file of an engine that died while it wrote."""
        try:
            return decode_hint(self._store.get(names.last_checkpoint_key(self._topic_id)))
        except (Corrupt, NotFound):
            return None

    def _listed(self, version: int | None) -> Sequence[names.CheckpointName]:
        """Whole checkpoints up to `version`, newest first."""
        keys = [info.key for info in self._store.list(names.log_prefix(self._topic_id))]
        checkpoints = [
            name for name in whole_checkpoints(keys) if version is None or name.version <= version
        ]
        if keys and not checkpoints and version is None and not self._has(0):
            raise Corrupt(f"the log of a table has no beginning: table={self._table}")
        return checkpoints

    def _checkpoint(self, name: names.CheckpointName) -> Snapshot:
        checkpoint = decode_checkpoint(
            map(self._store.get, name.keys(self._topic_id)), self._topic_id
        )
        rules = TableRules()
        if checkpoint.protocol is not None and checkpoint.metadata is not None:
            rules = rules.with_protocol(checkpoint.protocol).with_metadata(checkpoint.metadata)
        return Snapshot(
            self._topic_id,
            name.version,
            checkpoint.ends,
            checkpoint.files,
            rules,
            checkpoint.cleaned,
            checkpoint.settled,
        )

    def _advanced(self, base: Snapshot, version: int | None) -> Snapshot:
        """With the entries after it, all at once: `base` itself if there are none."""
        rules, ends = base.rules, dict(base.ends)
        cleaned, settled = dict(base.cleaned), dict(base.settled)
        adds: dict[str, DataFile] = {}
        removed: set[str] = set()
        last = base.version
        for entry in self.entries(base.version + 1, version):
            for path in entry.removed_paths:
                adds.pop(path, None)
                removed.add(path)
            for file in entry.adds:
                adds[file.path] = file
            ends.update(entry.ends)
            cleaned.update(entry.cleaned)
            settled.update(entry.settled)
            if entry.protocol is not None:
                rules = rules.with_protocol(entry.protocol)
            if entry.metadata is not None:
                rules = rules.with_metadata(entry.metadata)
            last = entry.facts.version
        if last == base.version:
            return base
        removed.update(adds.keys() & _paths_in(base, adds))
        after = changed(base, last, ends, list(adds.values()), removed)
        return replace(after, rules=rules, cleaned=cleaned, settled=settled)


def whole_checkpoints(keys: Iterable[str]) -> list[names.CheckpointName]:
    """Of which all parts are there, newest first."""
    parts = Counter(name for name in map(names.checkpoint_of, keys) if name is not None)
    return sorted((name for name in parts if parts[name] == name.parts), reverse=True)


def _paths_in(base: Snapshot, adds: dict[str, DataFile]) -> set[str]:
    """Paths added although they exist: an owner may have recomputed the statistics of a file."""
    paths: set[str] = set()
    for file in adds.values():
        there = base.files_for(file.partition, file.min_offset, file.min_offset + 1)
        paths.update(other.path for other in there if other.path == file.path)
    return paths


def shown(snapshot: Snapshot) -> str:
    """Name of a table in messages."""
    table = names.table_key(snapshot.topic_id)
    topic = snapshot.rules.configuration.get(names.TOPIC_PROPERTY)
    return table if topic is None else f"{table} topic={topic}"
