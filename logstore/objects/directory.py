"""An object store on a local directory: durable, atomic, shared by any number of processes.

    <root>/<key>          one file per object, read-only, never written again
    <root>/.tmp/<name>    unfinished files, only where the system has no unnamed ones
    <root>/.trash/…       what was deleted in the last day (`objects.trash_folder`)

A create writes the whole file, syncs it, gives it its name by link(2) and syncs the folder: a crash
at any point leaves the whole object or none. Folders are made on demand and synced up to the root
at their first use in this process, since their creator may have crashed before doing so. Why
these steps and no others, and their cost: docs/decisions/0001-directory-store-durability.md.

Deliberately missing: no sync after a delete (a deletion undone by a power cut is repeated), and
empty folders stay (removing one races with a create in it). An object is visible some milliseconds
before it is durable, as on any file system; `create` returns only when it is.
"""

import errno
import fcntl
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path

from logstore.errors import (
    AlreadyExists,
    Invalid,
    LogstoreError,
    NoRoom,
    NotFound,
    OutcomeUnknown,
    Refused,
    Retryable,
)
from logstore.objects import files
from logstore.objects.keys import check_key, check_prefix, check_range, folders_of, is_key
from logstore.objects.trash_folder import TRASH, TrashFolder
from logstore.ports.clock import Clock, SystemClock
from logstore.ports.objects import Buffer, ObjectInfo
from logstore.ports.trash import DeletedObject

_TEMPORARY = ".tmp"  # no key has a component that starts with a dot
_FOLDERS_KNOWN_MAX = 100_000

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NO_RIGHT = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_NO_OBJECT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR})
_BAD_KEY = frozenset({errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG})
_NO_UNNAMED = frozenset({errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.EXDEV})


