"""Log lines reach stderr by a thread of their own: a reader that stops reading holds no broker.

A pipe takes 64 KiB. While its reader stands still (a paused terminal, a stuck log shipper), a write
waits, and on the event loop the lease would run out. So lines wait in a queue of `LINES_MAX`; lines
beyond it are counted, and the count is written as soon as there is room. The few lines for the
broker's user, on stdout, go the same way, so both are in the order in which they were written.
"""

import logging
import os
import queue
import select
import threading

LINES_MAX = 4096
STDOUT, STDERR = 1, 2
FLUSH_S = 1.0
"""How long the end of a process waits for lines that are not written."""


class LogWriter(logging.Handler):
    """Formats where it is called, writes in a thread. `fd`: an open file descriptor."""

    def __init__(self, fd: int = STDERR, lines_max: int = LINES_MAX) -> None:
        super().__init__()
        self._fd = fd
        self._lines: queue.Queue[tuple[int, str]] = queue.Queue(lines_max)
        self._lost_count = 0
        self._lost_count_lock = threading.Lock()
        self._thread = threading.Thread(target=self._write_lines, name="log lines", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._put(self._fd, self.format(record))
        except Exception:  # noqa: BLE001 - as every handler of `logging`
            self.handleError(record)

    def say(self, line: str) -> None:
        """A line for the broker's user, on stdout."""
        self._put(STDOUT, line)

    def _put(self, fd: int, line: str) -> None:
        try:
            self._lines.put_nowait((fd, line))
        except queue.Full:
            with self._lost_count_lock:
                self._lost_count += 1

    def flush(self) -> None:
        """Wait until all is written, but not longer than `FLUSH_S`: nothing may be reading."""
        with self._lines.all_tasks_done:
            self._lines.all_tasks_done.wait_for(
                lambda: not self._lines.unfinished_tasks, timeout=FLUSH_S
            )

    def _write_lines(self) -> None:
        while True:
            fd, line = self._lines.get()
            try:
                self._write(fd, line)
                self._write_lost_count()
            except OSError:
                pass  # the reader is gone: there is nowhere to say it
            finally:
                self._lines.task_done()

    def _write_lost_count(self) -> None:
        with self._lost_count_lock:
            lost_count, self._lost_count = self._lost_count, 0
        if lost_count:
            self._write(self._fd, f"logstore: {lost_count} log lines lost: stderr was not read")

    def _write(self, fd: int, line: str) -> None:
        """Past `sys.stdout` and `sys.stderr`: at its exit the interpreter needs their locks."""
        rest = memoryview(f"{line}\n".encode(errors="backslashreplace"))
        while rest:
            try:
                rest = rest[os.write(fd, rest) :]
            except BlockingIOError:  # shared with a process that does not want to wait
                select.select([], [fd], [])
