"""A simulated world with both tiers: topics have tables, and readers that are no brokers."""

import json
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from logstore.epoch.table_queries import TableQueries
from logstore.errors import LogstoreError, NotFound
from logstore.formats.topic_row import TOPIC, TopicRow
from logstore.history.forms.columns import PARTITION_COLUMN
from logstore.history.forms.entries import ENGINE
from logstore.history.forms.names import table_topic
from logstore.ports.clock import Clock
from logstore.ports.registry import Row
from logstore.protocol.deletion.believed_time import AGREE_MS
from logstore.registry.memory import MemoryRows
from logstore.runners.step_runner import StepRunner
from logstore.testing.audit import Audit, audit
from logstore.testing.blocking_ports import BlockingRows
from logstore.testing.history import Partition
from logstore.testing.process_loop import PROCESS, Process
from logstore.testing.simulated_rows import SimulatedRows, at_once
from logstore.testing.simulated_store import SimulatedStore
from logstore.testing.virtual_loop import EPOCH_MS
from tests.simulation.plan import Plan
from tests.simulation.served import ServedBroker
from tests.simulation.tiers.brokers import TRIM_PERIOD_S, table_queries
from tests.simulation.tiers.clocks import JumpingClock, RetentionRows, draw_jump_ms
from tests.simulation.tiers.plan import TierPlan
from tests.simulation.tiers.tables import open_tables, read_tables
from tests.simulation.world import RATE_OFF_MAX, World

OUTSIDE = 0
"""The way to stores and registry of those who are no brokers."""

SUSPENDED_S = (15.0, 60.0)
HOUR_MS = 3_600_000
WEEK_MS = 7 * 24 * HOUR_MS
ENTRIES = "/_delta_log/"
LASTING = ("chains/", "checkpoints/", "tables/")
"""Keys of what holds records, or leads to them."""
EVENTS = {"WRITE": "move", "OPTIMIZE": "merge", "DELETE": "expiry", "CREATE TABLE": "table"}


class Edit(NamedTuple):
    """A DELETE of the table's owner that is known to be committed."""

    partition: Partition
    offsets: frozenset[int]
    at_s: float
    """From when on readers that begin know of it; infinite: once compaction has published it."""


class TierStore(SimulatedStore):
    """Notes what happens to tables and segments, and who meets an absence.

    `note` gets a kind of event, `note_absence` and `note_deletion` a key, `note_files` the key of
    an entry of a table's log and its lines that add files.
    """

    note: Callable[[str], None]
    note_files: Callable[[str, Sequence[bytes]], None]
    note_absence: Callable[[str], None]
    note_deletion: Callable[[str], None]

    def _land(self, key: str, data: bytes) -> LogstoreError | None:
        error = super()._land(key, data)
        if error is None and ENTRIES in key and key.endswith(".json"):
            first, *actions = data.splitlines()
            info = json.loads(first).get("commitInfo", {})
            self.note_files(key, [line for line in actions if line.startswith(b'{"add"')])
            operation = info.get("operation", "")
            is_ours = info.get("engineInfo") == ENGINE
            kind = EVENTS.get(operation, "other entry") if is_ours else f"owner's {operation}"
            self.note(kind)
        return error

    async def get(self, key: str) -> bytes:
        try:
            return await super().get(key)
        except NotFound:
            self.note_absence(key)
            raise

    async def delete(self, key: str) -> None:
        await super().delete(key)
        self.note("trim" if key.startswith("chains/") else "file deleted")
        if key.startswith(LASTING):
            self.note_deletion(key)


class OutsideRows(SimulatedRows):
    """The registry as it is opened by name."""

    def blocking(self) -> BlockingRows:
        return BlockingRows(self)


