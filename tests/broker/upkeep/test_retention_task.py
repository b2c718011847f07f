"""Old and surplus records go by themselves: only where they may, and for nothing when idle."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

import pytest

from broker.upkeep.retention_task import Retention
from logstore.config.broker import BrokerSettings
from logstore.epoch.log import Log
from logstore.epoch.table_queries import TableQueries
from logstore.errors import Retryable
from logstore.formats.table_row import TABLE, TableRow
from logstore.formats.topic_partition import TopicPartition
from logstore.history.forms.snapshot import DataFile, Snapshot
from logstore.ports.registry import Condition, Row
from logstore.protocol.rules.retention import parts_of_rows
from logstore.protocol.topics.topic_configs import change_topic_configs
from logstore.runners.step_runner import StepRunner
from logstore.testing.virtual_loop import EPOCH_MS, VirtualClock, run
from tests.logstore.written import NoTables, WrittenLog

DAY_MS = 86_400_000
SETTINGS = BrokerSettings({"log.retention.hours": "24"})

Story = Callable[[WrittenLog, Log, Retention], Awaitable[None]]


class KnownTables(NoTables):
    """Tables whose newest version is given."""

    def __init__(self, snapshots: Mapping[bytes, Snapshot]) -> None:
        self.snapshots = snapshots

    async def snapshot(self, topic_id: bytes) -> Snapshot | None:
        return self.snapshots.get(topic_id)


def play(story: Story, tables: TableQueries | None = None) -> None:
    async def scenario() -> None:
        written = WrittenLog(checkpoint_segments=4)
        async with written.life() as log:
            await story(written, log, Retention(log, SETTINGS, tables or NoTables()))

    run(scenario())


async def fill(written: WrittenLog, log: Log, ages_days: Sequence[float], **configs: str) -> None:
    """The topic `orders` with a batch of one record for each age."""
    named = {name.replace("_", "."): value for name, value in configs.items()}
    topic = await log.create_topic("orders", 1, named)
    now_ms = written.runner.clock.now_ms()
    for age in ages_days:
        await written.write(log, topic.leaders[0], [now_ms - int(age * DAY_MS)])


def log_start(log: Log) -> int:
    """What the leader knows, once its row says the same."""
    topic = log.topics["orders"]
    leader = topic.leaders[0]
    assert leader.row.log_start == leader.log_start
    return leader.log_start


def test_records_older_than_retention_go_and_the_registry_knows() -> None:
    async def story(written: WrittenLog, log: Log, retention: Retention) -> None:
        await fill(written, log, [3, 2, 1.5, 0.9, 2, 0])
        await retention.run_once()
        assert log_start(log) == 3
        (key,) = written.records
        reader = await written.reader()
        assert reader.partitions(reader.topics())[key].row.log_start == 3

    play(story)


async def test_a_wall_clock_days_ahead_costs_no_record_and_is_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    written = WrittenLog(checkpoint_segments=4)
    ahead = VirtualClock(EPOCH_MS + 30 * DAY_MS)
    async with written.life(runner=replace(written.runner, clock=ahead)) as log:
        await fill(written, log, [3, 0.5, 0])
        retention = Retention(log, SETTINGS, NoTables())
        await retention.run_once()
        assert log_start(log) == 1
        await retention.run_once()
    assert sum("30.0 days ahead" in one.message for one in caplog.records) == 1


def test_a_topic_wholly_too_old_is_empty_afterwards_and_goes_on() -> None:
    async def story(written: WrittenLog, log: Log, retention: Retention) -> None:
        await fill(written, log, [3, 2, 2])
        leader = log.topics["orders"].leaders[0]
        await retention.run_once()
        assert log_start(log) == leader.high_watermark == 3
        await written.write(log, leader, [EPOCH_MS])
        await retention.run_once()
        assert (log_start(log), leader.high_watermark) == (3, 4)

    play(story)


def test_nothing_above_the_high_watermark_goes() -> None:
    """What was appended and is not committed may never have been."""

    async def story(written: WrittenLog, log: Log, retention: Retention) -> None:
        await fill(written, log, [3, 2])
        leader = log.topics["orders"].leaders[0]
        await retention.run_once()
        written.append(leader, [EPOCH_MS - 3 * DAY_MS])
        assert leader.log_end == 3
        await retention.run_once()
        assert log_start(log) <= leader.high_watermark

    play(story)


def test_the_oldest_go_until_retention_bytes_are_left() -> None:
    async def story(written: WrittenLog, log: Log, retention: Retention) -> None:
        await fill(written, log, [0] * 10, retention_bytes="0", retention_ms="-1")
        leader = log.topics["orders"].leaders[0]
        found = await log.index_rows(leader, 0)
        first = next(parts_of_rows(found.rows, found.number, 1))
        await configure(log, {"retention.ms": "-1", "retention.bytes": str(first.byte_count * 4)})
        await retention.run_once()
        assert log_start(log) == 6
        for _ in range(9):
            await written.write(log, leader, [EPOCH_MS])
        await retention.run_once()
        assert log_start(log) == 15

    play(story)


async def test_what_a_life_before_wrote_is_found_in_checkpoints() -> None:
    written = WrittenLog(checkpoint_segments=3)
    async with written.life(clean=False) as log:
        await fill(written, log, [3] * 8 + [0] * 8)
    async with written.life() as log:
        await written.write(log, log.topics["orders"].leaders[0], [EPOCH_MS])
        await Retention(log, SETTINGS, NoTables()).run_once()
        assert log_start(log) == 8


async def configure(log: Log, configs: Mapping[str, str]) -> None:
    topic = log.topics["orders"]
    await log.runner.run(change_topic_configs("orders", topic.topic_id, lambda _: dict(configs)))
    while log.topics["orders"].configs != configs:
        log.look_again()
        await log.runner.clock.sleep_s(0.1)


def test_a_changed_config_counts_from_the_next_pass_on() -> None:
    async def story(written: WrittenLog, log: Log, retention: Retention) -> None:
        await fill(written, log, [3, 2, 0], retention_ms="-1")
        await retention.run_once()
        assert log_start(log) == 0
        await configure(log, {"retention.ms": str(int(2.5 * DAY_MS))})
        await retention.run_once()
        assert log_start(log) == 1
        await configure(log, {"retention.ms": "1000", "cleanup.policy": "compact"})
        await retention.run_once()
        assert log_start(log) == 1

    play(story)


def test_the_topics_of_the_cluster_itself_are_left_alone() -> None:
    async def story(written: WrittenLog, log: Log, retention: Retention) -> None:
        topic = await log.create_topic("__consumer_offsets", 1, {})
        await written.write(log, topic.leaders[0], [EPOCH_MS - 9 * DAY_MS])
        await retention.run_once()
        assert topic.leaders[0].log_start == 0

    play(story)


async def test_an_idle_pass_over_a_thousand_partitions_asks_nothing() -> None:
    written = WrittenLog(checkpoint_segments=50)
    async with written.life() as log:
        topic = await log.create_topic("wide", 1000, {"retention.bytes": "1000000"})
        for leader in topic.leaders.values():
            written.append(leader, [EPOCH_MS])
    async with written.life() as log:
        retention = Retention(log, SETTINGS, NoTables())
        await retention.run_once()
        asked: list[str] = []
        log.runner = watched(written.runner, asked)
        await retention.run_once()
        assert not asked


def watched(runner: StepRunner, asked: list[str]) -> StepRunner:
    class Watched:
        def __init__(self, port: object) -> None:
            self._port = port

        def __getattr__(self, name: str) -> object:
            asked.append(name)
            return getattr(self._port, name)

    store, registry = Watched(runner.store), Watched(runner.registry)
    return replace(runner, store=store, registry=registry)  # type: ignore[arg-type]


def test_what_only_the_table_holds_still_counts() -> None:
    """Else all of it would be passed over: the log itself begins above."""
    tables = KnownTables({})

    async def story(written: WrittenLog, log: Log, retention: Retention) -> None:
        await fill(written, log, [3, 3, 2, 2, 0, 0])
        topic = log.topics["orders"]
        young, old = EPOCH_MS, EPOCH_MS - 2 * DAY_MS
        files = {0: [a_file(0, 1, old), a_file(2, 3, young)]}
        tables.snapshots = {topic.topic_id: Snapshot(topic.topic_id, 1, {0: 4}, files)}
        row = TableRow(version=1, ends={0: 4}).row()
        await log.runner.registry.put_if(TABLE, topic.topic_id.hex(), row)
        await retention.run_once()
        assert log_start(log) == 2

    play(story, tables)


def a_file(first: int, last: int, newest_ms: int | None) -> DataFile:
    return DataFile(f"{first}", 0, 1, 100, first, last, newest_ms, newest_ms)


async def test_records_without_a_timestamp_go_a_retention_after_they_were_written() -> None:
    """In segments of two lives, of which checkpoints hold some and a leader's memory some."""

    written = WrittenLog(checkpoint_segments=3)
    async with written.life(clean=False) as log:
        topic = await log.create_topic("orders", 1, {"retention.ms": "60000"})
        for _ in range(4):
            await written.write(log, topic.leaders[0], [-1])
    await written.runner.clock.sleep_s(62)
    async with written.life() as log:
        leader = log.topics["orders"].leaders[0]
        retention = Retention(log, SETTINGS, NoTables())
        await retention.run_once()
        assert log_start(log) == leader.high_watermark == 4
        await written.write(log, leader, [-1])
        await retention.run_once()
        assert log_start(log) == 4
        await written.runner.clock.sleep_s(62)
        await retention.run_once()
        assert log_start(log) == 5


