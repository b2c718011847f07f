"""Records what a story does to objects and rows, as lines of text for docs/internals."""

import json
import random
import re
from collections.abc import Mapping, Sequence

from logstore.objects.memory import MemoryObjects, MemoryStore
from logstore.ports.registry import WRITE_ID, Condition, Row
from logstore.registry.memory import MemoryRows
from logstore.registry.retrying import RetryingRegistry
from logstore.runners.step_runner import StepRunner
from logstore.testing.virtual_loop import VirtualClock

PROBES = "probe/"
"""Objects that ask the store for its time: left out."""
ENTRIES, PARQUET = "/_delta_log/", ".parquet"
HIDDEN = {"boot", "by"}
"""Fields of rows that name the machine or the process."""
NUMBER = re.compile(r"(?<![^/=-])\d{6,20}(?![^/.-])")
LINE_MAX = 120


class Transcript:
    """A step runner over `objects` and `rows`, and in `lines` what went through it."""

    def __init__(self, objects: MemoryObjects, rows: MemoryRows) -> None:
        self.lines: list[str] = []
        clock, rng = VirtualClock(), random.Random(0)
        self.store = _RecordedStore(objects, self.lines)
        self.registry = _RecordedRows(rows, self.lines)
        registry = RetryingRegistry(self.registry, lambda: f"{rng.getrandbits(64)}", clock, rng)
        self.runner = StepRunner(self.store, registry, clock, rng, lambda: rng.randbytes(16))

    def say(self, text: str) -> None:
        self.lines += ["", f"# {text}"]


class _RecordedStore(MemoryStore):
    def __init__(self, objects: MemoryObjects, lines: list[str]) -> None:
        super().__init__(objects)
        self._lines = lines

    async def create(self, key: str, parts: Sequence[bytes | bytearray | memoryview]) -> None:
        await super().create(key, parts)
        if ENTRIES in key:
            self._lines.append(f"create  {_short(key)}  {_entry(b''.join(parts))}")
        elif key.endswith(PARQUET):  # how many bytes depends on the version of a library
            self._lines.append(f"create  {_short(key)}")
        elif not key.startswith(PROBES):
            self._lines.append(f"create  {_short(key)}  {sum(map(len, parts))} bytes")

    async def delete(self, key: str) -> None:
        await super().delete(key)
        if not key.startswith(PROBES):
            self._lines.append(f"delete  {_short(key)}")


class _RecordedRows(MemoryRows):
    """Changes the rows of `rows`."""

    def __init__(self, rows: MemoryRows, lines: list[str]) -> None:
        super().__init__()
        self._rows, self._order, self._lines = rows._rows, rows._order, lines

    async def put_if(
        self, pk: str, sk: str, row: Row, conditions: Sequence[Condition], write_id: str
    ) -> None:
        before = self._rows.get((pk, sk), {})
        await super().put_if(pk, sk, row, conditions, write_id)
        self._changed(pk, sk, before)

    async def update_if(
        self, pk: str, sk: str, sets: Row, conditions: Sequence[Condition], write_id: str
    ) -> None:
        before = self._rows.get((pk, sk), {})
        await super().update_if(pk, sk, sets, conditions, write_id)
        self._changed(pk, sk, before)

    async def delete_if(
        self, pk: str, sk: str, conditions: Sequence[Condition], write_id: str
    ) -> None:
        await super().delete_if(pk, sk, conditions, write_id)
        self._lines.append(f"no row  {pk}  {_short(sk)}")

    def _changed(self, pk: str, sk: str, before: Mapping[str, object]) -> None:
        after = self._rows[pk, sk]
        changed = {
            name: value
            for name, value in after.items()
            if before.get(name) != value and name != WRITE_ID and name not in HIDDEN
        }
        if set(changed) - {"heartbeat"}:  # counts up all the time
            fields = [f"{name}={_value(value)}" for name, value in changed.items()]
            self._lines += _wrapped(f"row     {pk}  {_short(sk)}", fields)


def _wrapped(start: str, fields: Sequence[str]) -> list[str]:
    """`start` and `fields` in lines of at most `LINE_MAX` characters, further ones indented."""
    lines = [start]
    for field in fields:
        if len(lines[-1]) + 2 + len(field) > LINE_MAX:
            lines.append(" " * 14 + field)
        else:
            lines[-1] += f"  {field}"
    return lines


def _entry(data: bytes) -> str:
    """What an entry of a table's log does: its operation, and how far each partition goes."""
    actions = [json.loads(line) for line in data.splitlines()]
    operation = next(one["commitInfo"]["operation"] for one in actions if "commitInfo" in one)
    ends = [
        f"end of partition {one['txn']['appId'].rpartition('/')[2]}: {one['txn']['version']}"
        for one in actions
        if "txn" in one
    ]
    return "  ".join([operation, *ends])


def _value(value: object) -> str:
    if isinstance(value, bytes):
        return value.hex() or '""'
    return '""' if value == "" else str(value)


def _short(key: str) -> str:
    """Without leading zeros of numbers."""
    return NUMBER.sub(lambda number: str(int(number.group())), key)