class TierWorld(World):
    def __init__(self, seed: int, plan: Plan, tiers: TierPlan) -> None:
        self.last_s: dict[str, float] = {}
        """When something last happened to what is stored, by kind."""
        super().__init__(seed, plan)
        self.tiers = tiers
        self.is_rolled_back = False
        """Whether the registry is not what it was, and not restored yet."""
        self.disasters = 0
        """How often the registry was lost or put back."""
        self.copies: list[dict[tuple[str, str], Row]] = []
        """Of the registry, each from a moment of its own; those before it was lost are dropped."""
        self.is_stopped = False
        """Whether no process may begin anything: the registry is being restored."""
        self.runs: list[Process] = []
        """Processes of compaction."""
        self.deletions: Counter[str] = Counter()
        """Of objects that hold records or lead to them, by the name of the process."""
        self.clocks: list[JumpingClock] = []
        """Of machines, the newest last."""
        self._ahead_ms: dict[str, int] = {}
        """How wrong the wall clock of a process is that is no broker, by its name."""
        self.table_files: dict[Partition, list[tuple[int, int]]] = {}
        """Last offset and bytes of every file that a table has ever had."""
        self.edits: list[Edit] = []
        """Rows that the owner of a table deleted, each from a moment on."""
        self.stores[OUTSIDE] = self._store()
        self.registries[OUTSIDE] = OutsideRows(
            self.rows, self.rng, plan.rows, self.seen, self.trace
        )
        self.tables = open_tables
        self.trim_period_s = TRIM_PERIOD_S

    def _rows(self) -> MemoryRows:
        return RetentionRows(self._judge_retention)

    def _judge_retention(self, topic_id: bytes, number: int, offset: int) -> None:
        """Retention has raised a log start: by virtual time, was everything below it old?"""
        if any(clock.ahead_ms >= HOUR_MS for clock in self.clocks):
            self.seen["retention while a clock is ahead"] += 1
        rows = (TopicRow.of(row) for _, row in at_once(self.rows.query(TOPIC)))
        configs = next((row.configs for row in rows if row.topic_id == topic_id), None)
        if configs is None:
            return  # a late write: the topic is deleted
        self.seen["log start raised by retention"] += 1
        partition, keep_ms = Partition(topic_id, number), int(configs.get("retention.ms", WEEK_MS))
        slack_ms = AGREE_MS + int(self.clock.monotonic_s() * 1000 * RATE_OFF_MAX)
        if "retention.bytes" in configs:
            self.seen["log start raised by retention.bytes"] += 1
            files = self.table_files.get(partition, ())
            table_bytes = sum(size for last, size in files if last >= offset)
            keep_bytes = int(configs["retention.bytes"])
            self.history.expire_surplus(partition, offset, keep_bytes, table_bytes)
        else:
            self.history.expire(partition, offset, self.clock.now_ms() + slack_ms - keep_ms)

    def draw_configs(self) -> dict[str, str]:
        configs = {}
        if self.tiers.clocks_jump:
            # A broker whose clock is behind takes what clients send for records of the future.
            configs["message.timestamp.after.max.ms"] = str(10 * WEEK_MS)
        if self.tiers.keeps_s and self.rng.random() < 0.5:
            configs["retention.ms"] = str(int(self.tiers.keeps_s * 1000))
        elif self.tiers.keeps_s and self.rng.random() < 0.3:
            configs["retention.bytes"] = str(self.rng.choice((500, 20_000)))
        return configs

    def ahead_ms(self, process: Process | None) -> int:
        """How wrong the wall clock is by which a process goes that is no broker."""
        if process is None or not self.tiers.clocks_jump:
            return 0
        if process.name not in self._ahead_ms:
            self._ahead_ms[process.name] = draw_jump_ms(self.rng)
        return self._ahead_ms[process.name]

    def _new_clock(self) -> Clock:
        if not self.tiers.clocks_jump:
            return super()._new_clock()
        clock = JumpingClock(EPOCH_MS, rate=1 + self.rng.uniform(-RATE_OFF_MAX, RATE_OFF_MAX))
        clock.ahead_ms = draw_jump_ms(self.rng)
        self.seen["started with a clock ahead"] += clock.ahead_ms > 0
        self.clocks.append(clock)
        return clock

    def table_queries(self, runner: StepRunner) -> TableQueries:
        return table_queries(runner)

    def _store(self) -> SimulatedStore:
        store = TierStore(self.objects, self.rng, self.plan.store, self.seen, self.trace)
        store.note, store.note_absence = self.note, self._note_absence
        store.note_deletion, store.note_files = self._note_deletion, self._note_files
        return store

    def note(self, kind: str) -> None:
        self.seen[f"event: {kind}"] += 1
        self.last_s[kind] = self.clock.monotonic_s()

    def _note_files(self, key: str, adds: Sequence[bytes]) -> None:
        topic_id = table_topic(key)
        assert topic_id is not None
        for line in adds:
            add = json.loads(line)["add"]
            partition = Partition(topic_id, int(add["partitionValues"][PARTITION_COLUMN]))
            last = json.loads(add["stats"])["maxValues"]["offset"]
            self.table_files.setdefault(partition, []).append((last, add["size"]))

    def _note_absence(self, key: str) -> None:
        process = PROCESS.get(None)
        if process is not None:
            self.seen[f"404 in {process.name.split()[0]}: {key.split('/')[0]}"] += 1

    def _note_deletion(self, key: str) -> None:
        process = PROCESS.get(None)
        if process is not None:
            self.deletions[process.name] += 1
            self.seen[f"deleted by {process.name.split()[0]}: {key.split('/')[0]}"] += 1

    def may_suspend(self, process: Process, step_max: int = 300) -> None:
        """In some of the seeds, now and then: at a step of its own."""
        share = self.tiers.suspends
        if share and not self.is_healed and self.rng.random() < share:
            process.at_step(self.rng.randrange(1, step_max), partial(self.suspend, process))

    def suspend(self, process: Process, seconds: float = 0.0) -> None:
        """Its machine sleeps: far longer than leases, graces and most time-outs last."""
        seconds = seconds or self.rng.uniform(*SUSPENDED_S)
        kind, at_s = process.name.split()[0], self.clock.monotonic_s()
        self.trace(f"{process.name} is suspended seconds={seconds:.1f}")
        self.seen[f"suspended: {kind}"] += 1
        process.stop_for(seconds, partial(self._wakes, process, kind, at_s))

    def _wakes(self, process: Process, kind: str, at_s: float) -> None:
        self.trace(f"{process.name} wakes")
        self.seen[f"woken: {kind}"] += 1
        for event in self.events_since(at_s):
            self.seen[f"slept through: {event}"] += 1

    def events_since(self, begin_s: float) -> list[str]:
        """The kinds of events after `begin_s`."""
        return [kind for kind, at_s in self.last_s.items() if at_s > begin_s]

    def new_clock(self) -> Clock:
        """Of another machine."""
        return self._new_clock()

    def hear_alarm(self, record: logging.LogRecord) -> None:
        if self.is_rolled_back:
            self.trace(f"alarm {record.getMessage()}")
            self.seen["alarm on an old registry"] += 1
        else:
            super().hear_alarm(record)

    @property
    def disasters_over(self) -> int:
        """Lower than `disasters` from the loss of a registry until it is restored."""
        return self.disasters - self.is_rolled_back

    def forget_fences(self) -> None:
        """Of brokers that were at work: the rows that could say who fenced them may be gone."""
        self._fenced = [log for life in self.lives for log in life.logs]

    def _judge_fences(self) -> None:
        if self.is_rolled_back:
            self.forget_fences()
        super()._judge_fences()

    def judge_end(self, life: ServedBroker) -> None:
        if not self.is_rolled_back:
            super().judge_end(life)

    def audit(self) -> Audit:
        """Both tiers together; where both hold an offset they must agree."""
        tables = read_tables(self.objects)
        self.violations += tables.violations
        found = audit(self.objects, self.rows, tables.ends)
        for partition, log_start in found.log_starts.items():
            there = tables.records.get(partition)
            if there is None:
                continue
            end = tables.ends[partition]
            if end > found.ends[partition]:
                self.violate(f"a table ends above its log {_shown(partition)} {end}")
            by_offset = {record.offset: record for record in there}
            edited = self.history.edited(partition)
            for record in found.records[partition]:
                known = by_offset.get(record.offset)
                begin = max(log_start, self.history.start_asked(partition) * bool(self.disasters))
                if record.offset >= end or record.offset < begin:
                    continue
                if known is None and record.offset in edited:
                    self.seen["rows deleted by an owner, in segments still"] += 1
                elif known is None:
                    self.violate(f"a table lacks an offset {_shown(partition)} {record.offset}")
                elif known.value != record.value:
                    self.violate(f"two tiers, two values {_shown(partition)} {record.offset}")
            above = [record for record in found.records[partition] if record.offset >= end]
            found.records[partition] = [*there, *above]
            found.begins[partition] = end
        return found


def _shown(partition: Partition) -> str:
    return f"topic={partition.topic_id.hex()[:8]} partition={partition.number}"
