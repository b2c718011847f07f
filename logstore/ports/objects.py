"""The object store port: what logstore needs of S3, and no more.

Keys are `/`-separated ASCII paths; no key is a path prefix of another. Objects never change once
created. There is no overwrite: `create` is the only way to put bytes.

Errors of every call: `Retryable` (nothing happened), `Throttled`, `OutcomeUnknown` (a time-out or a
broken connection: it may have happened, or may happen yet), `Denied` (credentials, permissions; it
may be put right while one waits), `Refused` (a wrong bucket, a store that cannot do what is asked).
Implementations do not retry by themselves; `protocol.chain.put` says when the same bytes are sent
again.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

Buffer = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    key: str
    size_bytes: int
    modified_ms: int


class ObjectStore(Protocol):
    """The asynchronous port: brokers."""

    async def create(self, key: str, parts: Sequence[Buffer]) -> None:
        """Put the concatenated `parts` if no object has `key`; durable when it returns.

        The caller keeps `parts` unchanged until the call has ended. Raises `AlreadyExists`: an
        object is there, or, on stores that answer 409 to a race, nothing is; the caller looks.
        """
        ...

    async def get(self, key: str) -> bytes | memoryview:
        """The whole object, in the buffer that it was received in. Raises `NotFound`."""
        ...

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        """Bytes [start, start + length), fewer where the object ends. Raises `NotFound`."""
        ...

    async def delete(self, key: str) -> None:
        """Remove the object; no error when there is none."""
        ...

    def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        """Every object whose key starts with `prefix`, in key order. For tools only."""
        ...

    async def close(self) -> None: ...


class BlockingObjectStore(Protocol):
    """The same port, blocking: Spark workers and tools."""

    def create(self, key: str, parts: Sequence[Buffer]) -> None: ...

    def get(self, key: str) -> bytes: ...

    def get_range(self, key: str, start: int, length: int) -> bytes: ...

    def delete(self, key: str) -> None: ...

    def list(self, prefix: str) -> Iterator[ObjectInfo]: ...

    def close(self) -> None: ...
