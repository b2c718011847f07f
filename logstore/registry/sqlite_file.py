"""One connection to the registry's SQLite file: schema, transactions, and what errors mean.

    rows(pk TEXT, sk TEXT, attributes TEXT)    primary key (pk, sk); attributes: registry.row_json

WAL with synchronous=FULL: a commit is in the log file and synced before it is answered; NORMAL may
take the last commits back at a power cut, and with them an epoch that was already used. WAL needs
shared memory, so the file must be on a local file system.

Writers of several processes queue for their turn (`registry.turn`) before they ask SQLite for its
lock.

The only module that imports sqlite3. Not for several threads: see `registry.sqlite_owner`.
"""

import os
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from logstore.errors import LogstoreError, NoRoom, OutcomeUnknown, Refused, Retryable
from logstore.ports.registry import Condition, Row, Value
from logstore.registry.row_json import decode_row, encode_row
from logstore.registry.turn import WriteTurn
from logstore.registry.verdicts import after_put, after_update, check_delete

Mode = Literal["create", "write", "read"]

SCHEMA_VERSION = 1
FILE_MODE = 0o600
APPLICATION_ID = 0x6C6F6773  # "logs", in the header of the file

_BUSY_TIMEOUT_S = 5.0
_URI_MODES = {"create": "rwc", "write": "rw", "read": "ro"}
_SCHEMA = f"""
    CREATE TABLE rows (
        pk TEXT NOT NULL, sk TEXT NOT NULL, attributes TEXT NOT NULL, PRIMARY KEY (pk, sk)
    ) WITHOUT ROWID;
    PRAGMA application_id = {APPLICATION_ID};
    PRAGMA user_version = {SCHEMA_VERSION};
"""