def test_a_table_file_without_timestamps_counts_by_when_the_store_took_it() -> None:
    tables = KnownTables({})

    async def story(written: WrittenLog, log: Log, retention: Retention) -> None:
        await fill(written, log, [0] * 6, retention_ms="60000")
        topic = log.topics["orders"]
        files = [a_file(at, at + 1, None) for at in (0, 2)]
        snapshot = Snapshot(topic.topic_id, 1, {0: 4}, {0: files})
        tables.snapshots = {topic.topic_id: snapshot}
        await log.runner.registry.put_if(
            TABLE, topic.topic_id.hex(), TableRow(version=1, ends={0: 4}).row()
        )
        await log.runner.store.create(snapshot.key_of("0"), [b"rows"])
        await written.runner.clock.sleep_s(62)
        await log.runner.store.create(snapshot.key_of("2"), [b"rows"])
        await retention.run_once()
        assert log_start(log) == 2

    play(story, tables)


def test_a_store_that_is_away_is_reported_once_and_asked_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        written = WrittenLog(checkpoint_segments=3)
        async with written.life() as log:
            await fill(written, log, [3] * 8)
        async with written.life() as log:
            retention = Retention(log, SETTINGS, NoTables())
            update_if, is_away = written.rows.update_if, True

            async def maybe(
                pk: str, sk: str, sets: Row, conditions: Sequence[Condition], write_id: str
            ) -> None:
                if is_away and "log_start" in sets:
                    raise Retryable("the registry is away")
                await update_if(pk, sk, sets, conditions, write_id)

            written.rows.update_if = maybe  # type: ignore[method-assign]
            for _ in range(3):
                await retention.run_once()
            assert log_start(log) == 0
            is_away = False
            await retention.run_once()
            assert log_start(log) == 8

    with caplog.at_level(logging.INFO):
        run(scenario())
    reported = [
        record for record in caplog.records if record.name == "broker.upkeep.retention_task"
    ]
    assert [record.levelname for record in reported] == ["WARNING", "INFO"]


async def test_who_does_not_lead_any_more_raises_nothing() -> None:
    written = WrittenLog(checkpoint_segments=3)
    async with written.life(clean=False) as log:
        await fill(written, log, [3] * 8)
        stale = Retention(log, SETTINGS, NoTables())
        leader = log.topics["orders"].leaders[0]
        async with written.life():
            log.topics["orders"].leaders[0] = leader
            await stale.run_once()
            assert leader.log_start == 0
    (key,) = written.records
    assert isinstance(key, TopicPartition)
    reader = await written.reader()
    assert reader.partitions(reader.topics())[key].row.log_start == 0
