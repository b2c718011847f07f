"""Keyed records in a log, and what a consumer that reads from 0 makes of them: for tests."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from logstore.compaction.session import RunOptions
from logstore.history.read import read_rows
from logstore.objects.directory import DirectoryStore
from logstore.records.encode import encode_batch
from logstore.records.record import Record
from tests.logstore.compaction.world import TIME_MS, World

COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}

Written = tuple[bytes | None, bytes | None]
"""Key and value; None: a record without a key, a tombstone."""

State = Mapping[bytes, bytes]


@dataclass(frozen=True, slots=True)
class KeyedTopic:
    """One partition of one topic. `records` are all that were written, by offset from 0 on."""

    world: World
    name: str
    partition: int
    records: list[Written]

    @staticmethod
    def create(
        world: World, name: str, configs: Mapping[str, str] | None = None, partition: int = 0
    ) -> "KeyedTopic":
        if name not in world.topic_ids:
            world.create(name, partition + 1, {**COMPACTED, **(configs or {})})
        return KeyedTopic(world, name, partition, [])

    def write(self, *records: Written, is_dated: bool = True) -> None:
        """One batch."""
        first = len(self.records)
        batch = [
            Record(number, TIME_MS + first + number if is_dated else -1, key, value)
            for number, (key, value) in enumerate(records)
        ]
        self.world.log.append(self.name, self.partition, encode_batch(batch, compression="lz4"))
        self.records.extend(records)

    def move(self) -> None:
        """What was written into the table, as one file, and nothing cleaned."""
        self.world.compact(RunOptions(topics=(self.name,), now=True, cleans=False))

    def clean(self) -> None:
        summary = self.world.compact(RunOptions(topics=(self.name,), now=True))
        assert summary.errors == []

    def kept(self) -> list[int]:
        """Offsets that the table has."""
        return [offset for offset, _, _ in self.rows()]

    def rows(self) -> list[tuple[int, bytes | None, bytes | None]]:
        """Offset, key, value of what the table has; each is what was written."""
        snapshot = self.world.snapshot(self.name)
        if snapshot is None:
            return []
        files = snapshot.files_for(self.partition, 0, 2**62)
        store = DirectoryStore(self.world.directory)
        columns = ("offset", "key", "value")
        batches = read_rows(store, snapshot.topic_id, files, self.partition, 0, 2**62, columns)
        rows = [
            row
            for batch in batches
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
        ]
        assert all(self.records[offset] == (key, value) for offset, key, value in rows)
        return rows

    def read(self) -> list[int]:
        """Offsets that a consumer of the broker gets from 0 on, of whatever tier."""
        return self.world.log.fetch(self.name, self.partition)

    def state(self, offsets: Sequence[int]) -> State:
        """What a consumer of these offsets holds in the end."""
        return state_of([self.records[offset] for offset in sorted(offsets)])

    def check(self) -> None:
        """The table and the broker give the state that the whole history gives."""
        snapshot = self.world.snapshot(self.name)
        end = 0 if snapshot is None else snapshot.end(self.partition) or 0
        assert self.state(self.kept()) == state_of(self.records[:end])
        assert self.state(self.read()) == state_of(self.records)


def state_of(records: Sequence[Written]) -> State:
    state: dict[bytes, bytes] = {}
    for key, value in records:
        if key is None:
            continue
        if value is None:
            state.pop(key, None)
        else:
            state[key] = value
    return state


def random_records(rng: random.Random, count: int, keys: int) -> list[Written]:
    return [
        (
            b"key-%d" % rng.randrange(keys),
            None if rng.random() < 0.2 else b"value-%d" % rng.randrange(1000),
        )
        for _ in range(count)
    ]
