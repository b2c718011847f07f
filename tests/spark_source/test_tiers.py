"""History and tail as one log: the same rows, whatever has moved to the table, and when."""

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from logstore.errors import Corrupt, NotFound, Refused
from logstore.formats.table_row import TABLE
from logstore.history.forms.names import table_key
from logstore.ports.registry import Row
from logstore.reading.direct.log_metadata import LogMetadata, OpenReadable
from logstore.reading.direct.missing import Resolver
from logstore.reading.direct.snapshots import OpenTables, SnapshotSource, open_tables
from logstore.reading.direct.task_rows import read_rows
from logstore.reading.planning.tasks import ReadTask
from logstore.records.crc32c import crc32c
from logstore.records.encode import encode_batch
from logstore.records.record import Record
from logstore.runners.step_runner import RegistryReads
from logstore.wiring.open import ReadableLog, open_objects, open_readable
from spark_source.options import Mode, parse_options
from spark_source.planning.schema import TYPES
from spark_source.progress import Plan, Progress
from tests.spark_source.log_on_disk import LogOnDisk
from tests.spark_source.moved import Mover
from tests.spark_source.places import raise_log_start
from tests.spark_source.stepped_time import SteppedTime

pytestmark = pytest.mark.slow

TIME_MS = 1_700_000_000_000
PARTITIONS = 3


class Topic:
    """`orders` in a log that keeps running; records are numbered through."""

    def __init__(self, log: LogOnDisk) -> None:
        self.log = log
        self.directory = Path(log.directory)
        self.topic_id = log.create_topic("orders", PARTITIONS)
        self.mover = Mover(self.directory, self.topic_id)
        self.count = 0

    def append(self, rounds: int) -> None:
        """So many requests, a batch of five records for each partition in each."""
        for _ in range(rounds):
            batches = [("orders", n, self._batch(5)) for n in range(PARTITIONS)]
            self.log.append_all(batches)

    def plan(self, **options: str) -> Plan:
        return self.progress(Mode.BATCH, **options).batch()

    def progress(
        self,
        mode: Mode = Mode.STREAM,
        open_tables: OpenTables = open_tables,
        open_log: OpenReadable = open_readable,
        /,
        **options: str,
    ) -> Progress:
        given = {"path": str(self.directory), "subscribe": "orders", **options}
        parsed = parse_options(given, mode)
        time = SteppedTime()
        survey = LogMetadata(
            parsed.url,
            parsed.topics,
            clock=time,
            sleep_s=time.pass_s,
            open_log=open_log,
            open_tables=open_tables,
        )
        return Progress(parsed, survey, 2)

    def rows(
        self, plan: Plan, columns: Sequence[str] = tuple(TYPES), *, may_lose: bool = False
    ) -> list[dict[str, Any]]:
        """By partition and offset. Inside a task each partition's offsets must rise."""
        tasks, topics = plan
        where = str(self.directory)
        missing = Resolver(where, (), topics, fail_on_data_loss=not may_lose)
        asked = [*columns, *(name for name in ("partition", "offset") if name not in columns)]
        found = []
        for task in tasks:
            mine: list[dict[str, Any]] = []
            for rows in read_rows(open_objects(where), task, topics, asked, missing):
                mine += rows.to_pylist()
            _check_order(mine)
            found += mine
        return sorted(found, key=lambda row: (row["partition"], row["offset"]))

    def _batch(self, count: int) -> bytes:
        records = []
        for place in range(count):
            n = self.count = self.count + 1
            headers = (("n", str(n).encode()), ("none", None)) if n % 3 else ()
            key = None if n % 4 == 0 else b"key%d" % n
            records.append(Record(place, TIME_MS + 10 * n, key, b"value %d" % n * 20, headers))
        return encode_batch(records, compression="lz4" if self.count % 2 else "none")


def _check_order(rows: Sequence[dict[str, Any]]) -> None:
    for partition in {row["partition"] for row in rows}:
        offsets = [row["offset"] for row in rows if row["partition"] == partition]
        assert all(first < second for first, second in pairwise(offsets))


@pytest.fixture
def topic(tmp_path: Path) -> Iterator[Topic]:
    with LogOnDisk(tmp_path / "log", checkpoint_segments=4) as log:
        yield Topic(log)