class SqliteFile:
    """An open registry file. Raises `Refused` if it is none, `Retryable` if it is busy.

    `get` and `query` see what is committed, or inside `transaction` what it has done so far.
    `put_if`, `update_if` and `delete_if` are for inside alone.
    """

    def __init__(self, path: Path, mode: Mode) -> None:
        self._path = path.absolute()
        self._turn = WriteTurn(self._path)
        if mode == "create":
            _make_private(self._path)
        with self._translated("open"):
            self._connection = sqlite3.connect(
                f"{self._path.as_uri()}?mode={_URI_MODES[mode]}",
                uri=True,
                timeout=_BUSY_TIMEOUT_S,
                isolation_level=None,  # transactions begin and end where this file says
            )
        try:
            with self._translated("open"):
                self._prepare(mode)
        except LogstoreError:
            self._connection.close()
            raise

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Everything done inside is durable when it ends, or nothing is."""
        with self._turn.taken():
            with self._translated("begin"):
                self._connection.execute("BEGIN IMMEDIATE")
            changes = self._connection.total_changes
            try:
                with self._translated("write"):
                    yield
                with self._translated("commit"):
                    if self._connection.total_changes != changes:
                        self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    with suppress(sqlite3.Error):  # the owner reopens the file after an error
                        self._connection.execute("ROLLBACK")

    def get(self, pk: str, sk: str) -> dict[str, Value] | None:
        with self._translated("read"):
            columns = self._connection.execute(
                "SELECT attributes FROM rows WHERE pk = ? AND sk = ?", (pk, sk)
            ).fetchone()
        return None if columns is None else decode_row(columns[0])

    def query(
        self, pk: str, prefix: str, after: str | None, limit: int
    ) -> Sequence[tuple[str, Row]]:
        if after is not None and after >= prefix:
            where, bound = "sk > ?", after
        else:
            where, bound = "sk >= ?", prefix
        page: list[tuple[str, Row]] = []
        with self._translated("read"):
            for sk, text in self._connection.execute(
                f"SELECT sk, attributes FROM rows WHERE pk = ? AND {where} ORDER BY sk LIMIT ?",
                (pk, bound, limit),
            ):
                if not sk.startswith(prefix):
                    break
                page.append((sk, decode_row(text)))
        return page

    def put_if(
        self, pk: str, sk: str, row: Row, conditions: Sequence[Condition], write_id: str
    ) -> None:
        self._replace(pk, sk, after_put(self.get(pk, sk), row, conditions, write_id))

    def update_if(
        self, pk: str, sk: str, sets: Row, conditions: Sequence[Condition], write_id: str
    ) -> None:
        self._replace(pk, sk, after_update(self.get(pk, sk), sets, conditions, write_id))

    def delete_if(self, pk: str, sk: str, conditions: Sequence[Condition]) -> None:
        check_delete(self.get(pk, sk), conditions)
        self._connection.execute("DELETE FROM rows WHERE pk = ? AND sk = ?", (pk, sk))

    def close(self) -> None:
        with suppress(sqlite3.Error):  # uncommitted writes were not acknowledged
            self._connection.close()

    def _prepare(self, mode: Mode) -> None:
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute("PRAGMA fullfsync = ON")  # macOS: through the drive's cache
        if mode == "read":
            self._connection.execute("PRAGMA query_only = ON")
        if mode == "create" and self._is_empty():
            with self._turn.taken():
                self._create()
        self._check_schema()

    def _create(self) -> None:
        journal = self._connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        if journal != "wal":  # the file keeps the mode, so this is the only time it is asked
            raise Refused(f"no write-ahead log here path={self._path}; use a local file system")
        if not self._is_empty():
            return  # another process was first
        self._connection.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} COMMIT;")
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _is_empty(self) -> bool:
        return self._number("SELECT count(*) FROM sqlite_master") == 0

    def _check_schema(self) -> None:
        version = self._number("PRAGMA user_version")
        if self._number("PRAGMA application_id") != APPLICATION_ID:
            raise Refused(f"not a logstore registry path={self._path}; check the path")
        if version > SCHEMA_VERSION:
            raise Refused(
                f"the registry was written by a newer logstore path={self._path} "
                f"version={version} known={SCHEMA_VERSION}; upgrade this one"
            )

    def _number(self, statement: str) -> int:
        return int(self._connection.execute(statement).fetchone()[0])

    def _replace(self, pk: str, sk: str, row: Row) -> None:
        self._connection.execute(
            "INSERT OR REPLACE INTO rows VALUES (?, ?, ?)", (pk, sk, encode_row(row))
        )

    @contextmanager
    def _translated(self, doing: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise _meaning(error, doing, self._path) from error


def _make_private(path: Path) -> None:
    """Make the file for its user alone; SQLite gives the ones beside it the same mode.

    One that is there stays as it is, and is not opened: closing it would release SQLite's locks.
    """
    with suppress(OSError):  # there already, or SQLite says why it cannot be
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE))


def _meaning(error: sqlite3.Error, doing: str, path: Path) -> LogstoreError:
    """Sorted by SQLite's primary result code (https://www.sqlite.org/rescode.html)."""
    facts = f"doing={doing} path={path} error={error}"
    match getattr(error, "sqlite_errorcode", 0) & 0xFF:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED | sqlite3.SQLITE_NOMEM:
            return Retryable(f"the registry is busy {facts}")
        case sqlite3.SQLITE_FULL:
            # Also of a commit: its last page, without which it does not count, was not written.
            return NoRoom(f"no room for the registry {facts} {_free_space(path)}; free some")
        case sqlite3.SQLITE_IOERR if doing == "commit":
            return OutcomeUnknown(f"the registry may have changed {facts}")
        case sqlite3.SQLITE_IOERR:
            return Retryable(f"cannot read or write the registry {facts}")
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return Refused(
                f"the registry is damaged or not SQLite {facts}; check the path, "
                "or stop every broker and run logstore restore"
            )
        case sqlite3.SQLITE_CANTOPEN:
            return Refused(f"cannot open the registry {facts}; check that its folder exists")
        case _:
            return Refused(f"the registry cannot be used {facts}; check owner, mode and mount")


def _free_space(path: Path) -> str:
    try:
        return f"free_bytes={shutil.disk_usage(path.parent).free}"
    except OSError:
        return "free_bytes=unknown"
