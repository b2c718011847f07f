"""Measures requests to a registry: one wrapper around the rows, so each attempt counts.

It adds up their price on DynamoDB too: units by the rows that were sent or received, as
`row_bytes` counts them. Not seen: that a write in a transaction costs twice, and the part of a row
that an update leaves as it is.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from logstore.errors import ConditionFailed
from logstore.ports.clock import Clock
from logstore.ports.registry import WRITE_ID, Condition, Row, RowStore, Value
from logstore.prices import RowUnits, cost_of_rows, read_units, write_units
from logstore.request_times import RequestTimes

WRITE_ID_BYTES = len(WRITE_ID) + 16


@dataclass(slots=True)
class RegistryUnits:
    """DynamoDB's units of all calls so far."""

    reads: int = 0
    writes: int = 0

    def dollars(self) -> float:
        return cost_of_rows(RowUnits(self.writes, self.reads))


class TimedRows:
    """A `RowStore` that measures calls of `rows`."""

    def __init__(
        self, rows: RowStore, times: RequestTimes, units: RegistryUnits, clock: Clock
    ) -> None:
        self._rows = rows
        self._times = times
        self._units = units
        self._clock = clock

    async def get(self, pk: str, sk: str) -> Row | None:
        row: Row | None = None
        with self._times.measure("get", self._clock.monotonic_s):
            row = await self._rows.get(pk, sk)
        self._units.reads += read_units(0 if row is None else row_bytes(pk, sk, row))
        return row

    async def query(
        self, pk: str, prefix: str = "", *, after: str | None = None, limit: int = 1000
    ) -> Sequence[tuple[str, Row]]:
        with self._times.measure("query", self._clock.monotonic_s):
            found = await self._rows.query(pk, prefix, after=after, limit=limit)
        self._units.reads += read_units(sum(row_bytes(pk, sk, row) for sk, row in found))
        return found

    async def put_if(
        self, pk: str, sk: str, row: Row, conditions: Sequence[Condition], write_id: str
    ) -> None:
        with self._times.measure("put", self._clock.monotonic_s), self._writing(pk, sk, row):
            await self._rows.put_if(pk, sk, row, conditions, write_id)

    async def update_if(
        self, pk: str, sk: str, sets: Row, conditions: Sequence[Condition], write_id: str
    ) -> None:
        with self._times.measure("update", self._clock.monotonic_s), self._writing(pk, sk, sets):
            await self._rows.update_if(pk, sk, sets, conditions, write_id)

    async def delete_if(
        self, pk: str, sk: str, conditions: Sequence[Condition], write_id: str
    ) -> None:
        with self._times.measure("delete", self._clock.monotonic_s), self._writing(pk, sk, {}):
            await self._rows.delete_if(pk, sk, conditions, write_id)

    async def close(self) -> None:
        await self._rows.close()

    @contextmanager
    def _writing(self, pk: str, sk: str, row: Row) -> Iterator[None]:
        """A write that was done, or whose condition failed, is billed."""
        try:
            yield
        except ConditionFailed:
            self._units.writes += write_units(row_bytes(pk, sk, row) + WRITE_ID_BYTES)
            raise
        self._units.writes += write_units(row_bytes(pk, sk, row) + WRITE_ID_BYTES)


def row_bytes(pk: str, sk: str, row: Row) -> int:
    """About as DynamoDB counts: names and values; a number takes a byte for two digits, and one."""
    keys = len("pk") + len(pk.encode()) + len("sk") + len(sk.encode())
    return keys + sum(len(name.encode()) + _value_bytes(value) for name, value in row.items())


def _value_bytes(value: Value) -> int:
    if isinstance(value, int):
        return len(str(abs(value))) // 2 + 2
    return len(value.encode() if isinstance(value, str) else value)