def test_rows_are_the_same_from_segments_from_the_table_and_from_both(topic: Topic) -> None:
    topic.append(20)
    before = topic.rows(topic.plan())
    assert len(before) == 20 * 5 * PARTITIONS

    topic.mover.move({0: 100, 1: 35})
    tasks, _ = plan = topic.plan()
    assert {(part.offsets.number, part.offsets.end) for task in tasks for part in task.history} == {
        (0, 100),
        (1, 35),
    }
    assert topic.rows(plan) == before
    topic.mover.move()
    assert all(not task.seq_ranges for task in topic.plan()[0])
    assert topic.rows(topic.plan()) == before
    assert topic.mover.trim() > 0
    assert topic.rows(topic.plan()) == before
    topic.append(2)
    assert topic.rows(topic.plan())[:2] == before[:2]
    assert len(topic.rows(topic.plan(), ["value"])) == 22 * 5 * PARTITIONS


def test_a_batch_planned_on_segments_gives_the_same_rows_after_they_have_gone(
    topic: Topic,
) -> None:
    topic.append(20)
    plan = topic.plan()
    before = topic.rows(plan)
    assert all(not task.history for task in plan[0])

    topic.mover.move({0: 60, 1: 100, 2: 70})
    topic.append(10)
    assert topic.mover.trim() > 0

    assert topic.rows(plan) == before
    topic.mover.move()
    assert topic.mover.trim() > 0
    assert topic.rows(plan) == before


@pytest.mark.parametrize("limits", [{"minPartitions": "5"}, {"minPartitions": "20"}])
def test_every_task_of_a_plan_reads_its_own_part_of_what_has_moved_since(
    topic: Topic, limits: dict[str, str]
) -> None:
    topic.append(20)
    plan = topic.plan(**limits)
    before = topic.rows(plan)
    assert len(plan[0]) == int(limits["minPartitions"])
    assert len(before) == 20 * 5 * PARTITIONS

    topic.mover.move()
    topic.append(10)
    assert topic.mover.trim() > 0

    assert topic.rows(plan) == before


def test_a_copy_row_that_was_never_written_costs_a_look_and_no_row(topic: Topic) -> None:
    topic.append(20)
    plan = topic.plan()
    before = topic.rows(plan)
    progress = topic.progress(startingOffsets="earliest")
    start = progress.initial()
    end = progress.latest(start, is_limited=False)

    topic.mover.commit()
    assert topic.mover.trim() > 0

    assert topic.rows(plan) == before
    assert topic.rows(progress.between(start, end)) == before
    assert topic.rows(topic.progress(startingOffsets="earliest").between(start, end)) == before


def test_a_stream_goes_through_both_in_limited_batches_and_may_replay_each(
    topic: Topic,
) -> None:
    topic.append(20)
    topic.mover.move({0: 100, 1: 50, 2: 25})
    wanted = topic.rows(topic.plan(), ["value"])
    for limit in ({"maxOffsetsPerTrigger": "40"}, {"maxBytesPerTrigger": "20000"}):
        progress = topic.progress(Mode.STREAM, startingOffsets="earliest", **limit)
        progress.fix_target()
        offset, seen, batches = progress.initial(), [], []
        while (end := progress.latest(offset, is_limited=True)) != offset:
            seen += topic.rows(progress.between(offset, end), ["value"])
            batches.append((offset, end))
            offset = end
        assert len(batches) > 2
        assert sorted(seen, key=lambda row: (row["partition"], row["offset"])) == wanted

        topic.mover.move()
        replayed = topic.progress(startingOffsets="earliest")
        again = [row for b in batches for row in topic.rows(replayed.between(*b), ["value"])]
        assert again == seen


@pytest.mark.parametrize("limits", [{"minPartitions": "17"}, {"maxRecordsPerPartition": "7"}])
def test_history_is_split_as_finely_as_is_asked_for(topic: Topic, limits: dict[str, str]) -> None:
    topic.append(10)
    wanted = topic.rows(topic.plan())
    topic.mover.move({0: 50, 1: 25})

    tasks, _ = plan = topic.plan(**limits)

    assert len(tasks) >= 17
    assert topic.rows(plan) == wanted


@pytest.mark.parametrize("moved", [{}, {0: 50, 1: 50, 2: 50}, {0: 20, 1: 35}])
def test_a_time_is_found_in_the_table_and_above_it(topic: Topic, moved: dict[int, int]) -> None:
    topic.append(10)
    rows = topic.rows(topic.plan())
    if moved:
        topic.mover.move(moved)
        topic.mover.trim()

    for n in (1, 77, 148, topic.count):
        asked = TIME_MS + 10 * n - 5
        found = topic.rows(
            topic.plan(
                startingTimestamp=str(asked),
                endingTimestamp=str(asked + 100),
            )
            if n < topic.count - 30
            else topic.plan(
                startingOffsetsByTimestamp=f'{{"orders":{{"{PARTITIONS - 1}":{asked}}}}}',
            )
        )
        if n < topic.count - 30:
            assert found == [row for row in rows if asked <= row["timestamp_ms"] < asked + 100]
        else:
            last = [row for row in found if row["partition"] == PARTITIONS - 1]
            assert [row["timestamp_ms"] for row in last] == [
                row["timestamp_ms"]
                for row in rows
                if row["partition"] == PARTITIONS - 1 and row["timestamp_ms"] >= asked
            ]


