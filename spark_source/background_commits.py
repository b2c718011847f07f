"""Commits of a group beside the query, in a thread of their own: a query never waits for brokers.

    tell(position) ─▶ one place, the newest position wins ─▶ thread ─▶ `GroupCommits.tell`

Brokers that do not answer cost the thread seconds at each attempt. Positions that it missed in that
time are older than the one that waits, so the queue has one place. The thread ends when nothing
waits, and holds up neither a query that stops nor a process that ends.
"""

import threading
from typing import Protocol

from spark_source.planning.offsets import Position

THREAD_NAME = "logstore-group-commits"


class GroupCommitPort(Protocol):
    """The calls needed of `GroupCommits`."""

    def tell(self, position: Position) -> None: ...


class BackgroundCommits:
    def __init__(self, commits: GroupCommitPort) -> None:
        self._commits = commits
        self._changed = threading.Condition()
        self._waiting: Position | None = None
        self._is_running = False

    def tell(self, position: Position) -> None:
        """Everything below `position` has been processed. Returns at once."""
        with self._changed:
            self._waiting = position
            if not self._is_running:
                self._is_running = True
                threading.Thread(target=self._run, name=THREAD_NAME, daemon=True).start()

    def flush(self, timeout_s: float) -> bool:
        """Whether all commits were sent, or given up, within that time: for a query that ends."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._is_running, timeout_s)

    def _run(self) -> None:
        try:
            while (position := self._next()) is not None:
                self._commits.tell(position)
        except BaseException:
            with self._changed:
                self._end()
            raise

    def _next(self) -> Position | None:
        """None ends this thread; from then on another may begin."""
        with self._changed:
            position, self._waiting = self._waiting, None
            if position is None:
                self._end()
            return position

    def _end(self) -> None:
        self._is_running = False
        self._changed.notify_all()
