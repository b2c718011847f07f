"""A store whose reads are asked for again, for some six seconds, when what is wrong may pass."""

import random
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from logstore.clock import blocking_sleep_s
from logstore.errors import Denied, OutcomeUnknown, Retryable
from logstore.objects.store import BlockingObjectStore, Buffer, ObjectInfo
from logstore.perform import back_off_seconds

T = TypeVar("T")

ATTEMPTS_MAX = 8


class PatientReads:
    """`BlockingObjectStore` for readers of ranges; what changes the store is passed on once."""

    def __init__(
        self, store: BlockingObjectStore, sleep_s: Callable[[float], None] = blocking_sleep_s
    ) -> None:
        self._store = store
        self._sleep_s = sleep_s
        self._chance = random.Random()

    def create(self, key: str, parts: Sequence[Buffer]) -> None:
        self._store.create(key, parts)

    def get(self, key: str) -> bytes:
        return self._patiently(lambda: self._store.get(key))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._patiently(lambda: self._store.get_range(key, start, length))

    def delete(self, key: str) -> None:
        self._store.delete(key)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        return self._store.list(prefix)

    def close(self) -> None:
        self._store.close()

    def _patiently(self, call: Callable[[], T]) -> T:
        for attempt in range(1, ATTEMPTS_MAX):
            try:
                return call()
            except Denied:
                raise  # no wait mends that
            except (Retryable, OutcomeUnknown):
                self._sleep_s(back_off_seconds(attempt, self._chance))
        return call()