def test_a_file_that_was_merged_away_since_a_task_was_planned_is_found_again(
    topic: Topic,
) -> None:
    topic.append(20)
    topic.mover.move()
    plan = topic.plan(minPartitions="5")
    before = topic.rows(plan)

    for partition in range(PARTITIONS):
        topic.mover.merge(partition)

    assert topic.rows(plan) == before


def test_a_file_that_is_nowhere_ends_the_task_after_a_few_looks(topic: Topic) -> None:
    topic.append(5)
    topic.mover.move()
    plan = topic.plan()
    for file in (topic.directory / table_key(topic.topic_id)).glob("partition=1/*"):
        file.unlink()

    with pytest.raises(NotFound, match="partition=1"):
        topic.rows(plan)


def test_what_retention_took_from_the_table_ends_a_query_or_is_passed_over(topic: Topic) -> None:
    topic.append(5)
    topic.mover.move()
    plan = topic.plan()
    raise_log_start(topic.directory, topic.topic_id, 1, 25)
    for file in (topic.directory / table_key(topic.topic_id)).glob("partition=1/*"):
        file.unlink()

    with pytest.raises(Refused, match="topic=orders partition=1 offset=0: log start is 25 now"):
        topic.rows(plan)
    left = topic.rows(plan, ["value"], may_lose=True)
    assert {row["partition"] for row in left} == {0, 2}


class DeletedFirst:
    """A topic's tables; records are deleted, and others moved, just before one is read."""

    def __init__(self, topic: Topic) -> None:
        self._topic = topic

    def __call__(self, url: str, storage: Mapping[str, str]) -> SnapshotSource:
        raise_log_start(self._topic.directory, self._topic.topic_id, 1, 15)
        self._topic.mover.move()
        return open_tables(url, storage)


def test_records_deleted_while_a_batch_of_a_stream_is_planned_end_the_query(topic: Topic) -> None:
    topic.append(5)
    topic.mover.move({1: 5})
    progress = topic.progress(Mode.STREAM, DeletedFirst(topic), startingOffsets="earliest")
    start = progress.initial()
    end = progress.latest(start, is_limited=False)

    with pytest.raises(Refused, match="partition=1"):
        progress.between(start, end)


class DeletedBetween:
    """A registry; records are deleted, others moved, between its rows and its table pointers."""

    def __init__(self, topic: Topic) -> None:
        self._topic: Topic | None = topic
        self._rows: RegistryReads | None = None

    def open(self, url: str, storage: Mapping[str, str]) -> ReadableLog:
        log = open_readable(url, storage)
        self._rows = log.runner.registry
        return replace(log, runner=replace(log.runner, registry=self))

    def get(self, pk: str, sk: str) -> Row | None:
        assert self._rows is not None
        return self._rows.get(pk, sk)

    def query(self, pk: str, prefix: str = "") -> Sequence[tuple[str, Row]]:
        assert self._rows is not None
        topic = self._topic
        if pk == TABLE and topic is not None:
            self._topic = None
            for partition in range(PARTITIONS):
                raise_log_start(topic.directory, topic.topic_id, partition, 15)
            topic.mover.move()
        return self._rows.query(pk, prefix)


def test_records_deleted_before_a_batch_is_planned_end_the_query_if_it_plans_no_task(
    topic: Topic,
) -> None:
    """No file of the table holds them, and segments are not asked below the table's end."""
    topic.append(5)
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "30"}
    progress = topic.progress(Mode.STREAM, open_tables, DeletedBetween(topic).open, **options)
    start = progress.initial()
    end = progress.latest(start, is_limited=True)

    with pytest.raises(Refused, match="partition=0"):
        progress.between(start, end)


def test_records_deleted_while_a_dataframe_is_planned_end_it_if_its_options_name_them(
    topic: Topic,
) -> None:
    topic.append(5)
    topic.mover.move({1: 10})
    named = {"startingOffsets": '{"orders":{"0":0,"1":5,"2":0}}'}
    with pytest.raises(Refused, match="partition=1"):
        topic.progress(Mode.BATCH, DeletedFirst(topic), **named).batch()


