"""Chains are trimmed by what tables hold durably, and by nothing that is only said of them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import pytest

from broker.upkeep.trim_task import Trimming
from logstore.cli.log.gc import collect
from logstore.config.broker import BrokerSettings
from logstore.epoch.durable_table_ends import MARK_EVERY, DurableTableEnds
from logstore.epoch.log import Log
from logstore.epoch.table_queries import VerifiedEnds, held_in
from logstore.formats.keys import CHAINS
from logstore.formats.table_row import TABLE, TableRow
from logstore.formats.topic_partition import TopicPartition
from logstore.history.delta import Tables
from logstore.history.forms import names
from logstore.history.forms.entries import encode_commit
from logstore.history.forms.snapshot import Snapshot, TableCommit
from logstore.objects.metered import StoreCounts
from logstore.protocol.chain.identity import Identity
from logstore.protocol.rows.verified_versions import change_marks, drop_mark, read_marks
from logstore.stores.location import DirectoryLocation
from logstore.testing.virtual_loop import EPOCH_MS, VirtualClock, run
from logstore.wiring.open import OpenLog
from tests.logstore.history.tables import move
from tests.logstore.protocol.deletion.test_trimming import GRACE_MS, TrimmedLog

SETTINGS = BrokerSettings({"logstore.delete.grace.ms": str(GRACE_MS)})
RECORDS = 20


class TablesHere:
    """Tables of a log in memory, asked at once and counted."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.look_count = 0

    async def snapshot(self, topic_id: bytes) -> Snapshot | None:
        return self.tables.snapshot(topic_id)

    async def held(self, marks: Mapping[bytes, int], grace_ms: int, now_ms: int) -> VerifiedEnds:
        self.look_count += 1
        return held_in(self.tables, marks, grace_ms, now_ms)


class FrozenAfterwards(TablesHere):
    """Their process stands still for three graces with the answer in its hands."""

    async def held(self, marks: Mapping[bytes, int], grace_ms: int, now_ms: int) -> VerifiedEnds:
        found = await super().held(marks, grace_ms, now_ms)
        await VirtualClock().sleep_s(3 * GRACE_MS / 1000)
        return found


class Moved:
    """A log of one partition with twenty records, and the topic's table."""

    def __init__(self, written: TrimmedLog, log: Log) -> None:
        self.written = written
        self.log = log
        self.clock = written.runner.clock
        tables = Tables("/memory", store=written.objects, clock=self.clock)
        self.here = TablesHere(tables)
        self.trimming = Trimming(log, SETTINGS, lambda: True, self.here)
        self.topic_id = log.topics["orders"].topic_id
        self.snapshot = tables.create(self.topic_id, "orders")

    async def move(self, start: int, end: int) -> None:
        """A run: the table, then the table pointer."""
        self.snapshot = self.here.tables.commit(self.snapshot, move((0, start, end)))
        await self.tell(end)

    def move_nothing(self, commits: int) -> None:
        for _ in range(commits):
            self.snapshot = self.here.tables.commit(self.snapshot, TableCommit({}, {}, run="idle"))

    async def tell(self, end: int) -> None:
        """The table pointer alone."""
        row = TableRow(version=self.snapshot.version, ends={0: end}).row()
        await self.written.runner.registry.put_if(TABLE, self.topic_id.hex(), row)

    def overwrite(self, start: int, end: int) -> None:
        """A writer that does not create conditionally puts another entry in the newest's place."""
        key = names.entry_key(self.topic_id, self.snapshot.version)
        other = move((0, start, end), run="unsafe")
        self.written.objects.delete(key)
        now_ms = self.clock.now_ms()
        entry = encode_commit(self.topic_id, self.snapshot.version - 1, other, now_ms)
        self.written.objects.create(key, [entry])

    async def trim(self, passes: int = 1) -> None:
        """Graces pass before each."""
        for _ in range(passes):
            await self.clock.sleep_s(GRACE_MS / 1000)
            await self.trimming.trim_once()

    @property
    def trim_point(self) -> int:
        return self.written.chain_row(1).trim

    @property
    def segment_count(self) -> int:
        return len(self.written.keys(CHAINS))


