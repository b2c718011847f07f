"""Ports that kill their own process at a named step: nothing is more abrupt than SIGKILL.

    a step        <operation> <what> <when> <nth>, such as `create data before 3`
    operation     create, get: of objects; write: of registry rows
    what          created: opening, data, seal, checkpoint; got: segment, checkpoint; written: the
                  first part of the rows' pk
    when          before: it never reaches the store; after: it has ended, with no answer yet
    nth           the how-many-th such step of this process, counted from when it was armed

Writes of one kind of row are made one at a time while a step waits for them, so that a process can
die between two of them however its steps gather them.
"""

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from logstore.formats.keys import CHAINS, CHECKPOINTS
from logstore.formats.segment import Header, SegmentKind, decode_header
from logstore.ports.objects import Buffer, ObjectInfo, ObjectStore
from logstore.ports.registry import Condition, Registry, Row


@dataclass(frozen=True, slots=True)
class Step:
    operation: str
    what: str
    when: str
    nth: int

    @staticmethod
    def parse(text: str) -> "Step":
        operation, what, when, nth = text.split()
        assert operation in ("create", "get", "write")
        assert when in ("before", "after")
        assert int(nth) >= 1
        return Step(operation, what, when, int(nth))

    def __str__(self) -> str:
        return f"{self.operation} {self.what} {self.when} {self.nth}"


@dataclass(frozen=True, slots=True)
class Death:
    """What a process said as it died."""

    step: str
    at_s: float
    """By the machine's monotonic clock, which all processes share."""
    batches_unanswered: int
    """Batches in frozen segments whose put had not been answered."""

    def save(self, path: Path) -> None:
        facts = {"step": self.step, "at_s": self.at_s, "batches": self.batches_unanswered}
        path.write_text(json.dumps(facts))

    @staticmethod
    def load(path: Path) -> "Death":
        facts = json.loads(path.read_text())
        return Death(facts["step"], facts["at_s"], facts["batches"])


class Fate:
    """Counts the steps of one process and ends it at the chosen one."""

    def __init__(self, step: Step, report: Path) -> None:
        self.step = step
        self.is_armed = False
        self._report = report
        self._seen = 0
        self._batches: dict[str, int] = {}

    def arm(self) -> None:
        self.is_armed = True

    def waits_for(self, operation: str, what: str) -> bool:
        return self.is_armed and (self.step.operation, self.step.what) == (operation, what)

    def reach(self, operation: str, what: str, when: str) -> None:
        if self.waits_for(operation, what) and self.step.when == when:
            self._seen += 1
            if self._seen == self.step.nth:
                self._die()

    def put_begins(self, key: str, header: Header) -> None:
        self._batches[key] = header.entry_count

    def is_there(self, key: str) -> None:
        """Its put is answered, or was seen to be done by a look at what lies there."""
        self._batches.pop(key, None)

    def _die(self) -> NoReturn:
        Death(str(self.step), time.monotonic(), sum(self._batches.values())).save(self._report)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("still alive")


class MortalStore:
    """An `ObjectStore` that may not live to see its calls' outcome."""

    def __init__(self, store: ObjectStore, fate: Fate) -> None:
        self._store = store
        self._fate = fate

    async def create(self, key: str, parts: Sequence[Buffer]) -> None:
        header = _header_of(key, parts)
        what = _what(key, header)
        if header is not None and header.kind is SegmentKind.DATA:
            self._fate.put_begins(key, header)
        self._fate.reach("create", what, "before")
        try:
            await self._store.create(key, parts)
        finally:  # of several attempts the first may have stored it and never been answered
            self._fate.reach("create", what, "after")
        self._fate.is_there(key)

    async def get(self, key: str) -> bytes | memoryview:
        self._fate.reach("get", _what(key, None), "before")
        data = await self._store.get(key)
        self._fate.reach("get", _what(key, None), "after")
        return data

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        self._fate.reach("get", _what(key, None), "before")
        data = await self._store.get_range(key, start, length)
        self._fate.is_there(key)
        self._fate.reach("get", _what(key, None), "after")
        return data

    async def delete(self, key: str) -> None:
        await self._store.delete(key)

    def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        return self._store.list(prefix)

    async def close(self) -> None:
        await self._store.close()


class MortalRegistry:
    """A `Registry` that may not live to see its writes' outcome."""

    def __init__(self, registry: Registry, fate: Fate) -> None:
        self._registry = registry
        self._fate = fate
        self._one_at_a_time = asyncio.Lock()

    async def get(self, pk: str, sk: str) -> Row | None:
        return await self._registry.get(pk, sk)

    async def query(self, pk: str, prefix: str = "") -> Sequence[tuple[str, Row]]:
        return await self._registry.query(pk, prefix)

    async def put_if(self, pk: str, sk: str, row: Row, *conditions: Condition) -> None:
        if not self._is_awaited(pk):
            return await self._registry.put_if(pk, sk, row, *conditions)
        async with self._one_at_a_time:
            self._reach(pk, "before")
            await self._registry.put_if(pk, sk, row, *conditions)
            return self._reach(pk, "after")

    async def update_if(self, pk: str, sk: str, sets: Row, *conditions: Condition) -> None:
        if not self._is_awaited(pk):
            return await self._registry.update_if(pk, sk, sets, *conditions)
        async with self._one_at_a_time:
            self._reach(pk, "before")
            await self._registry.update_if(pk, sk, sets, *conditions)
            return self._reach(pk, "after")

    async def delete_if(self, pk: str, sk: str, *conditions: Condition) -> None:
        await self._registry.delete_if(pk, sk, *conditions)

    async def close(self) -> None:
        await self._registry.close()

    def _is_awaited(self, pk: str) -> bool:
        return self._fate.waits_for("write", _kind_of_row(pk))

    def _reach(self, pk: str, when: str) -> None:
        self._fate.reach("write", _kind_of_row(pk), when)


def _header_of(key: str, parts: Sequence[Buffer]) -> Header | None:
    return decode_header(memoryview(parts[0])) if key.startswith(CHAINS) else None


def _what(key: str, header: Header | None) -> str:
    if header is not None:
        return header.kind.name.lower()
    if key.startswith(CHECKPOINTS):
        return "checkpoint"
    return "segment" if key.startswith(CHAINS) else "other"


def _kind_of_row(pk: str) -> str:
    return pk.partition("/")[0]
