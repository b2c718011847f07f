"""An object store that misbehaves as S3 may, on the virtual loop; every choice from one `Random`.

    put     lost            the outcome is "unknown", nothing happened
            answer lost     the outcome is "unknown", it happened
            late            the outcome is "unknown", it happens up to `late_max_s` later,
                            whatever became of the caller
            doubled         it happens twice; the caller hears of either
            conflict        "already exists" with nothing there: a 409 in disguise
            throttled       nothing happened
    get     failed          throttled, refused for now, or "unknown"
            short, flipped  fewer bytes than asked, or one bit wrong

Requests take time on their way and answers on theirs. A request that was sent belongs to no
process: it goes on when its sender dies.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextvars import Context
from hashlib import blake2b
from typing import TypeVar

from logstore.errors import (
    AlreadyExists,
    LogstoreError,
    NotFound,
    OutcomeUnknown,
    Retryable,
    Throttled,
)
from logstore.formats.segment import IDENTITY_BYTES, SegmentKind
from logstore.formats.topic_record import TOPICS
from logstore.objects.fault_draws import StoreFaults as StoreFaults
from logstore.objects.fault_draws import draw_fault, spoiled
from logstore.objects.memory import MemoryObjects
from logstore.ports.objects import Buffer, ObjectInfo
from logstore.testing.process_loop import PROCESS, charge_bytes

T = TypeVar("T")

KIND_AT = 6


class SimulatedStore:
    """An `ObjectStore`. `seen` counts what happened; `trace` tells it in order."""

    def __init__(
        self,
        objects: MemoryObjects,
        rng: random.Random,
        faults: StoreFaults,
        seen: Counter[str],
        trace: Callable[[str], None],
    ) -> None:
        self.faults = faults
        self.violations: list[str] = []
        self._objects = objects
        self._rng = rng
        self._seen = seen
        self._trace = trace
        self._sent: dict[tuple[str, bytes], bytes] = {}

    async def create(self, key: str, parts: Sequence[Buffer]) -> None:
        data = b"".join(parts)
        charge_bytes(2 * len(data))  # built and summed up, and joined
        self._check_frozen(key, data)
        fault = self._draw_fault(self.faults.of_puts())
        self._trace(f"create {key} {fault or 'ok'}")
        there_s, timeout_s = self._latency_s(), self.faults.timeout_s
        unknown = OutcomeUnknown(f"time-out key={key}")

        def land() -> LogstoreError | None:
            return self._land(key, data)

        match fault:
            case "put lost":
                await self._answer(timeout_s, unknown)
            case "put answer lost":
                later(there_s, land)
                await self._answer(max(timeout_s, there_s), unknown)
            case "put late":
                late_s = timeout_s + self._rng.uniform(0, self.faults.late_max_s)
                later(late_s, self._landing_late(key, data))
                await self._answer(timeout_s, unknown)
            case "put conflict":
                await self._answer(there_s, AlreadyExists(f"conflict key={key}"), key, data)
            case "put throttled":
                await self._answer(there_s, Throttled(f"slow down key={key}"))
            case "put doubled":
                first = self._ask(there_s, land)
                second = self._ask(there_s + self._latency_s(), land)
                error = await (first if self._rng.random() < 0.5 else second)
                self._raise(error, key, data)
            case _:
                self._raise(await self._ask(there_s, land), key, data)

    def _landing_late(self, key: str, data: bytes) -> Callable[[], None]:
        """The effect of a put that arrives after its sender got "unknown"."""
        sender = PROCESS.get(None)

        def land_late() -> None:
            if self._land(key, data) is None:
                self._seen["late put landed"] += 1
                if sender is not None and sender.is_dead:
                    self._seen["put landed after its process died"] += 1
            elif self._is_seal(key):
                self._seen["late put met a seal"] += 1

        return land_late

    async def get(self, key: str) -> bytes:
        return await self._read(key, lambda: self._objects.get(key))

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        return await self._read(key, lambda: self._objects.get_range(key, start, length))

    async def delete(self, key: str) -> None:
        await self._ask(self._latency_s(), lambda: self._objects.delete(key))

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        await self._begin_read(f"list {prefix}", prefix)
        for info in await self._ask(self._latency_s(), lambda: list(self._objects.list(prefix))):
            yield info

    async def close(self) -> None:
        """Keeps the objects."""

    async def _read(self, key: str, read: Callable[[], bytes]) -> bytes:
        fault = await self._begin_read(f"get {key}", key)

        def look() -> bytes | NotFound:
            try:
                return read()
            except NotFound as error:
                return error

        data = await self._ask(self._latency_s(), look)
        if isinstance(data, NotFound):
            raise data
        charge_bytes(2 * len(data))
        return spoiled(data, fault, self._rng)

    async def _begin_read(self, what: str, key: str) -> str | None:
        """Raises what a read is refused with; else the fault that is yet to be played."""
        fault = self._draw_fault(self.faults.of_gets())
        self._trace(f"{what} {fault or 'ok'}")
        if fault == "get failed":
            if self._rng.random() < 0.5:
                await self._answer(self.faults.timeout_s, OutcomeUnknown(f"time-out key={key}"))
            await self._answer(self._latency_s(), Retryable(f"not now key={key}"))
        if fault == "get throttled":
            await self._answer(self._latency_s(), Throttled(f"slow down key={key}"))
        return fault

    # What happens in the store

    def _land(self, key: str, data: bytes) -> LogstoreError | None:
        try:
            self._objects.create(key, [data])
        except AlreadyExists as error:
            return error
        self._trace(f"landed {key} {blake2b(data, digest_size=8).hexdigest()}")
        return None

    def _is_seal(self, key: str) -> bool:
        data = self._objects.get(key)
        return key.startswith("chains/") and data[KIND_AT] == SegmentKind.SEAL

    def _raise(self, error: LogstoreError | None, key: str, data: bytes) -> None:
        if error is not None:
            self._seen_conflict(key, data)
            raise error

    def _seen_conflict(self, key: str, data: bytes) -> None:
        """Count the reason for an "already exists"."""
        try:
            there = self._objects.get(key)
        except NotFound:
            self._seen["answered exists, and absent"] += 1
            return
        if not key.startswith("chains/"):
            return
        if there == data:
            self._seen["own put met again"] += 1
        elif data[KIND_AT] == SegmentKind.DATA and there[KIND_AT] == SegmentKind.SEAL:
            self._seen["segment met a seal"] += 1
        elif data[KIND_AT] == SegmentKind.SEAL and there[KIND_AT] == SegmentKind.DATA:
            self._seen["seal met a segment"] += 1
        elif data[KIND_AT] == SegmentKind.SEAL and there[KIND_AT] == SegmentKind.SEAL:
            self._seen["seal met a seal"] += 1
        elif data[KIND_AT] == SegmentKind.OPENING:
            self._seen["opening met an opening"] += 1

    def _check_frozen(self, key: str, data: bytes) -> None:
        """Safety rule 2: what carries one identity has the same bytes at every attempt."""
        if key.startswith(TOPICS):
            return  # a record has no header: of two growths at once both may try one version
        digest = blake2b(data, digest_size=16).digest()
        if self._sent.setdefault((key, data[:IDENTITY_BYTES]), digest) != digest:
            self.violations.append(f"rule 2: other bytes under one identity key={key}")

    # Chance and time

    def _draw_fault(self, kinds: Mapping[str, float]) -> str | None:
        kind = draw_fault(kinds, self._rng)
        if kind is not None:
            self._seen[kind] += 1
        return kind

    def _latency_s(self) -> float:
        faults = self.faults
        if faults.slow and self._rng.random() < faults.slow:
            self._seen["slow"] += 1
            return self._rng.uniform(0, faults.slow_max_s)
        return self._rng.uniform(0.0005, faults.latency_max_s)

    async def _answer(
        self, after_s: float, error: LogstoreError, key: str = "", data: bytes = b""
    ) -> None:
        await self._ask(after_s, lambda: None)
        if key:
            self._seen_conflict(key, data)
        raise error

    def _ask(self, there_s: float, act: Callable[[], T]) -> "asyncio.Future[T]":
        """The answer to a request that arrives after `there_s`; its way back takes time too."""
        return ask(there_s, self._latency_s() if there_s else 0.0, act)


def ask(there_s: float, back_s: float, act: Callable[[], T]) -> "asyncio.Future[T]":
    """Have `act` done after `there_s` outside all processes, and its result `back_s` later."""
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def arrive() -> None:
        result = act()
        later(back_s, lambda: None if future.done() else future.set_result(result))

    later(there_s, arrive)
    return future


def later(seconds: float, act: Callable[[], object]) -> None:
    """Do it after `seconds`, whichever process dies until then."""
    asyncio.get_running_loop().call_later(seconds, act, context=Context())
