"""One commit of one table, on the very snapshot that its starts came from.

    refused, and the table ends where we began: an OPTIMIZE came between  → the same once more
    refused, and our files are there, by an answer that was lost          → done
    refused, and it ends elsewhere: another run was there                 → `Overtaken`: drop all

So a run that was suspended and resumes, a second run, or a lost answer costs a repeat and never a
record.
"""

import random
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Protocol

from logstore.errors import OutcomeUnknown, Retryable
from logstore.history.forms.snapshot import (
    CommitFacts,
    DataFile,
    Snapshot,
    TableCommit,
    TableConflict,
)
from logstore.retry import pause_s

ATTEMPTS_MAX = 8


class Overtaken(Retryable):
    """These offsets were moved by another run, or files are gone: begin again from the table."""


class CommitTables(Protocol):
    """The calls needed of `logstore.history.delta.Tables`."""

    def snapshot(
        self, topic_id: bytes, *, version: int | None = None, known: Snapshot | None = None
    ) -> Snapshot | None: ...

    def commits(self, topic_id: bytes, since_version: int) -> Sequence[CommitFacts]: ...

    def version_and_later(
        self, topic_id: bytes, time_ms: int
    ) -> tuple[int | None, Sequence[CommitFacts]]: ...

    def create(self, topic_id: bytes, topic_name: str) -> Snapshot: ...

    def commit(self, snapshot: Snapshot, commit: TableCommit) -> Snapshot: ...

    def vacuum(
        self, topic_id: bytes, retention_hours: int, dry_run: bool, *, now_ms: int
    ) -> int: ...

    def checkpoint(self, topic_id: bytes) -> None: ...

    def delete_table(self, topic_id: bytes) -> int: ...


class CommitStatus(Enum):
    """How a table stands to a commit that was refused."""

    UNCHANGED = "nothing of it happened"
    DONE = "all of it is there"
    CHANGED = "it cannot happen any more"


def commit_once(
    tables: CommitTables,
    snapshot: Snapshot,
    commit: TableCommit,
    sleep_s: Callable[[float], None],
    rng: random.Random,
) -> Snapshot:
    """The snapshot that has the commit. Raises `Overtaken`, and what stores raise for long."""
    for attempt in range(1, ATTEMPTS_MAX):
        try:
            return tables.commit(snapshot, commit)
        except TableConflict:
            pass  # decided below, from the table
        except (Retryable, OutcomeUnknown):
            sleep_s(pause_s(attempt, rng))
        newest = tables.snapshot(snapshot.topic_id)
        if newest is None:
            raise Overtaken(f"the table is gone: topic={snapshot.topic_id.hex()}")
        match commit_status(newest, snapshot, commit):
            case CommitStatus.DONE:
                return newest
            case CommitStatus.CHANGED:
                raise Overtaken(
                    "another writer changed the table during this run: "
                    f"topic={snapshot.topic_id.hex()} "
                    f"version={newest.version} run={commit.run}"
                )
            case CommitStatus.UNCHANGED:
                snapshot = newest
    return tables.commit(snapshot, commit)


def commit_status(newest: Snapshot, before: Snapshot, commit: TableCommit) -> CommitStatus:
    """Whether a commit made for `before` has happened, still may, or may not, in `newest`."""
    are_there = all(_is_there(newest, file) for file in commit.adds)
    if commit.cleaned:
        # Rows are dead because of other rows, anywhere in the version that was read.
        is_clean = all(newest.cleaned.get(one) == end for one, end in commit.cleaned.items())
        if is_clean and are_there and not any(_is_there(newest, file) for file in commit.removes):
            return CommitStatus.DONE
        is_same = newest.version == before.version
        return CommitStatus.UNCHANGED if is_same else CommitStatus.CHANGED
    if commit.ends:
        if all(newest.end(partition) == end for partition, end in commit.ends.items()):
            return (
                CommitStatus.DONE if are_there else CommitStatus.CHANGED
            )  # a twin's, or merged since
        if any(
            newest.end(partition) != before.end(partition)
            or newest.end(partition) not in (None, start)
            for partition, start in commit.starts.items()
        ):
            return CommitStatus.CHANGED
    elif commit.adds and are_there:
        return CommitStatus.DONE
    left = [_is_there(newest, file) for file in commit.removes]
    if not commit.ends and not commit.adds and not any(left):
        return CommitStatus.DONE
    return CommitStatus.UNCHANGED if all(left) else CommitStatus.CHANGED


def _is_there(snapshot: Snapshot, file: DataFile) -> bool:
    overlapping = snapshot.files_for(file.partition, file.min_offset, file.max_offset + 1)
    return any(one.path == file.path for one in overlapping)