class DirectoryStore:
    """A `BlockingObjectStore` on the local directory `root`, for any number of threads.

    `root` is made by the first create. `unnamed_files=False` makes it use named temporary files
    even where the system has unnamed ones.
    """

    def __init__(
        self,
        root: Path | str,
        *,
        unnamed_files: bool = files.CAN_LINK_UNNAMED,
        clock: Clock | None = None,
    ) -> None:
        self._root = Path(root).absolute()
        self._trash = TrashFolder(self._root, clock or SystemClock())
        self._unnamed_files = unnamed_files
        self._folders_known: set[str] = set()  # made and synced, as far as this process knows
        self._temporary_numbers = count()

    def create(self, key: str, parts: Sequence[Buffer]) -> None:
        check_key(key)
        path = self._root / key
        exists = False
        try:
            self._write_and_link(key, parts)
        except FileExistsError:
            exists = True
        except OSError as error:
            raise self._failure("create", key, error) from error
        try:
            # Also if it existed before: its readers must be able to rely on it.
            files.sync_folder(path.parent)
        except OSError as error:
            raise OutcomeUnknown(f"object may not be durable key={key} error={error}") from error
        if exists and path.is_dir():
            raise Invalid(f"key is a path prefix of another key={key}")
        if exists:
            raise AlreadyExists(f"object exists key={key}")

    def get(self, key: str) -> bytes:
        return self._read(key, 0, sys.maxsize)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        check_range(start, length)
        return self._read(key, start, length)

    def delete(self, key: str) -> None:
        check_key(key)
        try:
            self._trash.take(key)
        except OSError as error:
            if error.errno in _NO_OBJECT:
                return
            raise self._failure("delete", key, error) from error

    def deleted(self, prefix: str) -> Iterator[DeletedObject]:
        """Objects deleted in the last day: `ports.trash.Trash`."""
        check_prefix(prefix)
        try:
            deleted_objects = list(self._trash.deleted(prefix))
        except OSError as error:
            raise self._failure("list deleted", prefix, error) from error
        return (one for one in deleted_objects if not (self._root / one.key).exists())

    def undelete(self, deleted: DeletedObject) -> bool:
        """Gives it its name again; it stays in the trash as well, until that is purged."""
        path = self._root / deleted.key
        try:
            self._make_folder(deleted.key.rpartition("/")[0])
            os.link(self._trash.path_of(deleted), path)
            self._sync(path)
        except FileExistsError:
            return False
        except FileNotFoundError as error:
            raise NotFound(f"no longer in the trash key={deleted.key}") from error
        except OSError as error:
            raise self._failure("undelete", deleted.key, error) from error
        return True

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """Reads one folder at a time; objects created or deleted concurrently may show or not."""
        check_prefix(prefix)
        return self._walk(prefix.rpartition("/")[0], prefix)

    def close(self) -> None:
        """Nothing is held open between calls."""

    def sweep(self) -> int:
        """Removes the unfinished files of writers that died, and says how many there were."""
        try:
            return sum(map(_remove_if_abandoned, (self._root / _TEMPORARY).iterdir()))
        except FileNotFoundError:
            return 0  # no file was ever unfinished here
        except OSError as error:
            raise self._failure("sweep", _TEMPORARY, error) from error

    def _sync(self, path: Path) -> None:
        """Bytes and folder of an object out of the trash, whatever was synced before."""
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            files.sync_data(descriptor)
        finally:
            os.close(descriptor)
        files.sync_folder(path.parent)

    def _write_and_link(self, key: str, parts: Sequence[Buffer]) -> None:
        """Gives a whole, synced file the name of `key`. Raises `FileExistsError`."""
        folder = key.rpartition("/")[0]
        self._make_folder(folder)
        try:
            self._write_and_link_once(self._root / key, parts)
        except FileNotFoundError:
            # The folder was removed since, or a file was swept that was not locked yet.
            self._folders_known.clear()
            self._make_folder(folder)
            self._write_and_link_once(self._root / key, parts)

    def _write_and_link_once(self, path: Path, parts: Sequence[Buffer]) -> None:
        if self._unnamed_files:
            try:
                return _write_unnamed(path, parts)
            except OSError as error:
                if error.errno not in _NO_UNNAMED:
                    raise
            self._unnamed_files = False
        return self._write_named(path, parts)

    def _write_named(self, path: Path, parts: Sequence[Buffer]) -> None:
        temporary, descriptor = self._open_temporary()
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # until closed: not abandoned
            files.write_object(descriptor, parts)
            files.sync_data(descriptor)
            files.link_named(temporary, path)
        finally:
            with suppress(OSError):
                temporary.unlink()  # what stays behind is for `sweep`; the object is not affected
            os.close(descriptor)

    def _open_temporary(self) -> tuple[Path, int]:
        folder = self._root / _TEMPORARY
        with suppress(FileExistsError):
            folder.mkdir(files.FOLDER_MODE)
        while True:  # ends: the numbers go up, and what a dead process left is finite
            path = folder / f"{os.getpid()}-{next(self._temporary_numbers)}"
            with suppress(FileExistsError):
                return path, os.open(
                    path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, files.FILE_MODE
                )

    def _make_folder(self, folder: str) -> None:
        if folder in self._folders_known:
            return
        if len(self._folders_known) >= _FOLDERS_KNOWN_MAX:
            self._folders_known.clear()
        _make_durably(self._root)
        for known in [*folders_of(folder), folder] if folder else []:
            if known not in self._folders_known:
                _make_one_durably(self._root / known)
                self._folders_known.add(known)
        self._folders_known.add(folder)

    def _read(self, key: str, start: int, length: int) -> bytes:
        check_key(key)
        try:
            descriptor = os.open(self._root / key, os.O_RDONLY | os.O_CLOEXEC)
            try:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise NotFound(f"no object key={key}")
                return files.read_at(descriptor, start, length)
            finally:
                os.close(descriptor)
        except OSError as error:
            if error.errno in _NO_OBJECT:
                raise NotFound(f"no object key={key}") from error
            raise self._failure("get", key, error) from error

    def _walk(self, folder: str, prefix: str) -> Iterator[ObjectInfo]:
        for key, is_folder in self._keys_in(folder):
            if is_folder:
                below = f"{key}/"
                if below.startswith(prefix) or prefix.startswith(below):
                    yield from self._walk(key, prefix)
            elif key.startswith(prefix) and (info := self._info(key)) is not None:
                yield info

    def _keys_in(self, folder: str) -> Sequence[tuple[str, bool]]:
        """Entries of `folder`, each with whether it is a folder itself, in the order of keys."""
        try:
            with os.scandir(self._root / folder) as entries:
                names = [(entry.name, entry.is_dir()) for entry in entries]
        except OSError as error:
            if error.errno in _NO_OBJECT:
                return []
            raise self._failure("list", folder, error) from error
        below = f"{folder}/" if folder else ""
        keys = [(below + name, is_folder) for name, is_folder in names if is_key(below + name)]
        # "a/b" comes after "a-b" although "a" comes before it.
        return sorted(keys, key=lambda item: f"{item[0]}/" if item[1] else item[0])

    def _info(self, key: str) -> ObjectInfo | None:
        try:
            file_stat = (self._root / key).stat()
        except FileNotFoundError:
            return None  # deleted since the folder was read
        except OSError as error:
            raise self._failure("list", key, error) from error
        if not stat.S_ISREG(file_stat.st_mode):
            return None
        return ObjectInfo(key, file_stat.st_size, file_stat.st_mtime_ns // 1_000_000)

    def _failure(self, doing: str, key: str, error: OSError) -> LogstoreError:
        """The port's error for one that changed nothing."""
        facts = f"directory={self._root} key={key} error={error.strerror}"
        if error.errno in _NO_ROOM:
            space = files.free_space(self._root)
            return NoRoom(
                f"no room to {doing} {facts} {space}; free some space there: what was deleted in "
                f"the last day lies in {self._root / TRASH}"
            )
        if error.errno in _NO_RIGHT:
            return Refused(f"not allowed to {doing} {facts}; check owner, mode and mount")
        if error.errno in _BAD_KEY:
            return Invalid(f"key is too long, or another is a path prefix of it: {facts}")
        return Retryable(f"cannot {doing} {facts}")


def _write_unnamed(path: Path, parts: Sequence[Buffer]) -> None:
    descriptor = files.open_unnamed(path.parent)
    try:
        files.write_object(descriptor, parts)
        files.sync_data(descriptor)
        files.link_unnamed(descriptor, path)
    finally:
        os.close(descriptor)


def _make_durably(root: Path) -> None:
    """Makes `root` and what is missing above it, and syncs what it made."""
    if root.is_dir():
        return
    if root.parent != root:
        _make_durably(root.parent)
    _make_one_durably(root)


def _make_one_durably(folder: Path) -> None:
    try:
        folder.mkdir(files.FOLDER_MODE)
    except FileExistsError:
        if not folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "not a directory", str(folder)) from None
    files.sync_folder(folder.parent)


def _remove_if_abandoned(temporary: Path) -> bool:
    try:
        descriptor = os.open(temporary, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False  # finished since the folder was read
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        temporary.unlink(missing_ok=True)
    except BlockingIOError:
        return False  # its writer lives
    finally:
        os.close(descriptor)
    return True