def test_records_deleted_while_a_dataframe_is_planned_from_earliest_are_passed_over(
    topic: Topic,
) -> None:
    topic.append(5)
    topic.mover.move({1: 5})

    plan = topic.progress(Mode.BATCH, DeletedFirst(topic)).batch()

    rows = [row["offset"] for row in topic.rows(plan, ["value"]) if row["partition"] == 1]
    assert rows == [*range(5), *range(15, 25)]


def test_records_deleted_while_a_task_looks_for_its_file_end_it(topic: Topic) -> None:
    topic.append(5)
    topic.mover.move({1: 25})
    plan = topic.plan()
    topic.mover.merge(1)
    missing = Resolver(
        str(topic.directory), (), plan[1], fail_on_data_loss=True, open_tables=DeletedFirst(topic)
    )
    history = [part for task in plan[0] for part in task.history if part.offsets.number == 1]

    with pytest.raises(Refused, match="log start is 15 now"):
        missing.file(history[0], 0)


def test_a_table_that_went_back_is_reported(topic: Topic) -> None:
    topic.append(5)
    topic.mover.move()
    entries = sorted((topic.directory / table_key(topic.topic_id) / "_delta_log").glob("*.json"))
    entries[-1].unlink()

    with pytest.raises(Corrupt, match="a table does not match its table pointer"):
        topic.plan()


def test_segments_in_neither_tier_are_reported_and_never_passed_over(topic: Topic) -> None:
    topic.append(20)
    plan = topic.plan()
    topic.mover.move({0: 50, 1: 50, 2: 50})
    (run,) = plan[0][0].seq_ranges
    for seq in range(run.first_seq, run.last_seq + 1):
        (segment,) = topic.directory.glob(f"chains/*/*/{seq:020}")
        segment.unlink()

    with pytest.raises(Corrupt, match=r"a segment is missing: chain=1 seq=.*offset=50"):
        topic.rows(plan, may_lose=True)


def undecodable(batch: bytes) -> bytes:
    """Said to be zstd, which it is not; its CRC is right."""
    tail = b"\x00\x04" + batch[23:]
    return batch[:17] + crc32c(tail).to_bytes(4, "big") + tail


def test_a_batch_that_cannot_be_decoded_is_the_same_in_both_tiers(topic: Topic) -> None:
    bad = undecodable(encode_batch([Record(n, TIME_MS, None, b"v") for n in range(3)]))
    topic.append(1)
    topic.log.append("orders", 1, bad)
    topic.append(1)
    assert len(topic.rows(topic.plan())) == 2 * 5 * PARTITIONS + 1
    before = topic.rows(topic.plan())
    with pytest.raises(Corrupt, match="topic=orders partition=1 offset=5"):
        topic.rows(topic.plan(), ["value"])

    topic.mover.move()

    assert topic.rows(topic.plan()) == before
    (raw,) = [row for row in before if row["raw_batch"] is not None]
    assert (raw["offset"], raw["value"], raw["headers"]) == (5, None, None)
    with pytest.raises(Corrupt, match=r"partition=1 offset=5; .*raw_batch.* topic=orders"):
        topic.rows(topic.plan(), ["value"])


@pytest.mark.slow
def test_history_is_read_without_the_library_that_maintains_tables(topic: Topic) -> None:
    topic.append(5)
    topic.mover.move()
    program = (
        "import sys\n"
        "sys.modules['deltalake'] = None\n"
        "from tests.spark_source.test_rows import rows_of\n"
        f"print(len(rows_of({str(topic.directory)!r}, 'offset')))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )

    assert answer.stdout == f"{5 * 5 * PARTITIONS}\n"


def test_a_log_without_tables_loads_nothing_that_reads_them(topic: Topic) -> None:
    topic.append(2)
    program = (
        "import sys\n"
        "from tests.spark_source.test_rows import rows_of\n"
        f"print(len(rows_of({str(topic.directory)!r}, 'offset')))\n"
        "heavy = {'deltalake', 'pyarrow.parquet', 'logstore.history.delta'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )

    assert answer.stdout == f"{2 * 5 * PARTITIONS}\n[]\n"


def test_tasks_cross_processes_with_their_files(topic: Topic) -> None:
    from pyspark.serializers import CloudPickleSerializer

    topic.append(3)
    topic.mover.move()
    tasks, topics = topic.plan()
    serializer: Any = CloudPickleSerializer()
    copies: list[ReadTask] = serializer.loads(serializer.dumps(tasks))

    assert copies == tasks
    assert len(topic.rows((copies, topics), ["value"])) == 3 * 5 * PARTITIONS
