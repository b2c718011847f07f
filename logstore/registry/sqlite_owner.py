"""The one thread that owns the SQLite connection, and the queue in front of it.

It takes all calls that wait, answers the reads, and does the writes in one transaction: one sync of
the disk for all of them, each with its own verdict (a failed condition undoes no other write).
Every answer is a future that ends after the commit.

A call whose caller has stopped waiting is left out; so a cancelled future means that nothing
happened, and one that cannot be cancelled means that the call may have happened, or may yet.
"""

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from logstore.errors import ConditionFailed, Corrupt, Invalid, LogstoreError, Refused, Throttled
from logstore.ports.registry import Condition, Row
from logstore.registry.sqlite_file import Mode, SqliteFile
from logstore.registry.verdicts import check_key, check_query, check_row

_BATCH_MAX = 256
_WAITING_MAX = 10_000

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class _QueuedCall(Generic[_Answer]):
    run: Callable[[SqliteFile], _Answer]
    writes: bool
    future: Future[_Answer] = field(default_factory=Future)

    def begin(self) -> bool:
        """False if its caller no longer waits: then it must not run."""
        return self.future.set_running_or_notify_cancel()

    def outcome(self, file: SqliteFile) -> Callable[[], None]:
        """Runs the call; what is returned tells its caller how it ended, once it may know.

        An error of the file itself concerns the whole batch, and is raised.
        """
        try:
            answer = self.run(file)
        except (ConditionFailed, Invalid, Corrupt) as error:
            return partial(self.future.set_exception, error)
        return partial(self.future.set_result, answer)

    def fail(self, error: LogstoreError) -> None:
        """Tells the caller of an error of the file, unless it has its answer or has gone."""
        if self.future.running() or (not self.future.done() and self.begin()):
            own = type(error)(str(error))  # its traceback is to be the caller's alone
            own.__cause__ = error
            self.future.set_exception(own)


class SqliteOwner:
    """The rows of one SQLite file, for any number of threads of one process."""

    def __init__(self, path: Path, mode: Mode) -> None:
        self._path = path
        self._mode: Mode = mode
        self._process = os.getpid()
        self._calls: SimpleQueue[_QueuedCall[Any] | None] = SimpleQueue()
        self._lock = threading.Lock()  # nothing is queued behind the None that ends the thread
        self._closed: Future[None] | None = None
        self._file: SqliteFile | None = None
        # A daemon: a process that forgot to close ends all the same, like one that was killed.
        threading.Thread(target=self._serve, name=f"registry {path.name}", daemon=True).start()

    def get(self, pk: str, sk: str) -> Future[Row | None]:
        check_key(pk, sk)
        return self._queue(_QueuedCall(lambda file: file.get(pk, sk), writes=False))

    def query(
        self, pk: str, prefix: str, after: str | None, limit: int
    ) -> Future[Sequence[tuple[str, Row]]]:
        check_query(pk, prefix, after, limit)
        return self._queue(
            _QueuedCall(lambda file: file.query(pk, prefix, after, limit), writes=False)
        )

    def put_if(
        self, pk: str, sk: str, row: Row, conditions: Sequence[Condition], write_id: str
    ) -> Future[None]:
        check_key(pk, sk)
        check_row(row)
        return self._queue(
            _QueuedCall(lambda file: file.put_if(pk, sk, row, conditions, write_id), writes=True)
        )

    def update_if(
        self, pk: str, sk: str, sets: Row, conditions: Sequence[Condition], write_id: str
    ) -> Future[None]:
        check_key(pk, sk)
        check_row(sets)
        return self._queue(
            _QueuedCall(
                lambda file: file.update_if(pk, sk, sets, conditions, write_id), writes=True
            )
        )

    def delete_if(self, pk: str, sk: str, conditions: Sequence[Condition]) -> Future[None]:
        check_key(pk, sk)
        return self._queue(
            _QueuedCall(lambda file: file.delete_if(pk, sk, conditions), writes=True)
        )

    def close(self) -> Future[None]:
        """Ends when every call queued before has been answered and the file is closed."""
        self._check_process()
        with self._lock:
            if self._closed is None:
                self._closed = Future()
                self._calls.put(None)
            return self._closed

    def _queue(self, call: _QueuedCall[_Answer]) -> Future[_Answer]:
        self._check_process()
        with self._lock:
            if self._closed is not None:
                raise Invalid(f"the registry is closed path={self._path}")
            if self._calls.qsize() >= _WAITING_MAX:
                raise Throttled(f"too many calls wait for the registry path={self._path}")
            self._calls.put(call)
        return call.future

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise Refused(f"the registry was opened before a fork path={self._path}; open it after")

    def _serve(self) -> None:
        try:
            while self._serve_batch():
                pass
        finally:  # also of our own mistakes: who calls now must not wait for nothing
            self._close_file()
            self.close().set_result(None)

    def _serve_batch(self) -> bool:
        """False after the last one."""
        batch, more = self._next_batch()
        reads = [call for call in batch if not call.writes and call.begin()]
        writes = [call for call in batch if call.writes]
        if reads:
            self._answer_reads(reads)
        if writes:
            self._answer_writes(writes)
        return more

    def _answer_reads(self, calls: Sequence[_QueuedCall[Any]]) -> None:
        try:
            file = self._opened()
            for call in calls:
                report = call.outcome(file)
                report()
        except LogstoreError as error:
            self._give_up(calls, error)

    def _answer_writes(self, calls: Sequence[_QueuedCall[Any]]) -> None:
        try:
            file = self._opened()
            with file.transaction():
                # Begun only now: waiting for other processes may have taken long.
                reports = [call.outcome(file) for call in calls if call.begin()]
        except LogstoreError as error:
            self._give_up(calls, error)
        else:
            for report in reports:
                report()

    def _give_up(self, calls: Sequence[_QueuedCall[Any]], error: LogstoreError) -> None:
        self._close_file()  # whatever state the error left it in; the next call reopens it
        for call in calls:
            call.fail(error)

    def _opened(self) -> SqliteFile:
        if self._file is None:
            self._file = SqliteFile(self._path, self._mode)
        return self._file

    def _close_file(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _next_batch(self) -> tuple[list[_QueuedCall[Any]], bool]:
        """The calls that wait, at least one; False when they are the last."""
        batch: list[_QueuedCall[Any]] = []
        call = self._calls.get()
        while call is not None:
            batch.append(call)
            if len(batch) == _BATCH_MAX:
                return batch, True
            try:
                call = self._calls.get_nowait()
            except Empty:
                return batch, True
        return batch, False
