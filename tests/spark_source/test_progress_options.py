"""What options make of a query's start, end and batches, without Spark."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, LessThan

from logstore.errors import Invalid, Refused
from logstore.reading.direct.log_metadata import FEED_INTERVAL_S
from logstore.records.encode import encode_batch, records_of
from spark_source.options import Mode
from spark_source.planning.filters import conditions_of
from tests.spark_source.log_on_disk import LogOnDisk
from tests.spark_source.places import raise_log_start
from tests.spark_source.progressing import batch, next_of, progress_of, read, timed
from tests.spark_source.stepped_time import SteppedTime


def at_ms(time_ms: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time_ms)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LogOnDisk]:
    with LogOnDisk(tmp_path / "log") as log:
        yield log


def test_a_start_by_time_is_the_first_record_that_is_not_older(log: LogOnDisk) -> None:
    log.create_topic("orders", 2)
    log.append("orders", 0, timed(10, 20, 30), timed(15, 40))
    log.append("orders", 1, timed(100))

    everywhere = progress_of(log, startingTimestamp="20")
    assert next_of(everywhere.initial()) == {"0": 1, "1": 0}
    one = progress_of(log, startingOffsetsByTimestamp='{"orders":{"0":35}}')
    assert next_of(one.initial()) == {"0": 4, "1": 0}, "no time: earliest"


def test_a_time_newer_than_all_is_refused_or_starts_at_the_end_and_stays_there(
    log: LogOnDisk,
) -> None:
    log.create_topic("orders", 2)
    log.append("orders", 0, timed(10, 20))
    log.append("orders", 1, timed(100))

    with pytest.raises(Invalid, match=r"startingTimestamp: no .*topic=orders partition=0 time=50;"):
        progress_of(log, startingTimestamp="50").initial()
    lenient = progress_of(log, startingTimestamp="50", startingOffsetsByTimestampStrategy="latest")
    start = lenient.initial()
    assert next_of(start) == {"0": 2, "1": 0}
    log.append("orders", 0, timed(1))
    assert lenient.latest(start, is_limited=True) == start, "stored before anything is read"
    assert next_of(lenient.latest(start, is_limited=True)) == {"0": 3, "1": 1}


def test_a_time_for_a_partition_that_does_not_exist_is_refused(log: LogOnDisk) -> None:
    log.create_topic("orders", 1)

    with pytest.raises(Invalid, match=r"ByTimestamp names partitions .*topic=orders.*\[3\]"):
        progress_of(log, startingOffsetsByTimestamp='{"orders":{"3":1}}').initial()


def test_a_time_below_log_start_means_log_start(log: LogOnDisk, tmp_path: Path) -> None:
    topic_id = log.create_topic("orders", 1)
    log.append("orders", 0, timed(10, 20, 30))
    raise_log_start(tmp_path / "log", topic_id, 0, 2)

    assert next_of(progress_of(log, startingTimestamp="10").initial()) == {"0": 2}


def test_offsets_below_log_start_are_refused_by_the_option_that_asks_for_them(
    log: LogOnDisk, tmp_path: Path
) -> None:
    topic_id = log.create_topic("orders", 1)
    log.append("orders", 0, batch(10))
    raise_log_start(tmp_path / "log", topic_id, 0, 4)
    given: dict[str, Any] = {"startingOffsets": '{"orders":{"0":2}}'}

    says = (
        r"startingOffsets asks.*topic=orders partition=0 offset=2 there=\[4, 10\).*failOnDataLoss"
    )
    with pytest.raises(Refused, match=says):
        progress_of(log, Mode.BATCH, **given).batch()
    lenient = progress_of(log, Mode.BATCH, failOnDataLoss="false", **given)
    assert read(log, lenient.batch()) == [("orders", 0, n) for n in range(4, 10)]


def test_a_batch_that_ends_before_it_starts_is_refused(log: LogOnDisk) -> None:
    log.create_topic("orders", 1)
    log.append("orders", 0, batch(10))
    progress = progress_of(
        log,
        Mode.BATCH,
        startingOffsets='{"orders":{"0":5}}',
        endingOffsets='{"orders":{"0":3}}',
    )

    with pytest.raises(Invalid, match="topic=orders partition=0 start=5 end=3; correct starting"):
        progress.batch()


def test_only_assigned_partitions_are_read_and_each_must_exist(log: LogOnDisk) -> None:
    log.create_topic("orders", 3)
    log.append_all([("orders", partition, batch(2)) for partition in range(3)])
    assigned: dict[str, Any] = {
        "subscribe": None,
        "assign": '{"orders":[0,2]}',
        "startingOffsets": "earliest",
    }
    progress = progress_of(log, **assigned)

    end = progress.latest(progress.initial(), is_limited=True)
    assert next_of(end) == {"0": 2, "2": 2}
    with pytest.raises(Invalid, match=r"assign names partitions that do not exist.*\[7\]"):
        progress_of(log, subscribe=None, assign='{"orders":[0,7]}').initial()


def test_topics_that_match_a_pattern_later_are_read_from_their_beginning(log: LogOnDisk) -> None:
    time = SteppedTime()
    progress = progress_of(
        log, time=time, subscribe=None, subscribePattern="^or", startingOffsets="earliest"
    )
    start = progress.initial()
    assert start["topics"] == {}
    assert progress.latest(start, is_limited=True) == start

    log.create_topic("orders", 1)
    log.create_topic("floor", 1)
    log.append("orders", 0, batch(2))
    time.pass_s(FEED_INTERVAL_S)
    end = progress.latest(start, is_limited=True)
    assert list(end["topics"]) == ["orders"]
    assert read(log, progress.between(start, end)) == [("orders", 0, 0), ("orders", 0, 1)]


def test_few_records_wait_for_more_or_for_the_delay(log: LogOnDisk) -> None:
    log.create_topic("orders", 1)
    log.append("orders", 0, batch(3))
    time = SteppedTime()
    slow: dict[str, Any] = {"minOffsetsPerTrigger": "10", "maxTriggerDelay": "60s"}
    progress = progress_of(log, time=time, startingOffsets="earliest", **slow)
    first = progress.latest(progress.initial(), is_limited=True)
    assert next_of(first) == {"0": 3}, "the first batch waits for nothing"

    log.append("orders", 0, batch(4))
    assert progress.latest(first, is_limited=True) == first
    assert next_of(progress.latest(first, is_limited=False)) == {"0": 7}, "Trigger.Once"
    log.append("orders", 0, batch(6))
    second = progress.latest(first, is_limited=True)
    assert next_of(second) == {"0": 13}
    log.append("orders", 0, batch(1))
    time.pass_s(60)
    assert next_of(progress.latest(second, is_limited=True)) == {"0": 14}


def test_few_records_left_are_left_when_the_end_is_fixed(log: LogOnDisk) -> None:
    log.create_topic("orders", 1)
    log.append("orders", 0, batch(25))
    limits: dict[str, Any] = {"minOffsetsPerTrigger": "10", "maxOffsetsPerTrigger": "20"}
    progress = progress_of(log, startingOffsets="earliest", **limits)
    progress.fix_target()
    end = progress.latest(progress.initial(), is_limited=True)

    assert next_of(end) == {"0": 20}
    assert progress.latest(end, is_limited=True) == end


@pytest.mark.parametrize(
    ("options", "tasks"),
    [
        ({}, 1),
        ({"minPartitions": "2"}, 2),
        ({"minPartitions": "10"}, 10),
        ({"maxRecordsPerPartition": "7"}, 6),
        ({"maxRecordsPerPartition": "20"}, 2),
    ],
)
def test_tasks_are_as_many_as_asked_for_and_read_everything_once(
    log: LogOnDisk, options: dict[str, Any], tasks: int
) -> None:
    log.create_topic("orders", 2)
    log.append("orders", 0, batch(20))
    log.append("orders", 1, batch(20))
    plan = progress_of(log, Mode.BATCH, **options).batch()

    assert len(plan[0]) == tasks
    assert sorted(read(log, plan)) == [("orders", p, n) for p in range(2) for n in range(20)]


def test_another_life_of_the_topic_than_the_one_that_is_meant_is_refused(log: LogOnDisk) -> None:
    meant = log.create_topic("orders", 1).hex()
    reported = progress_of(log, startingOffsets="earliest", topicId=meant)
    assert next_of(reported.initial()) == {"0": 0}
    log.delete_topic("orders")
    log.create_topic("orders", 1)

    with pytest.raises(Refused, match=f"created again: topic=orders id={meant}"):
        progress_of(log, startingOffsets="earliest", topicId=meant).initial()


def test_a_batch_is_cut_for_the_executors_that_the_query_says_it_has(log: LogOnDisk) -> None:
    log.create_topic("orders", 1)
    megabyte = encode_batch(records_of([(None, bytes(1_000_000))], timestamp=1))
    for _ in range(5):
        log.append("orders", 0, *[megabyte] * 8)

    def tasks(**options: Any) -> int:
        return len(progress_of(log, Mode.BATCH, **options).batch()[0])

    assert tasks() == 2, "cores of this machine"
    assert tasks(parallelism="1") == 1
    assert tasks(parallelism="4") == 4
    assert tasks(parallelism="400") == 5, "no task below 8 MiB"


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([EqualTo(("partition",), 1)], [(1, 0), (1, 1)]),
        ([GreaterThan(("offset",), 2)], [(0, 3), (0, 4)]),
        ([GreaterThanOrEqual(("timestamp",), at_ms(20))], [(0, 1), (0, 2), (0, 3), (0, 4)]),
        ([EqualTo(("timestamp_ms",), 25), LessThan(("offset",), 3)], [(0, 2)]),
        ([EqualTo(("partition",), 7)], []),
        ([GreaterThan(("timestamp",), at_ms(90))], []),
    ],
)
def test_a_plan_holds_what_filters_may_want(
    log: LogOnDisk, filters: list[Filter], expected: list[tuple[int, int]]
) -> None:
    """Batches are read whole, so each record of partition 0 has one of its own."""
    log.create_topic("orders", 2)
    log.append("orders", 0, *(timed(time) for time in (10, 20, 30, 5, 40)))
    log.append("orders", 1, timed(1), timed(2))

    plan = progress_of(log, Mode.BATCH).batch(conditions_of(filters))

    assert sorted(read(log, plan)) == [("orders", *place) for place in expected]


def test_filters_do_not_hide_that_records_are_gone(log: LogOnDisk, tmp_path: Path) -> None:
    topic_id = log.create_topic("orders", 1)
    log.append("orders", 0, batch(10))
    raise_log_start(tmp_path / "log", topic_id, 0, 4)
    asked = progress_of(log, Mode.BATCH, startingOffsets='{"orders":{"0":2}}')

    with pytest.raises(Refused, match="startingOffsets asks"):
        asked.batch(conditions_of([GreaterThan(("offset",), 5)]))
