"""Calls of the directory store to the operating system: write, sync, link, read.

A name can be given to a finished file in two ways. An unnamed file (Linux, O_TMPFILE) vanishes by
itself if the process dies before; a named one stays behind under its temporary name. Either way
link(2) is atomic and fails when the final name is taken, which rename(2) would not.
"""

import errno
import fcntl
import mmap
import os
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from logstore.errors import OutcomeUnknown
from logstore.ports.objects import Buffer

FILE_MODE = 0o440  # objects never change, and are for users of the log's group alone
FOLDER_MODE = 0o750

# From here on, writing past the page cache costs less CPU than writing into it; measured in
# docs/decisions/0001-directory-store-durability.md.
DIRECT_BYTES_MIN = 256 * 1024

_BUFFERS_MAX = os.sysconf("SC_IOV_MAX")

# link(2) has done nothing when it answers one of these; any other leaves it unknown (NFS, EIO).
_LINK_REFUSED = frozenset(
    {
        errno.EEXIST,
        errno.ENOENT,
        errno.ENOTDIR,
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EACCES,
        errno.EPERM,
        errno.EROFS,
        errno.EXDEV,
        errno.EMLINK,
        errno.EOPNOTSUPP,
        errno.ENAMETOOLONG,
    }
)

_ALIGNMENT = 4096
_DIRECT_BUFFER_BYTES = 2**20  # per thread that writes
_local = threading.local()

if sys.platform == "darwin":
    CAN_LINK_UNNAMED = False

    def sync_data(descriptor: int) -> None:
        # fsync(2) of macOS leaves the bytes in the drive's cache.
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)

    def open_unnamed(folder: Path) -> int:
        raise OSError(errno.EOPNOTSUPP, "no unnamed files on this system", str(folder))

    def set_direct(descriptor: int, on: bool) -> bool:
        return False

else:
    # An unnamed file gets its name through /proc, which a bare container may lack.
    CAN_LINK_UNNAMED = Path("/proc/self/fd").is_dir()

    def sync_data(descriptor: int) -> None:
        os.fdatasync(descriptor)

    def open_unnamed(folder: Path) -> int:
        return os.open(folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, FILE_MODE)

    def set_direct(descriptor: int, on: bool) -> bool:
        """Whether writes go past the page cache from now on; False if the file system cannot."""
        flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
        try:
            fcntl.fcntl(
                descriptor, fcntl.F_SETFL, flags | os.O_DIRECT if on else flags & ~os.O_DIRECT
            )
        except OSError:
            return False
        return on


def write_object(descriptor: int, parts: Sequence[Buffer]) -> None:
    """Writes all `parts` to a new file, past the page cache if that pays and the system can."""
    size_bytes = sum(len(part) for part in parts)
    if size_bytes >= DIRECT_BYTES_MIN and set_direct(descriptor, True):
        _write_direct(descriptor, parts)
    else:
        write_parts(descriptor, parts)


def write_parts(
    descriptor: int,
    parts: Sequence[Buffer],
    writev: Callable[[int, Sequence[Buffer]], int] = os.writev,
) -> None:
    """Writes all `parts`, however little the system takes at a time."""
    views = [memoryview(part).cast("B") for part in parts if len(part)]
    at = 0
    while at < len(views):
        written = writev(descriptor, views[at : at + _BUFFERS_MAX])
        if written <= 0:
            raise OSError(errno.EIO, "nothing was written")
        while at < len(views) and written >= len(views[at]):
            written -= len(views[at])
            at += 1
        if written:
            views[at] = views[at][written:]


def read_at(descriptor: int, start: int, length: int) -> bytes:
    """Bytes [start, start + length), fewer where the file ends."""
    size_bytes = os.fstat(descriptor).st_size
    length = max(0, min(length, size_bytes - start))
    if length == 0:
        return b""
    data = os.pread(descriptor, length, start)
    if len(data) == length:
        return data
    chunks = [data]  # Linux gives at most 2 GiB at a time
    while chunks[-1]:
        length -= len(chunks[-1])
        start += len(chunks[-1])
        chunks.append(os.pread(descriptor, length, start))
    return b"".join(chunks)


def link_unnamed(descriptor: int, path: Path) -> None:
    # Without a directory descriptor Python calls link(2), which would link the /proc entry itself;
    # with one (of no account, since the path is absolute) linkat(2) with AT_SYMLINK_FOLLOW.
    source = Path(f"/proc/self/fd/{descriptor}")
    _link(source, path, lambda: os.link(source, path, src_dir_fd=0, follow_symlinks=True))


def link_named(temporary: Path, path: Path) -> None:
    _link(temporary, path, lambda: os.link(temporary, path))


def sync_folder(folder: Path) -> None:
    """Makes the names in `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folders(folder: Path) -> None:
    """Make `folder`, and what is missing above it: `Path.mkdir` opens those to all users."""
    if not folder.is_dir():
        if folder.parent != folder:
            make_folders(folder.parent)
        folder.mkdir(FOLDER_MODE, exist_ok=True)


def free_space(folder: Path) -> str:
    try:
        volume = os.statvfs(folder)
    except OSError:
        return "free_bytes=unknown"
    return f"free_bytes={volume.f_bavail * volume.f_frsize} free_files={volume.f_favail}"


def _write_direct(descriptor: int, parts: Sequence[Buffer]) -> None:
    """Gathers the parts in this thread's aligned buffer; the last, odd bytes go the usual way."""
    buffer = _aligned_buffer()
    filled = 0
    for part in parts:
        rest = memoryview(part).cast("B")
        while len(rest):
            taken = rest[: len(buffer) - filled]
            buffer[filled : filled + len(taken)] = taken
            filled += len(taken)
            rest = rest[len(taken) :]
            if filled == len(buffer):
                _write_aligned(descriptor, buffer)
                filled = 0
    aligned = filled - filled % _ALIGNMENT
    _write_aligned(descriptor, buffer[:aligned])
    set_direct(descriptor, False)
    write_parts(descriptor, [buffer[aligned:filled]])


def _write_aligned(
    descriptor: int,
    buffer: memoryview,
    write: Callable[[int, memoryview], int] = os.write,
) -> None:
    while len(buffer):
        try:
            written = write(descriptor, buffer)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            # Blocks bigger than ours, or an odd short write before: through the cache then.
            set_direct(descriptor, False)
            return write_parts(descriptor, [buffer])
        if written <= 0:
            raise OSError(errno.EIO, "nothing was written")
        buffer = buffer[written:]
    return None


def _aligned_buffer() -> memoryview:
    """A buffer of this thread's own; a mapping begins at a page."""
    if not hasattr(_local, "buffer"):
        _local.buffer = memoryview(mmap.mmap(-1, _DIRECT_BUFFER_BYTES))
    buffer: memoryview = _local.buffer
    return buffer


def _link(source: Path, path: Path, call: Callable[[], None]) -> None:
    try:
        call()
    except OSError as error:
        if error.errno in _LINK_REFUSED:
            raise
        raise OutcomeUnknown(f"link may have been made from={source} to={path}") from error
