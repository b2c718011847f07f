"""A stream's offsets over its life, as Spark asks for them, without Spark."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from logstore.errors import Invalid, LogstoreError, OutcomeUnknown, Refused, Throttled
from logstore.reading.direct.log_metadata import FEED_INTERVAL_S, PATIENCE_S, LogMetadata
from logstore.records.encode import encode_batch, records_of
from spark_source.options import Mode, parse_options
from spark_source.planning.offsets import Json
from spark_source.progress import LOOK_AGE_S_MAX, Progress
from tests.logstore.cli.fsck.test_fsck import add_row, change_row, drop_row, row_of, rows_of
from tests.spark_source.log_on_disk import LogOnDisk
from tests.spark_source.places import raise_log_start
from tests.spark_source.progressing import batch, next_of, progress_of, read
from tests.spark_source.stepped_time import SteppedTime


def logged(offsets: Json) -> Json:
    """As it comes back from a checkpoint."""
    read_back: Json = json.loads(json.dumps(offsets))
    return read_back


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LogOnDisk]:
    with LogOnDisk(tmp_path / "log") as log:
        yield log


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


def test_a_partition_is_read_once_its_topic_has_grown(tmp_path: Path) -> None:
    """A growth writes rows of partitions first. One that dies then leaves them behind."""
    directory = tmp_path / "log"
    with LogOnDisk(directory) as log:
        log.create_topic("orders", 2)
    change_row(directory, "topic", "orders", partitions=1)

    assert next_of(progress_of(log).initial()) == {"0": 0}

    change_row(directory, "topic", "orders", partitions=2)
    assert next_of(progress_of(log).initial()) == {"0": 0, "1": 0}


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


@pytest.mark.parametrize(("offsets", "timestamp"), [("earliest", None), (None, "1")])
def test_a_first_batch_is_replayed_from_where_it_began_or_ends_the_query(
    log: LogOnDisk, offsets: str | None, timestamp: str | None
) -> None:
    """Spark stores where batch 0 ends, and asks again where it began."""

    def started(fail_on_data_loss: str = "true") -> Progress:
        return progress_of(
            log,
            startingOffsets=offsets,
            startingTimestamp=timestamp,
            failOnDataLoss=fail_on_data_loss,
        )

    topic_id = log.create_topic("orders", 2)
    for _ in range(6):
        log.append("orders", 0, batch(10))
    log.append("orders", 1, batch(3))
    first = started()
    begin = first.initial()
    end = logged(first.latest(begin, is_limited=True))
    rows = read(log, first.between(begin, end))
    assert len(rows) == 63

    same = started()
    assert read(log, same.between(same.initial(), end)) == rows

    raise_log_start(Path(log.directory), topic_id, 0, 10)
    strict = started()
    again = strict.initial()
    assert next_of(again) == {"0": 10, "1": 0}
    with pytest.raises(Refused, match=r"are gone.*partition=0 offset=0 there=\[10, 60\)"):
        strict.between(again, end)
    lenient = started("false")
    left = read(log, lenient.between(lenient.initial(), end))
    assert left == [row for row in rows if row[1:] >= (0, 10)]


def test_a_batch_tells_where_it_began_once(log: LogOnDisk) -> None:
    log.create_topic("orders", 1)
    log.append("orders", 0, batch(5))
    progress = progress_of(log, startingOffsets="earliest")
    first = progress.latest(progress.initial(), is_limited=True)

    assert progress.latest(first, is_limited=True) == first, "no news is no batch"
    log.append("orders", 0, batch(5))
    second = progress.latest(first, is_limited=True)

    assert first["topics"]["orders"]["first"] == {"0": 0}
    assert "first" not in second["topics"]["orders"]
    restarted = progress_of(log, startingOffsets="earliest")
    assert restarted.latest(second, is_limited=True) == second
    assert len(read(log, restarted.between(first, second))) == 5


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
    time = SteppedTime()
    progress = progress_of(log, time=time)
    progress.fix_target()
    log.append("orders", 0, batch(5))
    time.pass_s(LOOK_AGE_S_MAX)
    start = progress.initial()

    assert next_of(start) == {"0": 5}
    assert progress.latest(start, is_limited=True) == start
    assert progress.latest(start, is_limited=True) == start


def test_a_query_that_ends_by_itself_looks_at_the_registry_once(log: LogOnDisk) -> None:
    """Its target and its start are of one look."""
    log.create_topic("orders", 1)
    log.append("orders", 0, batch(5))
    away = [Throttled("no rows for a second look")] * 1000
    faults: list[LogstoreError] = []
    progress = progress_of(log, startingOffsets="earliest", faults=faults)
    progress.fix_target()
    faults += away
    end = progress.latest(progress.initial(), is_limited=False)

    assert next_of(end) == {"0": 5}
    assert faults == away


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


def test_what_passes_is_tried_again_and_what_stays_is_reported(log: LogOnDisk) -> None:
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
    assert PATIENCE_S - 3 < time.passed_s <= PATIENCE_S
    assert len(faults) < 100


def test_a_topic_that_does_not_exist_is_named(log: LogOnDisk) -> None:
    log.create_topic("orders", 1)

    with pytest.raises(Invalid, match=r"no such topic: returns; log=/.*correct the option subscr"):
        progress_of(log, subscribe="orders,returns").initial()


def test_a_directory_without_a_log_is_refused(tmp_path: Path) -> None:
    options = parse_options({"path": str(tmp_path), "subscribe": "orders"}, Mode.STREAM)

    with pytest.raises(Refused, match=r"no log here: url=.* has no cluster\.json"):
        Progress(options, LogMetadata(options.url, options.topics), 2).initial()


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


@pytest.mark.parametrize("lost", ["topic and partitions", "partition"])
def test_a_topic_that_a_lost_registry_lacks_is_not_left_out(tmp_path: Path, lost: str) -> None:
    """After a restore it would be read again from its beginning."""
    directory = tmp_path / "log"
    with LogOnDisk(directory) as log:
        topic_id = log.create_topic("orders", 2)
        log.append("orders", 0, batch(5))
        log.append("orders", 1, batch(5))
        start = progress_of(log, startingOffsets="earliest").initial()
        end = progress_of(log).initial()
    (partition,) = (one for one in rows_of(directory, "partition/") if one[1].endswith("/000001"))
    everything = [*rows_of(directory, "partition/"), ("topic", "orders")]
    places = [partition] if lost == "partition" else everything
    rows = {place: row_of(directory, *place) for place in places}
    for place in places:
        drop_row(directory, *place)

    restarted = progress_of(log, failOnDataLoss="false")
    for ask in (
        lambda: restarted.latest(end, is_limited=True),
        lambda: restarted.latest(end, is_limited=False),
        lambda: restarted.between(start, end),
    ):
        with pytest.raises(Refused, match=f"id={topic_id.hex()}.*logstore restore"):
            ask()

    for place, row in rows.items():
        add_row(directory, *place, row)
    restored = progress_of(log, failOnDataLoss="false")
    assert len(read(log, restored.between(start, end))) == 10
    assert restored.latest(end, is_limited=True) == end


@pytest.mark.parametrize("fails", ["true", "false"])
def test_an_older_registry_takes_no_query_back(tmp_path: Path, fails: str) -> None:
    """The registry is a copy from before a takeover: there the log ends at the older seal."""
    directory = tmp_path / "log"
    with LogOnDisk(directory) as log:
        log.create_topic("orders", 1)
        log.append("orders", 0, batch(5))
        start = progress_of(log, startingOffsets="earliest").initial()
    (place,) = rows_of(directory, "partition/")
    older = row_of(directory, *place)
    with LogOnDisk(directory) as log:
        log.append("orders", 0, batch(3))
        end = progress_of(log, startingOffsets="earliest").latest(start, is_limited=True)
    newer = row_of(directory, *place)
    drop_row(directory, *place)
    add_row(directory, *place, older)

    restarted = progress_of(log, failOnDataLoss=fails)
    for ask in (
        lambda: restarted.latest(end, is_limited=True),
        lambda: restarted.latest(end, is_limited=False),
        lambda: restarted.between(start, end),
    ):
        with pytest.raises(Refused, match=r"partition=0 offset=8 there=\[0, 5\).*logstore restore"):
            ask()

    drop_row(directory, *place)
    add_row(directory, *place, newer)
    restored = progress_of(log, failOnDataLoss=fails)
    assert len(read(log, restored.between(start, end))) == 8
    assert restored.latest(end, is_limited=True) == end


def test_a_topic_that_is_no_longer_subscribed_is_left_out(log: LogOnDisk) -> None:
    log.create_topic("orders", 1)
    log.create_topic("returns", 1)
    end = progress_of(log, subscribe="orders,returns").initial()

    changed = progress_of(log, subscribe="orders", failOnDataLoss="false")
    assert changed.latest(end, is_limited=True)["topics"].keys() == {"orders"}


def test_a_topic_subscribed_later_is_read_from_its_beginning(log: LogOnDisk) -> None:
    log.create_topic("orders", 1)
    start = progress_of(log).initial()
    log.create_topic("returns", 1)
    log.append("returns", 0, batch(2))

    restarted = progress_of(log, subscribe="orders,returns")
    end = restarted.latest(start, is_limited=True)
    assert read(log, restarted.between(start, end)) == [("returns", 0, 0), ("returns", 0, 1)]


def test_a_partition_added_later_is_read_from_its_beginning(log: LogOnDisk) -> None:
    log.create_topic("orders", 1)
    log.append("orders", 0, batch(3))
    time = SteppedTime()
    progress = progress_of(log, time=time)
    start = progress.initial()
    assert progress.latest(start, is_limited=True) == start
    log.create_partitions("orders", 2)
    log.append("orders", 1, batch(2))
    time.pass_s(FEED_INTERVAL_S)
    end = progress.latest(start, is_limited=True)

    assert next_of(end) == {"0": 3, "1": 2}
    assert read(log, progress.between(start, end)) == [("orders", 1, 0), ("orders", 1, 1)]


def test_a_partition_added_later_is_replayed_from_where_it_was_begun(log: LogOnDisk) -> None:
    topic_id = log.create_topic("orders", 1)
    start = progress_of(log).initial()
    log.create_partitions("orders", 2)
    log.append("orders", 1, batch(2), batch(2))
    progress = progress_of(log)
    end = logged(progress.latest(start, is_limited=True))
    assert len(read(log, progress.between(start, end))) == 4

    raise_log_start(Path(log.directory), topic_id, 1, 2)

    with pytest.raises(Refused, match=r"partition=1 offset=0 there=\[2, 4\)"):
        progress_of(log).between(start, end)
    left = progress_of(log, failOnDataLoss="false").between(start, end)
    assert read(log, left) == [("orders", 1, 2), ("orders", 1, 3)]


def test_what_went_of_a_new_partition_before_a_query_saw_it_ends_the_query(
    log: LogOnDisk,
) -> None:
    topic_id = log.create_topic("orders", 1)
    start = progress_of(log).initial()
    log.create_partitions("orders", 2)
    log.append("orders", 1, batch(2), batch(2))
    raise_log_start(Path(log.directory), topic_id, 1, 2)

    with pytest.raises(Refused, match=r"are gone: partition is new .* partition=1 there=\[2, 4\)"):
        progress_of(log).latest(start, is_limited=True)
    lenient = progress_of(log, failOnDataLoss="false")
    end = lenient.latest(start, is_limited=True)
    assert read(log, lenient.between(start, end)) == [("orders", 1, 2), ("orders", 1, 3)]


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


def test_a_batch_reads_from_and_up_to_the_offsets_it_is_given(log: LogOnDisk) -> None:
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
