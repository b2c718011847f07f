"""Readers in the middle of a table while its keys are compacted and old files are vacuumed.

They go on over the gap: no record comes twice, and none is lost that is still alive.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import pytest

from logstore.compaction.session import RunOptions
from logstore.history.forms.names import TABLES
from logstore.reading.direct.log_metadata import LogMetadata
from logstore.reading.direct.missing import Resolver
from logstore.reading.direct.task_rows import read_rows
from logstore.reading.planning.tasks import ReadTask
from logstore.wiring.open import open_objects
from spark_source.options import Mode, parse_options
from spark_source.progress import Progress
from tests.logstore.compaction.keyed import KeyedTopic, random_records
from tests.logstore.compaction.test_clean_races import delta
from tests.logstore.compaction.world import World

FILES = 6
"""With two more they would be merged."""
KEYS = 300
SMALL_FILES = RunOptions(now=True, task_bytes=1)
"""Each file that is written again is one file again."""

KEPT_A_DAY = {"logstore.clean.dead.ratio": "0"}
GONE_AT_ONCE = {**KEPT_A_DAY, "delete.retention.ms": "0"}


def written(world: World, configs: Mapping[str, str], name: str = "state") -> KeyedTopic:
    """A table of several files, cleaned once, that alone is read below its last tombstone."""
    topic = KeyedTopic.create(world, name, configs)
    rng = random.Random(11)
    for _ in range(FILES):
        topic.write(*random_records(rng, 60, KEYS), (b"gone", None))
        topic.move()
    assert world.compact(SMALL_FILES).errors == []
    snapshot = world.snapshot(name)
    assert snapshot is not None
    assert len(snapshot.files[0]) == FILES
    return topic


def disturb(topic: KeyedTopic, rng: random.Random) -> None:
    """Newer records make older ones dead, a run cleans them, and their owner vacuums at once."""
    topic.write(*random_records(rng, 20, KEYS), (b"gone", None))
    assert topic.world.compact(SMALL_FILES).errors == []
    delta(topic).vacuum(0, dry_run=False, enforce_retention_duration=False)


def check(topic: KeyedTopic, read: list[int], end: int, *, is_whole: bool) -> None:
    """Of offsets below `end`; a tombstone that went may have been overtaken unless `is_whole`."""
    assert read == sorted(set(read))
    alive = [offset for offset in topic.read() if offset < end]
    assert set(alive) <= set(read)
    if is_whole:
        assert topic.state([*read, *range(end, len(topic.records))]) == topic.state(
            range(len(topic.records))
        )


@pytest.mark.slow
@pytest.mark.parametrize("configs", [KEPT_A_DAY, GONE_AT_ONCE], ids=["kept", "gone"])
@pytest.mark.parametrize("every", [1, 2])
def test_a_consumer_goes_on_over_what_was_cleaned(
    world: World, configs: Mapping[str, str], every: int
) -> None:
    topic = written(world, configs)
    rng = random.Random(every)
    read: list[int] = []
    offset = chunks = 0
    while offset < world.log.end("state", 0):
        found, offset = world.log.fetch_chunk("state", 0, offset, 600)
        read += found
        chunks += 1
        if chunks % every == 0 and chunks < 5:
            disturb(topic, rng)

    assert chunks >= 3
    check(topic, read, len(topic.records), is_whole=configs is KEPT_A_DAY)


class Interrupted:
    """A store that does something before one of its reads of a table's files."""

    def __init__(self, url: str, number: int, act: Callable[[], None]) -> None:
        self._store = open_objects(url)
        self._left = number
        self._act = act
        self.has_acted = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def get(self, key: str) -> bytes:
        self._count(key)
        return self._store.get(key)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        self._count(key)
        return self._store.get_range(key, start, length)

    def _count(self, key: str) -> None:
        if not key.startswith(f"{TABLES}/") or self.has_acted:
            return
        self._left -= 1
        if self._left < 0:
            self.has_acted = True
            self._act()


def planned(topic: KeyedTopic, tasks: int) -> tuple[list[ReadTask], Mapping[bytes, str]]:
    given = {
        "path": str(topic.world.directory),
        "subscribe": topic.name,
        "minPartitions": str(tasks),
    }
    options = parse_options(given, Mode.BATCH)
    plan, topics = Progress(options, LogMetadata(options.url, options.topics), tasks).batch()
    return list(plan), topics


def rows_of(
    topic: KeyedTopic, task: ReadTask, topics: Mapping[bytes, str], store: Any
) -> Iterator[int]:
    missing = Resolver(str(topic.world.directory), (), topics, fail_on_data_loss=True)
    for batch in read_rows(store, task, topics, ["offset", "key", "value"], missing):
        for row in batch.to_pylist():
            assert topic.records[row["offset"]] == (row["key"], row["value"])
            yield row["offset"]


@pytest.mark.slow
@pytest.mark.parametrize("configs", [KEPT_A_DAY, GONE_AT_ONCE], ids=["kept", "gone"])
@pytest.mark.parametrize("tasks", [1, 5])
def test_tasks_of_spark_that_were_planned_before_go_on_over_what_was_cleaned(
    world: World, configs: Mapping[str, str], tasks: int
) -> None:
    topic = written(world, configs)
    rng = random.Random(tasks)
    end = len(topic.records)
    plan, topics = planned(topic, tasks)
    assert len(plan) >= tasks
    read: list[int] = []
    interrupted = 0
    for number, task in enumerate(plan):
        store = Interrupted(str(world.directory), number % 2, partial(disturb, topic, rng))
        read += rows_of(topic, task, topics, store)
        interrupted += store.has_acted

    assert interrupted
    check(topic, sorted(read), end, is_whole=configs is KEPT_A_DAY)
    assert len(read) == len(set(read))


@pytest.mark.slow
def test_a_task_is_interrupted_at_any_of_its_reads(world: World) -> None:
    rng = random.Random(5)
    for number in range(100):
        topic = written(world, GONE_AT_ONCE, f"state-{number}")
        end = len(topic.records)
        (task,), topics = planned(topic, 1)
        store = Interrupted(str(world.directory), number, partial(disturb, topic, rng))
        read = list(rows_of(topic, task, topics, store))
        check(topic, sorted(read), end, is_whole=False)
        if not store.has_acted:
            break
    assert number == FILES
