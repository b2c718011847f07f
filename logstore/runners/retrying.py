"""A log's store for tables: what fails for a moment is tried again.

A created object is never guessed about: the same bytes go under the same key until the outcome is
known (docs/decisions/0005-obstore-and-own-retries.md).
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from logstore.ports.clock import blocking_sleep_s
from logstore.ports.objects import BlockingObjectStore, Buffer, ObjectInfo
from logstore.protocol.chain.put import create_equal, create_parts_settled
from logstore.protocol.steps import Create, Request
from logstore.retry import RetryDelays, retry
from logstore.runners.step_runner import BlockingStepRunner

ATTEMPTS_MAX = 8
_DELAYS = RetryDelays(attempts_max=ATTEMPTS_MAX)

_Answer = TypeVar("_Answer")


class RetryingStore:
    """Calls on `store`, each tried up to 8 times, over some seconds; `Denied` is raised at once."""

    def __init__(
        self,
        store: BlockingObjectStore,
        rng: random.Random | None = None,
        sleep_s: Callable[[float], None] = blocking_sleep_s,
    ) -> None:
        self._store = store
        self._rng = rng or random.Random()
        self._sleep_s = sleep_s

    @classmethod
    def of(cls, store: BlockingObjectStore) -> "RetryingStore":
        """`store` itself, if it is patient already."""
        return store if isinstance(store, cls) else cls(store)

    def create(self, key: str, parts: Sequence[Buffer]) -> None:
        """One attempt: the caller handles a failure."""
        self._store.create(key, parts)

    def get(self, key: str) -> bytes:
        return self._retry(lambda: self._store.get(key))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._retry(lambda: self._store.get_range(key, start, length))

    def delete(self, key: str) -> None:
        self._retry(lambda: self._store.delete(key))

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        return iter(self._retry(lambda: list(self._store.list(prefix))))

    def create_equal(self, key: str, data: Buffer) -> bool:
        """Whether the object under `key` has these bytes now. Raises as stores do."""
        runner = _CreatingStepRunner(self._store, None, self._rng, (), self._sleep_s)
        return runner.run(create_equal(key, data, attempts_max=ATTEMPTS_MAX))  # type: ignore[arg-type]

    def create_settled(self, key: str, parts: Sequence[Buffer]) -> None:
        """Create an object whose content its key determines; one that is there is as good."""
        runner = _CreatingStepRunner(self._store, None, self._rng, (), self._sleep_s)
        runner.run(create_parts_settled(key, parts, attempts_max=ATTEMPTS_MAX))

    def close(self) -> None:
        self._store.close()

    def _retry(self, call: Callable[[], _Answer]) -> _Answer:
        return retry(call, _DELAYS, self._rng, sleep_s=self._sleep_s)


@dataclass(frozen=True, slots=True)
class _CreatingStepRunner(BlockingStepRunner):
    """A reader's, that creates as well."""

    def _perform(self, request: Request) -> Any:
        if isinstance(request, Create):
            return self.store.create(request.key, request.parts)
        return BlockingStepRunner._perform(self, request)
