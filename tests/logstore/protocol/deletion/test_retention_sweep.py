"""Retention without a broker: by what checkpoints hold, as careful as a leader."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from logstore.epoch.log import Log
from logstore.history.forms.snapshot import DataFile, Snapshot
from logstore.protocol.deletion.retention_sweep import Kept, Swept, sweep, topics_to_sweep
from logstore.protocol.rows.metadata import read_partition_row
from logstore.protocol.rules.retention import Policy
from logstore.testing.virtual_loop import EPOCH_MS, VirtualClock
from tests.logstore.written import WrittenLog

DAY_MS = 86_400_000
DEFAULTS = {"retention.ms": str(DAY_MS)}


async def two_lives(written: WrittenLog, configs: Mapping[str, str]) -> bytes:
    """Offsets [0, 8) are three days old, [8, 12) are new; by two brokers."""
    async with written.life() as log:
        topic = await log.create_topic("orders", 1, configs)
        for _ in range(6):
            await written.write(log, topic.leaders[0], [EPOCH_MS - 3 * DAY_MS])
    async with written.life() as log:
        for age_days in (3, 3, 0, 0, 0, 0):
            timestamps = [EPOCH_MS - age_days * DAY_MS]
            await written.write(log, log.topics["orders"].leaders[0], timestamps)
    return topic.topic_id


async def swept(written: WrittenLog, defaults: Mapping[str, str]) -> Swept:
    topics = await written.runner.run(topics_to_sweep(defaults))
    return await written.runner.run(sweep(topics, {}))


async def log_start(written: WrittenLog, topic_id: bytes) -> int:
    row = await written.runner.run(read_partition_row(topic_id, 0))
    assert row is not None
    return row.log_start


@pytest.mark.parametrize(
    ("configs", "defaults", "expected"),
    [
        ({}, {}, 0),
        ({}, DEFAULTS, 8),
        (DEFAULTS, {}, 8),
        ({"retention.ms": "-1"}, DEFAULTS, 0),
        ({"cleanup.policy": "compact"}, DEFAULTS, 0),
        ({"retention.bytes": "1"}, {}, 11),
        ({"retention.bytes": "0"}, {}, 12),
    ],
)
async def test_a_topic_is_swept_by_what_it_says_itself_or_the_caller_does(
    configs: Mapping[str, str], defaults: Mapping[str, str], expected: int
) -> None:
    written = WrittenLog(checkpoint_segments=3)
    topic_id = await two_lives(written, configs)
    done = await swept(written, defaults)
    assert await log_start(written, topic_id) == expected
    assert (done.raised, done.troubles) == (int(expected > 0), [])
    assert (await swept(written, defaults)).raised == 0


async def test_records_without_a_timestamp_are_swept_by_when_they_were_written() -> None:
    written = WrittenLog(checkpoint_segments=3)
    async with written.life() as log:
        topic = await log.create_topic("orders", 1, DEFAULTS)
        for _ in range(6):
            await written.write(log, topic.leaders[0], [-1])
    assert (await swept(written, {})).raised == 0
    await written.runner.clock.sleep_s(2 * DAY_MS / 1000)
    assert (await swept(written, {})).raised == 1
    assert await log_start(written, topic.topic_id) == 6


async def test_a_wall_clock_ahead_of_the_stores_costs_no_record() -> None:
    written = WrittenLog(checkpoint_segments=3)
    topic_id = await two_lives(written, DEFAULTS)
    written.runner = replace(written.runner, clock=VirtualClock(EPOCH_MS + 30 * DAY_MS))
    await swept(written, {})
    assert await log_start(written, topic_id) == 8


async def test_a_live_leader_hears_of_it_and_keeps_what_is_not_summed_up() -> None:
    written = WrittenLog(checkpoint_segments=4)
    async with written.life() as log:
        topic = await log.create_topic("orders", 1, DEFAULTS)
        for _ in range(12):
            await written.write(log, topic.leaders[0], [EPOCH_MS - 3 * DAY_MS])
        await swept(written, {})
        raised = await log_start(written, topic.topic_id)
        assert 0 < raised < 12
        await until_known(log, raised)


async def until_known(log: Log, log_start: int) -> None:
    while log.topics["orders"].leaders[0].log_start != log_start:
        await log.runner.clock.sleep_s(0.1)


async def test_what_the_table_holds_counts_by_its_files() -> None:
    written = WrittenLog(checkpoint_segments=3)
    topic_id = await two_lives(written, {})
    files = [
        DataFile("a", 0, 3, 100, 0, 2, None, EPOCH_MS - 3 * DAY_MS),
        DataFile("b", 0, 3, 100, 3, 5, None, EPOCH_MS),
    ]
    snapshot = Snapshot(topic_id, 1, {0: 6}, {0: files})
    topics = {topic_id: Kept("orders", Policy(DAY_MS, -1))}
    await written.runner.run(sweep(topics, {topic_id: snapshot}))
    assert await log_start(written, topic_id) == 3
