"""A compacted topic through simulated hours, a share of its keys written again in each.

The real code on a store in memory and a virtual clock: a broker's life each hour, and then a run of
`logstore compact`. Keys are as many at the end of each hour as at its beginning: for each key that
is deleted a new one comes.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from logstore.compaction.compactor import Compactor
from logstore.compaction.decisions.clean_objects import COMPACTION
from logstore.compaction.decisions.summary import TopicSummary
from logstore.compaction.local import LocalCarrier
from logstore.compaction.session import RunOptions
from logstore.epoch.log import Log
from logstore.history.forms.snapshot import Snapshot
from logstore.history.read import read_rows
from logstore.objects.memory import MemoryStore
from logstore.ports.objects import Buffer
from logstore.records.batch import check_batch
from logstore.records.encode import encode_batch
from logstore.records.record import Record
from logstore.testing.blocking_ports import BlockingRows
from logstore.testing.process_loop import Process, run_blocking, simulate
from logstore.testing.virtual_loop import VirtualClock
from tests.logstore.written import WrittenLog, committed
from tests.simulation.tiers.stage import staged
from tests.simulation.tiers.tables import URL, open_tables
from tests.simulation.tiers.world import OUTSIDE

TOPIC = "state"
HOUR_S = 3600.0
BATCH_RECORDS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Churn:
    """`share` of the keys are written in each hour, `deleted` of these get a tombstone."""

    keys: int = 20_000
    value_bytes: int = 200
    hours: int = 24
    share: float = 0.01
    deleted: float = 0.1
    tombstone_hours: int = 4
    seed: int = 1

    @property
    def configs(self) -> dict[str, str]:
        """So that each hour's records are compacted when the hour is over."""
        return {
            "cleanup.policy": "compact",
            "min.cleanable.dirty.ratio": "0.001",
            "delete.retention.ms": str(int(self.tombstone_hours * HOUR_S * 1000)),
        }


@dataclass(slots=True, kw_only=True)
class Churned:
    """Figures of all hours. Bytes as stored; rows are about as large as each other.

    `died_bytes`: of rows that a newer one replaced and of tombstones whose time is over, whether
    they are still there or not. `written_bytes`: all that key compaction wrote, its files in the
    table and its objects between tasks.
    """

    runs: int = 0
    died_bytes: int = 0
    written_bytes: int = 0
    dropped_rows: int = 0
    dropped_tombstones: int = 0
    table_rows: int = 0
    live_keys: int = 0
    state_is_right: bool = False

    @property
    def written_per_died(self) -> float:
        return self.written_bytes / self.died_bytes

    @property
    def rows_per_live_key(self) -> float:
        return self.table_rows / self.live_keys


def churned(churn: Churn) -> Churned:
    return simulate(_Hours(churn).go())


