"""A stream's offsets over its life, as Spark asks for them, without Spark."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from logstore.errors import Invalid, LogstoreError, OutcomeUnknown, Refused, Throttled
from logstore.open import ReadableLog, open_objects, open_readable
from logstore.perform import RegistryReads
from logstore.records.encode import encode_batch, records_of
from logstore.records.record import Record
from logstore.registry.store import Row
from spark_source.offsets import Json
from spark_source.options import Mode, parse_options
from spark_source.progress import Progress
from spark_source.rows import read_rows
from spark_source.survey import PATIENCE_S, REGISTRY_INTERVAL_S, Survey
from tests.spark_source.log_on_disk import LogOnDisk
from tests.spark_source.places import raise_log_start
from tests.spark_source.stepped_time import SteppedTime


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LogOnDisk]:
    with LogOnDisk(tmp_path / "log") as log:
        yield log


def progress_of(
    log: LogOnDisk,
    mode: Mode = Mode.STREAM,
    *,
    time: SteppedTime | None = None,
    faults: list[LogstoreError] | None = None,
    **options: str | None,
) -> Progress:
    chosen = {"path": str(log.directory), "subscribe": "orders", **options}
    given = {name: text for name, text in chosen.items() if text is not None}
    parsed = parse_options(given, mode)
    time = time or SteppedTime()

    def open_faulty(url: str, storage: Mapping[str, str]) -> ReadableLog:
        opened = open_readable(url, storage)
        assert opened.performer.registry is not None
        registry = FaultyReads(opened.performer.registry, faults or [])
        return replace(opened, performer=replace(opened.performer, registry=registry))

    survey = Survey(
        parsed.url, parsed.topics, clock=time, sleep_s=time.pass_s, open_log=open_faulty
    )
    return Progress(parsed, survey, 2)


def batch(count: int) -> bytes:
    return encode_batch(records_of([(b"key", b"value")] * count, timestamp=1))


def next_of(offsets: Json, topic: str = "orders") -> dict[str, int]:
    found: dict[str, int] = offsets["topics"][topic]["next"]
    return found


def read(log: LogOnDisk, plan: Any) -> list[tuple[str, int, int]]:
    tasks, topics = plan
    columns = ("topic", "partition", "offset")
    return [
        tuple(row.values())
        for task in tasks
        for rows in read_rows(open_objects(str(log.directory)), task, topics, columns)
        for row in rows.to_pylist()
    ]


def test_a_start_at_latest_stays_where_it_was_while_the_log_grows(log: LogOnDisk) -> None:
    log.create_topic("orders", 2)
    log.append("orders", 0, batch(5))
    progress = progress_of(log)
    start = progress.initial()
    log.append("orders", 0, batch(3))

    assert next_of(start) == {"0": 5, "1": 0}
    assert progress.initial() == start
    assert progress.latest(start, is_limited=True) == start, "the first batch stores the start"
    end = progress.latest(start, is_limited=True)
    assert next_of(end) == {"0": 8, "1": 0}
    assert read(log, progress.between(start, end)) == [("orders", 0, n) for n in (5, 6, 7)]


def test_a_replay_of_the_first_batch_is_empty_and_nothing_after_it_is_lost(
    log: LogOnDisk,
) -> None:
    log.create_topic("orders", 1)
    log.append("orders", 0, batch(5))
    logged = progress_of(log).initial()
    log.append("orders", 0, batch(3))

    restarted = progress_of(log)
    newer = restarted.initial()
    assert next_of(newer) == {"0": 8}
    assert restarted.between(newer, logged) == ([], {})
    end = restarted.latest(logged, is_limited=False)
    assert len(read(log, restarted.between(logged, end))) == 3


def test_a_start_at_earliest_needs_no_empty_batch(log: LogOnDisk) -> None:
    log.create_topic("orders", 1)
    log.append("orders", 0, batch(5))
    progress = progress_of(log, startingOffsets="earliest")
    start = progress.initial()

    assert next_of(start) == {"0": 0}
    assert next_of(progress.latest(start, is_limited=False)) == {"0": 5}


def test_a_batch_is_planned_from_its_two_offsets_alone(log: LogOnDisk) -> None:
    log.create_topic("orders", 2)
    log.append("orders", 0, batch(5), batch(5))
    log.append("orders", 1, batch(4))
    first = progress_of(log, startingOffsets="earliest")
    start = first.initial()
    end = first.latest(start, is_limited=False)

    replayed = progress_of(log, startingOffsets="earliest")
    assert sorted(read(log, replayed.between(start, end))) == sorted(
        [("orders", 0, n) for n in range(10)] + [("orders", 1, n) for n in range(4)]
    )


def test_a_fixed_target_is_reached_and_not_passed(log: LogOnDisk) -> None:
    log.create_topic("orders", 1)
    log.append("orders", 0, batch(50))
    progress = progress_of(log, startingOffsets="earliest", maxOffsetsPerTrigger="20")
    progress.fix_target()
    offset = progress.initial()
    log.append("orders", 0, batch(50))
    seen = []
    while (end := progress.latest(offset, is_limited=True)) != offset:
        offset = end
        seen.append(next_of(end)["0"])

    assert seen == [20, 40, 50]


def test_a_fixed_target_below_a_start_at_latest_ends_at_once(log: LogOnDisk) -> None:
    log.create_topic("orders", 1)
    progress = progress_of(log)
    progress.fix_target()
    log.append("orders", 0, batch(5))
    start = progress.initial()

    assert next_of(start) == {"0": 5}
    assert progress.latest(start, is_limited=True) == start
    assert progress.latest(start, is_limited=True) == start


def test_trigger_once_is_not_limited(log: LogOnDisk) -> None:
    log.create_topic("orders", 1)
    log.append("orders", 0, batch(50))
    progress = progress_of(log, startingOffsets="earliest", maxOffsetsPerTrigger="20")

    assert next_of(progress.latest(progress.initial(), is_limited=False)) == {"0": 50}


def test_a_byte_limit_moves_on_by_about_that_many_bytes_of_objects(log: LogOnDisk) -> None:
    log.create_topic("orders", 1)
    for _ in range(40):
        log.append("orders", 0, encode_batch(records_of([(None, bytes(1000))] * 10, timestamp=1)))
    progress = progress_of(log, startingOffsets="earliest", maxBytesPerTrigger="100000")
    offset = progress.initial()
    steps = []
    while next_of(offset) != {"0": 400}:
        end = progress.latest(offset, is_limited=True)
        steps.append(next_of(end)["0"] - next_of(offset)["0"])
        offset = end

    assert 3 <= len(steps) <= 8
    assert all(50 <= step <= 110 for step in steps[:-1])


def test_no_news_are_waited_for_and_then_the_answer_is_the_start(log: LogOnDisk) -> None:
    log.create_topic("orders", 1)
    time = SteppedTime()
    progress = progress_of(log, time=time, startingOffsets="earliest")
    start = progress.initial()

    assert progress.latest(start, is_limited=True) == start
    assert time.passed_s == pytest.approx(0.5)
    first_sleeps = len(time.sleeps)
    for _ in range(20):
        assert progress.latest(start, is_limited=True) == start
    time.sleeps.clear()
    for _ in range(20):
        progress.latest(start, is_limited=True)
    assert first_sleeps > 10
    assert len(time.sleeps) <= 2 * 20, "an idle log is asked ever more rarely"


def test_news_end_the_wait(log: LogOnDisk) -> None:
    log.create_topic("orders", 1)
    time = SteppedTime()
    progress = progress_of(log, time=time, startingOffsets="earliest")
    start = progress.initial()
    time.at(0.1, lambda: log.append("orders", 0, batch(1)))

    assert next_of(progress.latest(start, is_limited=True)) == {"0": 1}
    assert time.passed_s < 0.2


def test_what_passes_is_tried_again_and_what_stays_is_told(log: LogOnDisk) -> None:
    log.create_topic("orders", 1)
    log.append("orders", 0, batch(1))
    faults: list[LogstoreError] = [Throttled("slow down"), OutcomeUnknown("reset")]
    progress = progress_of(log, faults=faults, startingOffsets="earliest")
    assert next_of(progress.latest(progress.initial(), is_limited=True)) == {"0": 1}
    assert not faults

    time = SteppedTime()
    faults += [Throttled("slow down") for _ in range(100)]
    with pytest.raises(Throttled):
        progress_of(log, time=time, faults=faults).initial()
    assert PATIENCE_S <= time.passed_s < PATIENCE_S + 3
    assert len(faults) < 100


def test_a_topic_that_does_not_exist_is_named(log: LogOnDisk) -> None:
    log.create_topic("orders", 1)

    with pytest.raises(Invalid, match=r"no such topic: returns; log=/.*correct the option subscr"):
        progress_of(log, subscribe="orders,returns").initial()


def test_a_directory_without_a_log_is_refused(tmp_path: Path) -> None:
    options = parse_options({"path": str(tmp_path), "subscribe": "orders"}, Mode.STREAM)

    with pytest.raises(Refused, match=r"no log here: url=.* has no cluster\.json"):
        Progress(options, Survey(options.url, options.topics), 2).initial()


@pytest.mark.parametrize("again", [False, True], ids=["deleted", "created again"])
def test_a_topic_whose_life_ended_ends_the_query_unless_it_may_lose_data(
    log: LogOnDisk, again: bool
) -> None:
    log.create_topic("orders", 1)
    log.append("orders", 0, batch(5))
    start = progress_of(log, startingOffsets="earliest").initial()
    end = progress_of(log).initial()
    log.delete_topic("orders")
    if again:
        log.create_topic("orders", 1)
        log.append("orders", 0, batch(2))

    strict = progress_of(log)
    with pytest.raises(Refused, match="was deleted"):
        strict.latest(start, is_limited=True)
    with pytest.raises(Refused, match="was deleted"):
        strict.between(start, end)
    lenient = progress_of(log, failOnDataLoss="false")
    assert lenient.between(start, end)[0] == []
    after = lenient.latest(end, is_limited=True)
    expected = [("orders", 0, 0), ("orders", 0, 1)] if again else []
    assert read(log, lenient.between(end, after)) == expected


def test_a_topic_subscribed_later_is_read_from_its_beginning(log: LogOnDisk) -> None:
    log.create_topic("orders", 1)
    start = progress_of(log).initial()
    log.create_topic("returns", 1)
    log.append("returns", 0, batch(2))

    restarted = progress_of(log, subscribe="orders,returns")
    end = restarted.latest(start, is_limited=True)
    assert read(log, restarted.between(start, end)) == [("returns", 0, 0), ("returns", 0, 1)]


def test_a_stream_goes_on_through_lives_of_the_broker(tmp_path: Path) -> None:
    with LogOnDisk(tmp_path) as log:
        log.create_topic("orders", 1)
        progress = progress_of(log, startingOffsets="earliest")
        offset = progress.initial()
    found = []
    for life in range(3):
        with LogOnDisk(tmp_path) as log:
            log.append("orders", 0, *[batch(1)] * (life + 1))
            end = progress.latest(offset, is_limited=True)
            found += read(log, progress.between(offset, end))
            offset = end

    assert found == [("orders", 0, n) for n in range(6)]


def test_a_batch_reads_from_and_up_to_what_it_is_told(log: LogOnDisk) -> None:
    log.create_topic("orders", 3)
    log.append_all([("orders", partition, batch(10)) for partition in range(3)])
    progress = progress_of(
        log,
        Mode.BATCH,
        startingOffsets='{"orders":{"0":4,"1":-2}}',
        endingOffsets='{"orders":{"0":6,"1":3,"2":-1}}',
    )

    expected = [(0, 4), (0, 5), *((1, n) for n in range(3)), *((2, n) for n in range(10))]
    assert sorted(read(log, progress.batch())) == [("orders", p, n) for p, n in expected]


def timed(*times: int) -> bytes:
    values = [Record(number, time, None, b"v") for number, time in enumerate(times)]
    return encode_batch(values)


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
    given = {"startingOffsets": '{"orders":{"0":2}}'}

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
    assigned = {"subscribe": None, "assign": '{"orders":[0,2]}', "startingOffsets": "earliest"}
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
    time.pass_s(REGISTRY_INTERVAL_S)
    end = progress.latest(start, is_limited=True)
    assert list(end["topics"]) == ["orders"]
    assert read(log, progress.between(start, end)) == [("orders", 0, 0), ("orders", 0, 1)]


def test_few_records_wait_for_more_or_for_the_delay(log: LogOnDisk) -> None:
    log.create_topic("orders", 1)
    log.append("orders", 0, batch(3))
    time = SteppedTime()
    slow = {"minOffsetsPerTrigger": "10", "maxTriggerDelay": "60s"}
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
    limits = {"minOffsetsPerTrigger": "10", "maxOffsetsPerTrigger": "20"}
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
    log: LogOnDisk, options: dict[str, str], tasks: int
) -> None:
    log.create_topic("orders", 2)
    log.append("orders", 0, batch(20))
    log.append("orders", 1, batch(20))
    plan = progress_of(log, Mode.BATCH, **options).batch()

    assert len(plan[0]) == tasks
    assert sorted(read(log, plan)) == [("orders", p, n) for p in range(2) for n in range(20)]


class FaultyReads:
    """A registry whose next calls fail, one for each of `faults`."""

    def __init__(self, registry: RegistryReads, faults: list[LogstoreError]) -> None:
        self._registry = registry
        self._faults = faults

    def get(self, pk: str, sk: str) -> Row | None:
        self._fail()
        return self._registry.get(pk, sk)

    def query(self, pk: str, prefix: str = "") -> Sequence[tuple[str, Row]]:
        self._fail()
        return self._registry.query(pk, prefix)

    def _fail(self) -> None:
        if self._faults:
            raise self._faults.pop()
