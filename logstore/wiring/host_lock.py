"""A file lock that detects another live process of the same broker on this machine.

The kernel drops the lock with the process that holds it, however it dies. Its name (boot id, path,
inode) goes into the broker's row: who holds the very lock that the row names knows that its
predecessor is dead, and need not wait for the lease. Held across nothing but this process.
"""

import fcntl
import os
from pathlib import Path

from logstore.errors import Refused
from logstore.objects.files import make_folders

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class LockHeld(Refused):
    """Another process of this machine holds it: that broker is running."""


class HostLock:
    """Raises `LockHeld` on construction if another process holds it, `Refused` if it cannot be
    opened."""

    def __init__(self, path: Path) -> None:
        try:
            make_folders(path.parent)
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        except OSError as error:
            raise Refused(f"cannot open the lock file: {error}; check --state-dir") from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._descriptor, 32, 0).decode("ascii", "replace").strip()
            os.close(self._descriptor)
            raise LockHeld(
                f"this broker is running already: pid={holder or 'unknown'} lock={path}; "
                "stop it, or choose another --broker"
            ) from error
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, b"%d\n" % os.getpid(), 0)
        inode = os.fstat(self._descriptor).st_ino
        self.name = f"{boot_id()}:{path.resolve()}:{inode}"

    def release(self) -> None:
        os.close(self._descriptor)


def boot_id() -> str:
    """One boot of one machine; a lock of an earlier boot has no holder, and another name."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return os.uname().nodename
