"""Tasks of one plan that run at any time later: whatever moves before, every row comes once.

Safety rule 12: a task whose segments have moved resolves its own part, and no other's.
"""

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logstore.reading.direct.log_metadata import LogMetadata
from logstore.reading.direct.missing import Resolver
from logstore.reading.direct.task_rows import read_rows
from logstore.records.encode import encode_batch, records_of
from logstore.wiring.open import open_objects
from spark_source.options import Mode, parse_options
from spark_source.progress import Plan, Progress
from tests.spark_source.log_on_disk import LogOnDisk
from tests.spark_source.moved import Mover
from tests.spark_source.places import raise_log_start
from tests.spark_source.stepped_time import SteppedTime

PARTITIONS = 3
ROUNDS = 12
"""In each of two lives; one segment each."""

Row = tuple[int, int, bytes]
"""Partition, offset, value."""


@dataclass(frozen=True)
class Written:
    directory: Path
    topic_id: bytes
    ends: dict[int, int]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """Two chains; batches of one to four records, in some segments of none of a partition."""
    directory = tmp_path_factory.mktemp("moved") / "log"
    count = 0
    ends = dict.fromkeys(range(PARTITIONS), 0)
    topic_id = b""
    for life in range(2):
        with LogOnDisk(directory, checkpoint_segments=3) as log:
            topic_id = topic_id or log.create_topic("orders", PARTITIONS)
            for number in range(ROUNDS):
                batches = []
                for partition in range(PARTITIONS):
                    if (number + life) % (partition + 1) == 0:
                        size = 1 + (number * 7 + partition) % 4
                        values = [(None, b"value %d" % (count + n)) for n in range(size)]
                        batch = encode_batch(records_of(values, timestamp=count))
                        batches.append(("orders", partition, batch))
                        count += size
                        ends[partition] += size
                log.append_all(batches)
    return Written(directory, topic_id, ends)


@pytest.fixture(scope="module")
def rows(written: Written) -> Counter[Row]:
    tasks = planned(written.directory, 1)
    found = Counter(row for number in range(len(tasks[0])) for row in run(written, tasks, number))
    assert set(found.values()) == {1}
    assert sum(found.values()) == sum(written.ends.values())
    return found


@contextmanager
def copied(written: Written) -> Iterator[Written]:
    """The same log, to be changed."""
    with tempfile.TemporaryDirectory(prefix="moved-") as folder:
        directory = Path(folder) / "log"
        shutil.copytree(written.directory, directory)
        yield replace(written, directory=directory)


def planned(directory: Path, task_count: int) -> Plan:
    given = {"path": str(directory), "subscribe": "orders", "minPartitions": str(task_count)}
    options = parse_options(given, Mode.BATCH)
    time = SteppedTime()
    survey = LogMetadata(options.url, options.topics, clock=time, sleep_s=time.pass_s)
    return Progress(options, survey, 1).batch()


def run(written: Written, plan: Plan, number: int, *, may_lose: bool = False) -> Iterator[Row]:
    where = str(written.directory)
    tasks, topics = plan
    missing = Resolver(where, (), topics, fail_on_data_loss=not may_lose)
    columns = ["partition", "offset", "value"]
    for batch in read_rows(open_objects(where), tasks[number], topics, columns, missing):
        lists = (batch.column(name).to_pylist() for name in columns)
        yield from zip(*lists, strict=True)


@pytest.mark.slow
def test_each_task_alone_reads_its_part_whatever_moved_before(
    written: Written, rows: Counter[Row]
) -> None:
    """Every number of tasks, all of whose segments have gone."""
    with copied(written) as log:
        plans = [planned(log.directory, count) for count in range(1, 2 * ROUNDS + 1)]
        mover = Mover(log.directory, log.topic_id)
        mover.move()
        assert mover.trim() > ROUNDS
        for plan in plans:
            found = Counter(row for n in range(len(plan[0])) for row in run(log, plan, n))
            assert found == rows


@pytest.mark.slow
@given(st.data())
@settings(max_examples=60)
def test_every_row_comes_once_whenever_tasks_run(
    written: Written, rows: Counter[Row], data: st.DataObject
) -> None:
    """Between tasks, rows move to the table in part or all, segments go, files are merged."""
    with copied(written) as log:
        plan = planned(log.directory, data.draw(st.integers(1, 2 * ROUNDS), "tasks"))
        mover = Mover(log.directory, log.topic_id)
        left = list(range(len(plan[0])))
        found: Counter[Row] = Counter()
        ends = st.fixed_dictionaries(
            {partition: st.integers(0, end) for partition, end in written.ends.items()}
        )
        steps = st.sampled_from(["move", "move", "trim", "trim", "merge", "task", "task", "twice"])
        for step in data.draw(st.lists(steps, max_size=12), "steps"):
            match step:
                case "move":
                    mover.move(data.draw(ends, "ends"))
                case "trim" if mover.tables.snapshot(log.topic_id) is not None:
                    mover.trim()
                case "merge" if mover.tables.snapshot(log.topic_id) is not None:
                    mover.merge(data.draw(st.integers(0, PARTITIONS - 1), "partition"))
                case "task" | "twice" if left:
                    task = left.pop(data.draw(st.integers(0, len(left) - 1), "task"))
                    mine = list(run(log, plan, task))
                    found.update(mine)
                    if step == "twice":  # speculative execution, or a retried stage
                        assert list(run(log, plan, task)) == mine
                case _:
                    pass
        for task in left:
            found.update(run(log, plan, task))

        assert found == rows


@pytest.mark.slow
@given(st.data())
@settings(max_examples=25)
def test_what_is_above_log_start_comes_once_when_the_rest_may_be_lost(
    written: Written, rows: Counter[Row], data: st.DataObject
) -> None:
    with copied(written) as log:
        plan = planned(log.directory, data.draw(st.integers(1, 2 * ROUNDS), "tasks"))
        starts = {
            partition: data.draw(st.integers(0, end), "log start")
            for partition, end in written.ends.items()
        }
        tasks = range(len(plan[0]))
        early = data.draw(st.sets(st.sampled_from(tasks)), "tasks that run before")
        found = Counter(row for task in early for row in run(log, plan, task))
        mover = Mover(log.directory, log.topic_id)
        mover.move()
        mover.trim()
        for partition, start in starts.items():
            raise_log_start(log.directory, log.topic_id, partition, start)
        for task in set(tasks) - early:
            found.update(run(log, plan, task, may_lose=True))

        assert found <= rows
        assert all(found[row] for row in rows if row[1] >= starts[row[0]])