Story = Callable[[Moved], Awaitable[None]]


def play(story: Story) -> None:
    """The first chain is sealed and holds all records."""

    async def scenario() -> None:
        written = TrimmedLog()
        written.check_deletion = lambda key: None  # type: ignore[method-assign]
        async with written.life() as log:
            topic = await log.create_topic("orders", 1, {})
            for number in range(RECORDS):
                await written.write(log, topic.leaders[0], [EPOCH_MS + number])
        async with written.life() as log:
            await story(Moved(written, log))

    run(scenario())


def test_what_the_table_held_a_grace_ago_is_trimmed_and_deleted_a_grace_later() -> None:
    async def story(moved: Moved) -> None:
        await moved.move(0, RECORDS)
        before = moved.segment_count
        await moved.trim()
        assert moved.trim_point == moved.written.chain_row(1).seal
        assert moved.segment_count == before
        await moved.trim()
        assert moved.written.chain_row(1).deleted == moved.trim_point
        assert moved.segment_count < before

    play(story)


def test_what_the_table_does_not_hold_stays() -> None:
    async def story(moved: Moved) -> None:
        await moved.move(0, 11)
        await moved.trim(passes=3)
        assert 0 < moved.trim_point < RECORDS
        moved.written.log_starts[TopicPartition(moved.topic_id, 0)] = 11
        await moved.written.check_readable()

    play(story)


def test_what_the_table_holds_since_just_now_stays_for_a_grace() -> None:
    """A reader that planned by the version before reads it from segments."""

    async def story(moved: Moved) -> None:
        await moved.clock.sleep_s(GRACE_MS / 1000)
        await moved.move(0, RECORDS)
        await moved.trimming.trim_once()
        assert moved.trim_point == 0

    play(story)


def test_the_copy_row_decides_nothing() -> None:
    async def story(moved: Moved) -> None:
        await moved.move(0, 5)
        await moved.tell(RECORDS)
        await moved.trim(passes=3)
        moved.written.log_starts[TopicPartition(moved.topic_id, 0)] = 5
        await moved.written.check_readable()

    play(story)


def test_without_a_copy_row_no_table_is_looked_for() -> None:
    async def story(moved: Moved) -> None:
        await moved.trim(passes=3)
        assert moved.here.look_count == 0
        assert moved.trim_point == 0

    play(story)


def test_tables_are_looked_at_ten_times_a_grace_until_all_of_them_is_held() -> None:
    async def story(moved: Moved) -> None:
        held = DurableTableEnds(moved.here, GRACE_MS)
        await moved.move(0, 5)
        runner = moved.written.runner
        for expected in (10, 11, 11):
            for _ in range(20):
                await held.look(runner)
                await moved.clock.sleep_s(GRACE_MS / 20 / 1000)
            assert moved.here.look_count == expected
        assert (await held.look(runner)).ends == {(moved.topic_id, 0): 5}
        await held.look(runner, fresh=[moved.topic_id])
        assert moved.here.look_count == 12
        await moved.move(5, 6)
        await moved.clock.sleep_s(GRACE_MS / 1000)
        assert (await held.look(runner)).ends == {(moved.topic_id, 0): 6}

    play(story)


