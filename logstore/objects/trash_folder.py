"""Deleted objects of a directory store, kept for a day beside the others.

    <root>/.trash/<hour>/<n>/<key>    hour: of 3,600 s since 1970, 10 digits; n: 0, or higher if the
                                      same key was deleted before in that hour

No key has a component that starts with a dot, so no list shows these files. To take an object is to
link it there and to remove its name: two system calls and no byte copied, on one file system. It
stays whole under one of both names whenever the power is cut. Nothing is synced, as for any delete.

There is no timer. The process that deletes the first object of an hour removes folders more than a
day old, at most `PURGED_TOGETHER`, the oldest first. So a clock that is set a year ahead takes half
a day to empty the trash.
"""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from logstore.objects.files import FOLDER_MODE, make_folders
from logstore.objects.keys import is_key
from logstore.ports.clock import Clock
from logstore.ports.trash import KEPT_HOURS, DeletedObject

TRASH = ".trash"
PURGED_TOGETHER = 2
SAME_KEY_MAX = 16
"""How often one key is kept in an hour."""

_HOUR_MS = 3_600_000
_HOUR_DIGITS = 10

CANNOT_KEEP = frozenset(
    {
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EXDEV,
        errno.EMLINK,
        errno.EOPNOTSUPP,
        errno.ENAMETOOLONG,
        errno.EROFS,
    }
)
"""Errors that mean that an object can be deleted, and not kept: a full disk must become emptier."""


class TrashFolder:
    """Of the directory store at `root`. Raises `OSError`."""

    def __init__(self, root: Path, clock: Clock) -> None:
        self._root = root
        self._clock = clock
        self._hour = -1  # whose folder is there, as far as this process knows

    def take(self, key: str) -> None:
        """Keeps the object and removes its name. Raises `FileNotFoundError` if there is none."""
        path = self._root / key
        if not path.is_file():
            raise FileNotFoundError(errno.ENOENT, "no object", str(path))
        try:
            self._keep(path, key)
        except OSError as error:
            if error.errno not in CANNOT_KEEP:
                raise
        path.unlink(missing_ok=True)  # renamed, or deleted by another process

    def deleted(self, prefix: str) -> Iterator[DeletedObject]:
        """As `Trash.deleted`; also of keys that an object has now."""
        deleted_objects = [
            one
            for hour in self._hours()
            for one in self._in_hour(hour)
            if one.key.startswith(prefix)
        ]
        deleted_objects.sort(key=lambda one: (one.key, one.modified_ms, one.deleted_ms, one.place))
        return iter(deleted_objects)

    def path_of(self, deleted: DeletedObject) -> Path:
        return self._root / TRASH / deleted.place / deleted.key

    def _keep(self, path: Path, key: str) -> None:
        hour = self._clock.now_ms() // _HOUR_MS
        if hour != self._hour:
            self._begin(hour)
        for number in range(SAME_KEY_MAX):
            target = self._root / TRASH / _folder_of(hour) / str(number) / key
            if _link(path, target):
                return

    def _begin(self, hour: int) -> None:
        """Makes the folder of an hour. The first process that does so purges old ones."""
        folder = self._root / TRASH / _folder_of(hour)
        try:
            make_folders(folder.parent)
            folder.mkdir(FOLDER_MODE)
        except FileExistsError:
            self._hour = hour
            return
        self._hour = hour
        old = [one for one in self._hours() if abs(hour - one) > KEPT_HOURS]
        for one in old[:PURGED_TOGETHER]:
            shutil.rmtree(self._root / TRASH / _folder_of(one), ignore_errors=True)

    def _hours(self) -> list[int]:
        try:
            names = [path.name for path in (self._root / TRASH).iterdir()]
        except FileNotFoundError:
            return []
        return sorted(int(name) for name in names if len(name) == _HOUR_DIGITS and name.isdigit())

    def _in_hour(self, hour: int) -> Iterator[DeletedObject]:
        for number in range(SAME_KEY_MAX):
            place = f"{_folder_of(hour)}/{number}"
            front = self._root / TRASH / place
            for folder, _, names in os.walk(front):
                for name in names:
                    path = Path(folder) / name
                    key = path.relative_to(front).as_posix()
                    with suppress(FileNotFoundError):  # purged since
                        file_stat = path.stat()
                        if is_key(key):
                            modified_ms = file_stat.st_mtime_ns // 1_000_000
                            yield DeletedObject(
                                key, file_stat.st_size, modified_ms, hour * _HOUR_MS, place
                            )


def _folder_of(hour: int) -> str:
    return f"{hour:0{_HOUR_DIGITS}d}"


def _link(path: Path, target: Path) -> bool:
    """False: `target` is taken. Raises `FileNotFoundError` if `path` is gone."""
    make_folders(target.parent)
    try:
        os.link(path, target)
    except FileExistsError:
        return False
    except PermissionError:
        # Linux forbids to link a file of another user (fs.protected_hardlinks), but not to rename
        # it.
        if target.exists():
            return False
        path.rename(target)
    return True
