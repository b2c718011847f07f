"""The owner of a topic's table, who works on it with a Delta writer that is not ours.

OPTIMIZE writes rows of some files into others (`dataChange` false), DELETE takes rows out for good
(`dataChange` true), VACUUM with a retention of 0 deletes the files that DELETE, OPTIMIZE and
compaction took out. It spares files that no entry of the table's log ever named: the owner is asked
not to vacuum what a writer may be about to commit (docs/formats/table.md).
"""

import io
import json
import math
import random
from collections.abc import Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from logstore.errors import LogstoreError, NotFound
from logstore.formats.table_row import TABLE, TableRow
from logstore.history.forms import names
from logstore.history.forms.columns import PARTITION_COLUMN
from logstore.history.forms.entries import statistics_of
from logstore.history.forms.snapshot import DataFile, Snapshot
from logstore.runners.retrying import RetryingStore
from logstore.testing.blocking_ports import BlockingObjects
from logstore.testing.history import Partition
from logstore.testing.process_loop import Process, run_blocking
from logstore.testing.simulated_rows import at_once
from tests.simulation.kafka import MAIN
from tests.simulation.tiers.ended import until_ended
from tests.simulation.tiers.tables import open_tables
from tests.simulation.tiers.world import OUTSIDE, Edit, TierWorld

LIFE_S_MAX = 60.0
WORK = {"OPTIMIZE": 2, "DELETE": 2, "VACUUM": 3}