def test_an_overwritten_commit_stops_trimming_and_alarms(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(moved: Moved) -> None:
        await moved.move(0, 10)
        moved.overwrite(0, 8)
        await moved.move(10, RECORDS)  # whose start is where the lost commit ended
        await moved.trim(passes=3)
        assert moved.trim_point == 0
        assert moved.trimming.failed_count == 3

        # However long ago it was, and whichever broker looks.
        moved.move_nothing(40)
        await moved.tell(RECORDS)
        moved.trimming = Trimming(moved.log, SETTINGS, lambda: True, moved.here)
        await moved.trim(passes=3)
        assert moved.trim_point == 0

    with caplog.at_level(logging.INFO):
        play(story)
    assert alarms(caplog)[0].startswith("segments are not trimmed by a table: ")


def test_a_mark_says_how_far_commits_were_looked_at() -> None:
    async def story(moved: Moved) -> None:
        await moved.move(0, 5)
        await moved.trim()
        runner = moved.written.runner
        assert await runner.run(read_marks()) == {}, "too few to be worth a write"
        moved.move_nothing(MARK_EVERY)
        await moved.move(5, RECORDS)
        await moved.trim()
        assert await runner.run(read_marks()) == {moved.topic_id: MARK_EVERY + 2}
        assert moved.trim_point > 0

    play(story)


def test_a_table_that_went_back_behind_its_mark_is_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(moved: Moved) -> None:
        await moved.move(0, 5)
        runner = moved.written.runner
        await runner.run(change_marks({}, {moved.topic_id: 9}))
        await moved.trim(passes=2)
        assert moved.trim_point == 0
        assert "a table's version went back" in alarms(caplog)[0]
        await runner.run(change_marks({moved.topic_id: 9}, {moved.topic_id: 1}))
        await moved.trim()
        assert moved.trim_point > 0
        await runner.run(drop_mark(moved.topic_id, 1))
        assert await runner.run(read_marks()) == {}

    with caplog.at_level(logging.INFO):
        play(story)


def test_what_keeps_one_table_from_being_read_is_no_trouble_of_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(moved: Moved) -> None:
        await moved.move(0, RECORDS)
        other = bytes.fromhex("ab" * 16)
        moved.written.objects.create(names.entry_key(other, 0), [b"{]"])
        found = held_in(moved.here.tables, {other: -1, moved.topic_id: -1}, 0, 2**50)
        assert found.ends == {(moved.topic_id, 0): RECORDS}
        assert len(found.troubles) == 1

    play(story)


def test_a_table_that_lost_what_it_held_stops_deletion_and_alarms(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(moved: Moved) -> None:
        await moved.move(0, RECORDS)
        await moved.trim()
        assert moved.trim_point > 5
        moved.overwrite(0, 5)
        before = moved.segment_count
        await moved.trim(passes=3)
        assert moved.segment_count == before

    with caplog.at_level(logging.INFO):
        play(story)
    assert any("trim point is too high, nothing is deleted" in line for line in alarms(caplog))


def test_the_segments_of_a_deleted_topic_go_whatever_its_table_is() -> None:
    async def story(moved: Moved) -> None:
        await moved.move(0, 5)
        await moved.log.delete_topic("orders")
        moved.here.tables.delete_table(moved.topic_id)
        await moved.trim(passes=2)
        assert moved.written.chain_row(1).deleted == moved.written.chain_row(1).seal

    play(story)


def alarms(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.name == "broker.upkeep.trim_task" and record.levelname == "ERROR"
    ]


def test_what_was_published_while_a_process_was_frozen_is_no_alarm_to_it() -> None:
    """Its answer of the tables is older than the trim point that it finds."""

    async def story(moved: Moved) -> None:
        await moved.tell(0)
        tables, runner = FrozenAfterwards(moved.here.tables), moved.written.runner
        opened = OpenLog(
            DirectoryLocation(Path("/memory")),
            runner,
            Identity(moved.written.cluster_id, "memory:"),
            StoreCounts(),
        )
        async with asyncio.TaskGroup() as tasks:
            frozen = tasks.create_task(collect(opened, tables, {}, grace_ms=GRACE_MS))
            await moved.clock.sleep_s(0.1)
            await moved.move(0, RECORDS)
            await moved.trim()
            assert moved.trim_point > 0
        _, done, troubles = frozen.result()
        assert (done.deleted, done.waiting, troubles) == ({}, 1, [])
        _, done, _ = await collect(opened, moved.here, {}, grace_ms=GRACE_MS)
        assert sum(done.deleted.values()) > 0

    play(story)
