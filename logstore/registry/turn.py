"""Whose turn it is to write the registry's file: a lock that a process standing still loses.

Writers of several processes queue at flock(2) on `<path>-turn` before they ask SQLite for its lock:
the kernel wakes them in turn, while SQLite's own waiting is by luck and has let one process wait
longer than a lease. It gives fairness alone; what is safe rests on SQLite's lock.

A process that was stopped (SIGSTOP, Ctrl-Z) in its turn holds both locks, and no other can release
them: no broker of the host could renew its lease, fence the stopped one, or take over from it. So
who waits looks twice a second at the process that holds the turn, and kills it once it has been
stopped, in the same turn, for as long as a lease. That loses nothing: it is what a crash does, the
transaction is undone, and a broker stopped for a lease is fenced anyway.

Which process it is says the kernel: /proc/locks names the one that holds this very file (device and
inode); only logstore locks it. It is pinned (pidfd) before that is read, so no other process that
is given its number can be meant. A process that is not stopped is never killed, however long it
takes; nor is one of another user: then the log names it. One of another PID namespace (no number is
shown) cannot be named, nor can any where there is no /proc/locks.
"""

import fcntl
import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from logstore.errors import Refused

STOPPED_S = 3.0
"""As long as a lease."""
POLL_S = 0.5
REPORT_AFTER_S = 5.0

_LOCKS = Path("/proc/locks")
_STOPPED = "T"

logger = logging.getLogger(__name__)


class WriteTurn:
    """The lock on `<path>-turn`, for one thread of this process."""

    def __init__(self, path: Path) -> None:
        self._path = Path(f"{path}-turn")

    @contextmanager
    def taken(self) -> Iterator[None]:
        # Opened each time: a child forked from this process must not keep the lock alive.
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise Refused(f"cannot open path={self._path} error={error.strerror}") from error
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._wait(descriptor)
            yield
        finally:
            os.close(descriptor)

    def _wait(self, descriptor: int) -> None:
        """In the kernel's queue, while another thread watches the process in front."""
        is_ours = threading.Event()
        watcher = threading.Thread(
            target=_watch, args=(self._path, is_ours), name="registry turn", daemon=True
        )
        watcher.start()
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        finally:
            is_ours.set()
            watcher.join()


@dataclass(slots=True)
class LockHolder:
    """Observations of the process that holds a lock."""

    pid: int
    state: str
    stopped_s: float = 0.0
    """For how long it has been seen stopped, without a break."""

    def seen(self, pid: int, state: str, passed_s: float) -> "LockHolder":
        is_same = pid == self.pid and state == self.state == _STOPPED
        return LockHolder(pid, state, self.stopped_s + passed_s if is_same else 0.0)

    @property
    def is_given_up(self) -> bool:
        return self.stopped_s >= STOPPED_S


def holder_in(locks: str, device: int, inode: int) -> int | None:
    """The process that holds the flock of a file, by /proc/locks; None: no process listed there.

    A line: `12: FLOCK  ADVISORY  WRITE 4711 fe:00:9977950 0 EOF`; one that waits: `12: -> FLOCK`.
    """
    file = f"{os.major(device):02x}:{os.minor(device):02x}:{inode}"
    for line in locks.splitlines():
        words = line.split()
        if len(words) >= 6 and words[1] == "FLOCK" and words[5] == file and int(words[4]) > 0:
            return int(words[4])
    return None


def state_in(stat: str) -> str:
    """The state of a process by its /proc/PID/stat; its name may hold anything but comes first."""
    return stat.rpartition(")")[2].split()[0]


def _watch(path: Path, is_over: threading.Event) -> None:
    holder: LockHolder | None = None
    polls = 0
    # Looks are counted and no clock is asked: while we stand still ourselves, nothing is seen.
    while not is_over.wait(POLL_S):
        polls += 1
        with suppress(OSError, ValueError):
            holder = _looked(path, holder, is_over)
        if holder is not None and polls == int(REPORT_AFTER_S / POLL_S):
            logger.warning(
                "another process holds the registry: pid=%d state=%s path=%s; "
                "if this persists, kill it",
                holder.pid,
                holder.state,
                path,
            )


def _looked(path: Path, before: LockHolder | None, is_over: threading.Event) -> LockHolder | None:
    pid = _holder_of(path)
    if pid is None:
        return None
    pinned = os.pidfd_open(pid)
    try:
        if _holder_of(path) != pid:
            return None
        state = state_in(Path(f"/proc/{pid}/stat").read_text())
        holder = LockHolder(pid, state) if before is None else before.seen(pid, state, POLL_S)
        if holder.is_given_up and not is_over.is_set():
            signal.pidfd_send_signal(pinned, signal.SIGKILL)
            logger.warning(
                "killed a process that was stopped while it held the registry: "
                "pid=%d seconds=%.1f path=%s",
                pid,
                holder.stopped_s,
                path,
            )
        return holder
    finally:
        os.close(pinned)


def _holder_of(path: Path) -> int | None:
    about = path.stat()
    return holder_in(_LOCKS.read_text(), about.st_dev, about.st_ino)
