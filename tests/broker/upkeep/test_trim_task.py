"""A broker trims its own chain; the controller trims sealed ones; trouble is reported once."""

import logging
from collections.abc import Mapping

import pytest

from broker.upkeep.trim_task import STAGING_PERIOD_S, Trimming
from logstore.config.broker import BrokerSettings
from logstore.epoch.table_queries import VerifiedEnds
from logstore.formats.chain_row import CHAIN, ChainRow
from logstore.formats.cluster_row import CLUSTER
from logstore.formats.partition_row import partition_pk, partition_sk
from logstore.formats.staging_keys import STAGING
from logstore.formats.table_row import TABLE, TableRow
from logstore.formats.topic_partition import TopicPartition
from logstore.history.forms.snapshot import Snapshot
from logstore.protocol.rows.metadata import read_partition_row
from logstore.testing.simulated_rows import at_once
from logstore.testing.virtual_loop import EPOCH_MS, VirtualClock, run
from tests.broker.staging import Staging
from tests.logstore.raised import raised_to
from tests.logstore.written import NoTables, WrittenLog

SETTINGS = BrokerSettings({"logstore.delete.grace.ms": "60000"})


async def two_chains(written: WrittenLog) -> None:
    """Twelve records in each of two chains, none of which anybody wants any more."""
    async with written.life() as log:
        topic = await log.create_topic("orders", 1, {})
        for _ in range(12):
            await written.write(log, topic.leaders[0], [EPOCH_MS])


async def drop_records(written: WrittenLog, end: int) -> None:
    (key,) = written.records
    row = await written.runner.run(read_partition_row(*key))
    assert row is not None
    changed = {**row.row(), **raised_to(end)}
    await written.runner.registry.update_if(partition_pk(*key), partition_sk(*key), changed)


def trims(written: WrittenLog) -> dict[int, int]:
    rows = at_once(written.rows.query(CHAIN))
    return {int(sk): ChainRow.of(row).trim for sk, row in rows}


@pytest.mark.parametrize("is_controller", [False, True])
async def test_a_broker_trims_its_own_chain_and_the_controller_sealed_ones_too(
    is_controller: bool,
) -> None:
    written = WrittenLog(checkpoint_segments=3)
    await two_chains(written)
    async with written.life() as log:
        for _ in range(12):
            await written.write(log, log.topics["orders"].leaders[0], [EPOCH_MS])
        await drop_records(written, 24)
        await Trimming(log, SETTINGS, lambda: is_controller, NoTables()).trim_once()
        found = trims(written)
        assert found[2] > 0
        assert (found[1] > 0) == is_controller


@pytest.mark.slow
@pytest.mark.parametrize("is_controller", [False, True])
async def test_the_controller_sweeps_what_sinks_staged_once_an_hour(is_controller: bool) -> None:
    written, clock = WrittenLog(), VirtualClock()
    async with written.life() as log:
        topic = await log.create_topic("orders", 1, {})
        found = Staging(log.cluster_id, topic, "sink", created_ms=clock.now_ms())
        found.small_task({0: [["a"]]})
        found.put(written.objects)
        loser = f"{found.sink_batch.prefix}0-8-0"
        written.objects.create(loser, [b"of a task that lost a race"])
        trimming = Trimming(log, SETTINGS, lambda: is_controller, NoTables())
        for elapsed_s, is_swept in ((STAGING_PERIOD_S - 1, False), (1, is_controller)):
            await clock.sleep_s(elapsed_s)
            await trimming.trim_once()
            keys = [info.key for info in written.objects.list(STAGING)]
            assert (loser not in keys, trimming.swept_count) == (is_swept, int(is_swept))
            assert found.sink_batch.manifest_key in keys


def test_trouble_is_reported_once_until_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        written = WrittenLog(checkpoint_segments=3)
        await two_chains(written)
        async with written.life() as log:
            trimming = Trimming(log, SETTINGS, lambda: True, NoTables())
            await written.runner.registry.update_if(CLUSTER, CLUSTER, {"next_epoch": 2})
            for _ in range(3):
                await trimming.trim_once()

    with caplog.at_level(logging.INFO):
        run(scenario())
    reported = [record for record in caplog.records if record.name == "broker.upkeep.trim_task"]
    assert [record.levelname for record in reported] == ["ERROR"]
    assert "logstore restore" in reported[0].getMessage()


class TablesHold:
    """Of every table that is asked for, the same ends are durable."""

    def __init__(self, ends: Mapping[TopicPartition, int]) -> None:
        self._ends = ends

    async def held(self, marks: Mapping[bytes, int], grace_ms: int, now_ms: int) -> VerifiedEnds:
        return VerifiedEnds(self._ends, (), dict.fromkeys(marks, 0))

    async def snapshot(self, topic_id: bytes) -> Snapshot | None:
        return None


@pytest.mark.parametrize("durable_end", [0, 11, 12, 20])
async def test_a_row_drops_the_stretches_that_its_table_held_a_grace_ago(durable_end: int) -> None:
    """The table pointer says more, and decides nothing."""

    written = WrittenLog(checkpoint_segments=3)
    await two_chains(written)
    (key,) = written.records
    async with written.life() as log:
        await written.write(log, log.topics["orders"].leaders[0], [EPOCH_MS] * 12)
        copy = TableRow(version=1, ends={0: 24}).row()
        await written.runner.registry.put_if(TABLE, key.topic_id.hex(), copy)
        tables = TablesHold({key: durable_end})
        await Trimming(log, SETTINGS, lambda: False, tables).trim_once()
        row = await written.runner.run(read_partition_row(*key))
        assert row is not None
        assert [ref.start for ref in row.epoch_ranges] == ([12] if durable_end >= 12 else [0, 12])