class _Hours:
    def __init__(self, churn: Churn) -> None:
        self._churn = churn
        self._rng = random.Random(churn.seed)
        self._written = WrittenLog(checkpoint_segments=64)
        self._objects = _CountedObjects(self._written)
        self._state: dict[bytes, bytes] = {}
        self._next_key = 0
        self._topic_id = b""
        self._figures = Churned()

    async def go(self) -> Churned:
        await self._hour([self._new() for _ in range(self._churn.keys)])
        self._objects.compaction_bytes = 0
        base = self._snapshot()
        row_bytes = sum(file.size_bytes for file in base.all_files()) / self._churn.keys
        died = 0
        self._figures = Churned()
        for _ in range(self._churn.hours):
            records = self._churned()
            # Each record but those of new keys replaces one.
            died += sum(1 for _, value, is_new in records if not is_new)
            await self._hour([(key, value) for key, value, _ in records])
        figures, last = self._figures, self._snapshot()
        died += figures.dropped_tombstones
        figures.died_bytes = int(died * row_bytes)
        figures.written_bytes += self._objects.compaction_bytes
        figures.table_rows = sum(file.rows for file in last.all_files())
        figures.live_keys = len(self._state)
        figures.state_is_right = self._rebuilt(last) == self._state
        return figures

    def _new(self) -> tuple[bytes, bytes]:
        self._next_key += 1
        key, value = b"key-%012d" % self._next_key, self._value()
        self._state[key] = value
        return key, value

    def _value(self) -> bytes:
        return self._rng.randbytes(self._churn.value_bytes)

    def _churned(self) -> list[tuple[bytes, bytes | None, bool]]:
        """Key, value, and whether the key is new."""
        churn, records = self._churn, list[tuple[bytes, bytes | None, bool]]()
        count = int(churn.keys * churn.share)
        for number, key in enumerate(self._rng.sample(sorted(self._state), count)):
            if number < count * churn.deleted:
                del self._state[key]
                records += [(key, None, False), (*self._new(), True)]
            else:
                self._state[key] = self._value()
                records.append((key, self._state[key], False))
        return records

    async def _hour(self, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        async with self._written.life() as log:
            if not self._topic_id:
                topic = await log.create_topic(TOPIC, 1, self._churn.configs)
                self._topic_id = topic.topic_id
            await self._write(log, records)
        await VirtualClock().sleep_s(HOUR_S)
        with staged(self._world()):
            summary = await self._run()
        self._figures.runs += 1
        self._figures.written_bytes += summary.rewritten_bytes
        self._figures.dropped_rows += summary.dropped_rows
        self._figures.dropped_tombstones += summary.dropped_tombstones

    async def _write(self, log: Log, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        leader, now_ms = log.topics[TOPIC].leaders[0], VirtualClock().now_ms()
        seq = 0
        for first in range(0, len(records), BATCH_RECORDS):
            some = records[first : first + BATCH_RECORDS]
            batch = [Record(n, now_ms, key, value) for n, (key, value) in enumerate(some)]
            data = memoryview(encode_batch(batch))
            seq = leader.append(data, check_batch(data, 0, len(data))).seq
        await committed(log, seq)

    async def _run(self) -> TopicSummary:
        summaries: list[TopicSummary] = []

        def compact() -> None:
            compactor = Compactor(URL, {}, LocalCarrier(URL, {}, 1), clock=VirtualClock())
            summary = compactor.run(RunOptions())
            compactor.close()
            assert not summary.errors, summary.errors
            summaries.append(summary.topics[TOPIC])

        await Process("compaction").spawn(run_blocking(compact))
        return summaries[0]

    def _snapshot(self) -> Snapshot:
        snapshot = open_tables(self._written.objects).snapshot(self._topic_id)
        assert snapshot is not None
        return snapshot

    def _rebuilt(self, snapshot: Snapshot) -> dict[bytes, bytes]:
        """What a reader of the table from its beginning ends up with."""
        state: dict[bytes, bytes] = {}
        files, end = snapshot.files_for(0, 0, 2**62), snapshot.end(0) or 0
        columns = ("offset", "key", "value")
        for rows in read_rows(self._written.objects, self._topic_id, files, 0, 0, end, columns):
            for key, value in zip(
                rows.column("key").to_pylist(), rows.column("value").to_pylist(), strict=True
            ):
                state.pop(key, None) if value is None else state.__setitem__(key, value)
        return state

    def _world(self) -> Any:
        """As much of a simulated world as `staged` needs: its stores and random numbers."""
        registry = self._written.rows

        class Rows:
            def __getattr__(self, name: str) -> Any:
                return getattr(registry, name)

            def blocking(self) -> BlockingRows:
                return BlockingRows(registry)

        return SimpleNamespace(
            rng=self._rng,
            stores={OUTSIDE: self._objects},
            registries={OUTSIDE: Rows()},
            ahead_ms=lambda process: 0,
            hear_alarm=lambda record: None,
        )


class _CountedObjects(MemoryStore):
    """Counts the bytes of objects that tasks of key compaction leave for each other."""

    def __init__(self, written: WrittenLog) -> None:
        super().__init__(written.objects)
        self.compaction_bytes = 0

    async def create(self, key: str, parts: Sequence[Buffer]) -> None:
        await super().create(key, parts)
        if key.startswith(COMPACTION):
            self.compaction_bytes += sum(len(memoryview(part)) for part in parts)