class Owner:
    """One process after the other, each with one piece of work on the table of `main`."""

    def __init__(self, world: TierWorld) -> None:
        self._world = world
        self._count = 0

    async def run(self) -> None:
        world, rng = self._world, self._world.rng
        while not world.is_healed:
            await world.clock.sleep_s(rng.uniform(0, world.tiers.owner_pause_s))
            self._count += 1
            process = Process(f"owner {self._count}")
            if rng.random() < 0.2:
                process.dies_at_step = rng.randrange(1, 40)
            world.may_suspend(process, 40)
            work = rng.choices(list(WORK), list(WORK.values()))[0]
            done = process.spawn(run_blocking(partial(self._work, work)))
            await until_ended(world, process, done, LIFE_S_MAX)
            if not done.done():
                world.seen["owner killed"] += 1
            process.kill()
            if done.done():
                done.result()

    def _work(self, work: str) -> None:
        """Blocking."""
        world = self._world
        main = next((i for i, (name, _) in world.live_topics.items() if name == MAIN), None)
        try:
            snapshot = None if main is None else self._tables().snapshot(main)
            if snapshot is None:
                return
            if work == "VACUUM":
                self._vacuum(snapshot)
            elif snapshot.files:
                number = world.rng.choice(sorted(snapshot.files))
                self._rewrite(work, snapshot, number)
        except LogstoreError as error:
            world.seen[f"owner's {work} failed by {type(error).__name__}"] += 1

    def _tables(self) -> Any:
        return open_tables(BlockingObjects(self._world.stores[OUTSIDE]))

    def _store(self) -> RetryingStore:
        return RetryingStore(BlockingObjects(self._world.stores[OUTSIDE]), random.Random(0))

    def _rewrite(self, work: str, snapshot: Snapshot, number: int) -> None:
        """Some files that lie beside each other go, others come in their place."""
        world, rng = self._world, self._world.rng
        files = snapshot.files_for(number, 0, snapshot.ends[number])
        count = min(len(files), rng.randint(1, 4) + (work == "OPTIMIZE"))
        first = rng.randrange(len(files) - count + 1)
        chosen = files[first : first + count]
        store, partition = self._store(), Partition(snapshot.topic_id, number)
        rows = pa.concat_tables(
            pq.read_table(pa.BufferReader(store.get(self._key(partition, file.path))))
            for file in chosen
        ).sort_by("offset")
        gone: set[int] = set()
        if work == "DELETE":
            gone = self._choose(rows["offset"].to_pylist())
            rows = rows.filter(pc.invert(pc.is_in(rows["offset"], pa.array(gone, pa.int64()))))
        adds = self._write(store, partition, rows) if rows.num_rows else []
        entry = _entry(work, snapshot.version, chosen, adds, world.clock.now_ms())
        world.history.edit(partition, gone)
        world.trace(f"owner's {work} partition={number} files={count} rows deleted={sorted(gone)}")
        key = names.entry_key(snapshot.topic_id, snapshot.version + 1)
        if not store.create_equal(key, entry):
            world.seen[f"owner's {work} met another commit"] += 1
            return
        world.seen[f"owner's {work}"] += 1
        world.seen["rows deleted by an owner"] += len(gone)
        if gone:
            # Where the table pointer does not say that the table holds them, readers read the log:
            # the next run of compaction tells.
            row = at_once(world.rows.get(TABLE, snapshot.topic_id.hex()))
            end = 0 if row is None else TableRow.of(row).ends.get(number, 0)
            known = frozenset(offset for offset in gone if offset < end)
            world.edits.append(Edit(partition, known, world.clock.monotonic_s()))
            world.edits.append(Edit(partition, frozenset(gone - known), math.inf))

    def _choose(self, offsets: Sequence[int]) -> set[int]:
        """What is deleted: everything, a range, or some."""
        rng = self._world.rng
        match rng.choice(("all", "range", "some")):
            case "all":
                return set(offsets)
            case "range":
                cut = sorted(rng.randrange(len(offsets) + 1) for _ in range(2))
                return set(offsets[cut[0] : cut[1]])
            case _:
                return set(rng.sample(offsets, rng.randint(1, min(3, len(offsets)))))

    def _write(self, store: RetryingStore, partition: Partition, rows: pa.Table) -> list[DataFile]:
        """One file, or two whose rows lie between each other's as a Z-order leaves them."""
        rng = self._world.rng
        parts = [rows]
        if rows.num_rows > 1 and rng.random() < 0.3:
            odd = pa.array([at % 2 == 1 for at in range(rows.num_rows)])
            parts = [rows.filter(odd), rows.filter(pc.invert(odd))]
        return [self._write_file(store, partition, part) for part in parts]

    def _write_file(self, store: RetryingStore, partition: Partition, rows: pa.Table) -> DataFile:
        sink = io.BytesIO()
        pq.write_table(rows, sink, compression="snappy")
        data = sink.getvalue()
        name = f"part-00000-{self._world.rng.getrandbits(64):016x}-c000.snappy.parquet"
        path = f"{names.PARTITION_FOLDER}{partition.number}/{name}"
        store.create_equal(self._key(partition, path), data)
        offsets = rows["offset"].to_pylist()
        times = [time for time in rows["timestamp_ms"].to_pylist() if time is not None]
        return DataFile(
            path,
            partition.number,
            rows.num_rows,
            len(data),
            min(offsets),
            max(offsets),
            min(times, default=None),
            max(times, default=None),
        )

    def _vacuum(self, snapshot: Snapshot) -> None:
        """The files that the newest version does not name and an earlier one did."""
        world, store, topic_id = self._world, self._store(), snapshot.topic_id
        named = {file.path for file in snapshot.all_files()}
        removed: set[str] = set()
        for version in range(snapshot.version + 1):
            try:
                entry = store.get(names.entry_key(topic_id, version))
            except NotFound:
                continue  # cleaned away
            removed |= _removed(entry)
        front = f"{names.table_key(topic_id)}/"
        for info in store.list(f"{front}{names.PARTITION_FOLDER}"):
            path = info.key.removeprefix(front)
            if path in removed and path not in named:
                store.delete(info.key)
                world.seen["files vacuumed by an owner"] += 1
        world.seen["owner's VACUUM"] += 1
        world.note("owner's VACUUM")

    def _key(self, partition: Partition, path: str) -> str:
        return f"{names.table_key(partition.topic_id)}/{path}"


def _removed(entry: bytes) -> set[str]:
    actions = [json.loads(line) for line in entry.splitlines()]
    return {action["remove"]["path"] for action in actions if "remove" in action}


def _entry(
    work: str, version: int, removes: Sequence[DataFile], adds: Sequence[DataFile], now_ms: int
) -> bytes:
    """As delta-rs writes it."""
    is_change = work == "DELETE"
    info = {"timestamp": now_ms, "operation": work, "operationParameters": {}}
    info |= {"readVersion": version, "engineInfo": "delta-rs:py-1.0.0", "clientVersion": "1.0.0"}
    actions: list[dict[str, Any]] = []
    for file in adds:
        add = {**_action(file), "modificationTime": now_ms, "stats": statistics_of(file)}
        actions.append({"add": {**add, "dataChange": is_change}})
    for file in removes:
        remove = {**_action(file), "deletionTimestamp": now_ms, "extendedFileMetadata": True}
        actions.append({"remove": {**remove, "dataChange": is_change}})
    lines = [{"commitInfo": info}, *actions]
    return "".join(f"{json.dumps(line)}\n" for line in lines).encode()


def _action(file: DataFile) -> dict[str, Any]:
    values = {PARTITION_COLUMN: str(file.partition)}
    return {"path": file.path, "partitionValues": values, "size": file.size_bytes}
