"""A row store that misbehaves as DynamoDB may, on the virtual loop; every choice from one `Random`.

throttled      nothing happened
lost           the outcome is "unknown", nothing happened
answer lost    the outcome is "unknown", a write happened
late           the outcome is "unknown", the write is tried up to `late_max_s` later
"""

import random
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from logstore.errors import ConditionFailed, LogstoreError, OutcomeUnknown, Throttled
from logstore.ports.registry import Condition, Row
from logstore.registry.memory import MemoryRows
from logstore.testing.process_loop import PROCESS
from logstore.testing.simulated_store import ask, later

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFaults:
    """Chances, each for one attempt. The default is a registry in good health."""

    throttled: float = 0.0
    lost: float = 0.0
    answer_lost: float = 0.0
    late: float = 0.0
    slow: float = 0.0
    latency_max_s: float = 0.01
    slow_max_s: float = 3.0
    timeout_s: float = 1.0
    late_max_s: float = 20.0


def _write_faults(faults: RowFaults) -> dict[str, float]:
    return {
        "row throttled": faults.throttled,
        "row lost": faults.lost,
        "row answer lost": faults.answer_lost,
        "row late": faults.late,
    }


class SimulatedRows:
    """A `RowStore` on `MemoryRows`."""

    def __init__(
        self,
        rows: MemoryRows,
        rng: random.Random,
        faults: RowFaults,
        seen: Counter[str],
        trace: Callable[[str], None],
    ) -> None:
        self.faults = faults
        self._rows = rows
        self._rng = rng
        self._seen = seen
        self._trace = trace

    async def get(self, pk: str, sk: str) -> Row | None:
        return await self._read(lambda: self._rows.get(pk, sk))

    async def query(
        self, pk: str, prefix: str = "", *, after: str | None = None, limit: int = 1000
    ) -> Sequence[tuple[str, Row]]:
        return await self._read(lambda: self._rows.query(pk, prefix, after=after, limit=limit))

    async def put_if(
        self, pk: str, sk: str, row: Row, conditions: Sequence[Condition], write_id: str
    ) -> None:
        await self._write(
            f"put row {pk} {sk}", lambda: self._rows.put_if(pk, sk, row, conditions, write_id)
        )

    async def update_if(
        self, pk: str, sk: str, sets: Row, conditions: Sequence[Condition], write_id: str
    ) -> None:
        await self._write(
            f"update row {pk} {sk}",
            lambda: self._rows.update_if(pk, sk, sets, conditions, write_id),
        )

    async def delete_if(
        self, pk: str, sk: str, conditions: Sequence[Condition], write_id: str
    ) -> None:
        await self._write(
            f"delete row {pk} {sk}", lambda: self._rows.delete_if(pk, sk, conditions, write_id)
        )

    async def close(self) -> None:
        """Keeps the rows."""

    async def _read(self, act: Callable[[], Coroutine[Any, Any, T]]) -> T:
        fault = self._draw_fault({"row throttled": self.faults.throttled})
        if fault:
            await ask(self._latency_s(), 0, lambda: None)
            raise Throttled("slow down")
        return await ask(self._latency_s(), self._latency_s(), lambda: at_once(act()))

    async def _write(self, what: str, act: Callable[[], Coroutine[Any, Any, None]]) -> None:
        fault = self._draw_fault(_write_faults(self.faults))
        self._trace(f"{what} {fault or 'ok'}")
        there_s, timeout_s = self._latency_s(), self.faults.timeout_s

        def land() -> LogstoreError | None:
            try:
                at_once(act())
            except ConditionFailed as error:
                return error
            self._trace(f"landed {what}")
            return None

        if fault == "row throttled":
            await ask(there_s, 0, lambda: None)
            raise Throttled("slow down")
        if fault is None:
            error = await ask(there_s, self._latency_s(), land)
            if error is not None:
                raise error
            return
        if fault == "row answer lost":
            later(there_s, land)
        elif fault == "row late":
            late_s = timeout_s + self._rng.uniform(0, self.faults.late_max_s)
            later(late_s, self._landing_late(land))
        await ask(max(there_s, timeout_s), 0, lambda: None)
        raise OutcomeUnknown(f"time-out: {what}")

    def _landing_late(self, land: Callable[[], LogstoreError | None]) -> Callable[[], None]:
        sender = PROCESS.get(None)

        def land_late() -> None:
            if land() is None:
                self._seen["late row landed"] += 1
                if sender is not None and sender.is_dead:
                    self._seen["row landed after its process died"] += 1

        return land_late

    def _draw_fault(self, kinds: dict[str, float]) -> str | None:
        point = self._rng.random()
        for kind, rng in kinds.items():
            point -= rng
            if point < 0:
                self._seen[kind] += 1
                return kind
        return None

    def _latency_s(self) -> float:
        if self.faults.slow and self._rng.random() < self.faults.slow:
            self._seen["row slow"] += 1
            return self._rng.uniform(0, self.faults.slow_max_s)
        return self._rng.uniform(0.0005, self.faults.latency_max_s)


def at_once(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError("it waited")
