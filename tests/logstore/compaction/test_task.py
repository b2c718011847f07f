"""One task by itself: what it writes, and what it does about what it meets."""

import random
import re
import subprocess
import sys
from collections.abc import Mapping
from itertools import count
from pathlib import Path

import pytest

from logstore.compaction.decisions.plan import MoveTask, plan_moves
from logstore.compaction.gone import resolver
from logstore.compaction.task import run_task
from logstore.errors import Refused
from logstore.formats.segment_ranges import SegmentRange
from logstore.formats.topic_partition import TopicPartition
from logstore.objects.directory import DirectoryStore
from logstore.reading.direct.reader import LogReader
from logstore.reading.planning.segment_gone import SegmentGone
from logstore.reading.planning.tasks import SeqRange
from logstore.records.encode import encode_batch
from logstore.records.record import Record
from logstore.wiring.open import open_readable
from tests.logstore.compaction.world import TIME_MS, World
from tests.spark_source.places import raise_log_start


def tasks_for(world: World) -> list[MoveTask]:
    """Everything there is, as a run would plan it."""
    log = open_readable(str(world.directory))
    try:
        reader = LogReader(log)
        topics = reader.topics()
        segment_ranges = [
            segments
            for key, view in reader.partitions(topics).items()
            for segments in reader.segment_ranges(key, view.row, view.log_start, view.end)
        ]

        names = {row.topic_id: name for name, row in topics.items()}
        return plan_moves(
            "run",
            segment_ranges,
            reader.layout_of,
            reader.offsets_at,
            names,
            count(1),
            parallelism=1,
        )
    finally:
        log.close()


def test_each_partition_becomes_files_of_its_own(world: World) -> None:
    world.create("orders", 3)
    world.fill(30)
    (task,) = tasks_for(world)
    store = DirectoryStore(world.directory)

    first, again = (run_task(store, task, attempt) for attempt in ("a", "b"))

    assert [(file.partition, file.rows) for _, file in first.files] == [
        (0, 100),
        (1, 100),
        (2, 100),
    ]
    assert first.rows == 300
    assert not {file.path for _, file in first.files} & {file.path for _, file in again.files}


def test_a_segment_that_went_below_log_start_is_passed_over(world: World) -> None:
    topic_id = world.create("orders", 1)
    world.fill(20)
    (task,) = tasks_for(world)
    raise_log_start(world.directory, topic_id, 0, 100)
    first = segment_of(world, topic_id, 0)
    (path,) = world.directory.glob(f"chains/*/*{task.seq_ranges[0].chain}/{first:020d}")
    path.unlink()

    result = run_task(
        DirectoryStore(world.directory), task, "a", resolver(str(world.directory), {})
    )

    (file,) = (file for _, file in result.files)
    assert (file.min_offset, file.max_offset) == (100, 199)


def test_a_segment_that_is_gone_ends_a_task_that_cannot_ask(world: World) -> None:
    world.create("orders", 1)
    world.fill(1)
    (task,) = tasks_for(world)
    missing = SeqRange(task.seq_ranges[0].chain, 900, 900, task.seq_ranges[0].segment_ranges)

    with pytest.raises(SegmentGone):
        run_task(DirectoryStore(world.directory), MoveTask("run", 1, task.names, [missing]), "a")


def test_records_of_a_transaction_are_refused(world: World) -> None:
    world.create("orders", 1)
    batch = encode_batch(
        [Record(0, TIME_MS, None, b"value")],
        producer_id=1,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    world.log.append("orders", 0, batch)
    (task,) = tasks_for(world)

    with pytest.raises(Refused, match="transactional"):
        run_task(DirectoryStore(world.directory), task, "a")


@pytest.mark.slow
def test_a_full_disk_fails_the_run_and_the_next_does_the_work(world: World, tmp_path: Path) -> None:
    """A process that may write files of 300 KB at most is as good as a disk that is full."""
    world.create("orders", 1)
    for number in range(5):
        noise = random.Random(number).randbytes(300_000)
        world.log.append("orders", 0, encode_batch([Record(0, TIME_MS, None, noise)]))
        world.written["orders", 0].append(noise)
    program = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, -1)); "
        "from logstore.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "compact", "--url", str(world.directory), "--now"],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )

    assert done.returncode == 1
    assert re.search("no room|too large|space", done.stderr)
    assert world.compact().rows == 5
    world.check()


def segment_of(world: World, topic_id: bytes, offset: int) -> int:
    log = open_readable(str(world.directory))
    try:
        reader = LogReader(log)
        views: Mapping[TopicPartition, object] = reader.partitions(reader.topics())
        key = TopicPartition(topic_id, 0)
        assert key in views
        row = reader.partition_row(key)
        assert row is not None
        segment_ranges: list[SegmentRange] = reader.segment_ranges(key, row, offset, offset + 1)
        return segment_ranges[0].first_seq
    finally:
        log.close()
