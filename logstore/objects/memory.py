"""An object store in memory: the simplest thing that keeps the port's promises.

`MemoryObjects` is the data and the blocking port, for any number of threads. `MemoryStore` is an
asynchronous view of it: no thread, no wait, so each call is one step of the event loop and the same
on a loop with virtual time. Views of one `MemoryObjects` are clients of one store.

Unlike S3 it refuses a key that is a path prefix of another, as a directory must.
"""

import threading
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass

from logstore.errors import AlreadyExists, Invalid, NotFound
from logstore.objects.keys import check_key, check_prefix, check_range, folders_of
from logstore.ports.clock import Clock
from logstore.ports.objects import Buffer, ObjectInfo
from logstore.ports.trash import KEPT_HOURS, DeletedObject

_KEPT_MS = KEPT_HOURS * 3_600_000


@dataclass(frozen=True, slots=True)
class _Stored:
    data: bytes
    modified_ms: int


class MemoryObjects:
    """The stored objects, and a `BlockingObjectStore` on them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._objects: dict[str, _Stored] = {}
        self._folders: Counter[str] = Counter()  # how many keys lie below each path prefix
        self._trash: deque[tuple[DeletedObject, _Stored]] = deque()  # as they were deleted
        self._deleted_count = 0

    def create(self, key: str, parts: Sequence[Buffer]) -> None:
        check_key(key)
        stored = _Stored(b"".join(parts), self._clock.now_ms())
        folders = folders_of(key)
        with self._lock:
            if key in self._objects:
                raise AlreadyExists(f"object exists key={key}")
            if key in self._folders or any(folder in self._objects for folder in folders):
                raise Invalid(f"key is a path prefix of another, or another of it key={key}")
            self._objects[key] = stored
            self._folders.update(folders)

    def get(self, key: str) -> bytes:
        check_key(key)
        with self._lock:
            stored = self._objects.get(key)
        if stored is None:
            raise NotFound(f"no object key={key}")
        return stored.data

    def get_range(self, key: str, start: int, length: int) -> bytes:
        check_range(start, length)
        return self.get(key)[start : start + length]

    def delete(self, key: str) -> None:
        check_key(key)
        with self._lock:
            stored = self._objects.pop(key, None)
            if stored is not None:
                self._folders -= Counter(folders_of(key))  # forgets a folder that fell to zero
                self._keep(key, stored)

    def deleted(self, prefix: str) -> Iterator[DeletedObject]:
        """Objects deleted in the last day: `ports.trash.Trash`."""
        check_prefix(prefix)
        with self._lock:
            deleted_objects = [
                one
                for one, _ in self._trash
                if one.key.startswith(prefix) and one.key not in self._objects
            ]
        deleted_objects.sort(key=lambda one: (one.key, one.modified_ms, one.deleted_ms))
        return iter(deleted_objects)

    def undelete(self, deleted: DeletedObject) -> bool:
        with self._lock:
            kept = [stored for one, stored in self._trash if one == deleted]
        if not kept:
            raise NotFound(f"no longer in the trash key={deleted.key}")
        try:
            self.create(deleted.key, [kept[0].data])
        except AlreadyExists:
            return False
        return True

    def _keep(self, key: str, stored: _Stored) -> None:
        now_ms = self._clock.now_ms()
        while self._trash and self._trash[0][0].deleted_ms < now_ms - _KEPT_MS:
            self._trash.popleft()
        self._deleted_count += 1
        place = str(self._deleted_count)
        one = DeletedObject(key, len(stored.data), stored.modified_ms, now_ms, place)
        self._trash.append((one, stored))

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """As of the moment of the call; later changes do not show."""
        check_prefix(prefix)
        with self._lock:
            stored_by_key = [
                (key, stored) for key, stored in self._objects.items() if key.startswith(prefix)
            ]
        stored_by_key.sort(key=lambda item: item[0])
        return iter([ObjectInfo(key, len(s.data), s.modified_ms) for key, s in stored_by_key])

    def close(self) -> None:
        """Keeps the objects: another view may hold them."""


class MemoryStore:
    """An asynchronous client of a `MemoryObjects`."""

    def __init__(self, objects: MemoryObjects) -> None:
        self._objects = objects

    async def create(self, key: str, parts: Sequence[Buffer]) -> None:
        self._objects.create(key, parts)

    async def get(self, key: str) -> bytes:
        return self._objects.get(key)

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._objects.get_range(key, start, length)

    async def delete(self, key: str) -> None:
        self._objects.delete(key)

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        for info in self._objects.list(prefix):
            yield info

    async def close(self) -> None:
        self._objects.close()
