"""A registry that counts its requests: calls by kind, and the units DynamoDB would bill.

A call is counted when it ends, however it ends: a failed condition is billed like a success. Not
seen: what a retry inside the registry costs; that DynamoDB bills a write in a transaction twice;
what an update leaves of the rest of its row, below one unit for every row that is updated all the
time.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from logstore.ports.registry import Condition, Registry, Row
from logstore.prices import read_units, write_units
from logstore.registry.timed import WRITE_ID_BYTES, row_bytes


@dataclass(slots=True)
class RegistryCounts:
    """By kind of call: how many, and their units."""

    calls: dict[str, int] = field(default_factory=dict)
    units: dict[str, int] = field(default_factory=dict)

    def add(self, kind: str, units: int) -> None:
        self.calls[kind] = self.calls.get(kind, 0) + 1
        self.units[kind] = self.units.get(kind, 0) + units


class CountedRegistry:
    """A `Registry` that passes everything on to `registry`."""

    def __init__(self, registry: Registry) -> None:
        self.counts = RegistryCounts()
        self._registry = registry

    async def get(self, pk: str, sk: str) -> Row | None:
        row: Row | None = None
        try:
            row = await self._registry.get(pk, sk)
        finally:
            self.counts.add("get", read_units(0 if row is None else row_bytes(pk, sk, row)))
        return row

    async def query(self, pk: str, prefix: str = "") -> Sequence[tuple[str, Row]]:
        """Billed by the bytes of all rows together."""
        found: Sequence[tuple[str, Row]] = ()
        try:
            found = await self._registry.query(pk, prefix)
        finally:
            size = sum(row_bytes(pk, sk, row) for sk, row in found)
            self.counts.add("query", read_units(size))
        return found

    async def put_if(self, pk: str, sk: str, row: Row, *conditions: Condition) -> None:
        try:
            await self._registry.put_if(pk, sk, row, *conditions)
        finally:
            self.counts.add("put", write_units(row_bytes(pk, sk, row) + WRITE_ID_BYTES))

    async def update_if(self, pk: str, sk: str, sets: Row, *conditions: Condition) -> None:
        try:
            await self._registry.update_if(pk, sk, sets, *conditions)
        finally:
            self.counts.add("update", write_units(row_bytes(pk, sk, sets) + WRITE_ID_BYTES))

    async def delete_if(self, pk: str, sk: str, *conditions: Condition) -> None:
        try:
            await self._registry.delete_if(pk, sk, *conditions)
        finally:
            self.counts.add("delete", write_units(0))

    async def close(self) -> None:
        await self._registry.close()
