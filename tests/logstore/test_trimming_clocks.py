"""Wall clocks that are wrong shorten no grace: between a trim point and the deletions below it, and
while rows say that a topic was deleted."""

from dataclasses import replace

from logstore.compaction.decisions.run_rows import note_topic_gone, raise_table_pointer
from logstore.formats.keys import CHAINS
from logstore.formats.table_row import TABLE, TableRow
from logstore.formats.topic_row import TOPIC, TopicStatus
from logstore.protocol.deletion.believed_time import BelievedTime
from logstore.protocol.rules.disposal import Fate, may_drop_table
from logstore.protocol.steps import believed_ms
from logstore.protocol.topics.life import delete_topic, forget_deleted
from logstore.runners.step_runner import StepRunner
from logstore.testing.virtual_loop import EPOCH_MS, VirtualClock
from tests.logstore.protocol.deletion.test_trimming import GRACE_MS, TrimmedLog, play


def behind(right: StepRunner) -> StepRunner:
    """Of another host, whose clock is behind."""
    clock = VirtualClock(EPOCH_MS - 1000 * GRACE_MS)
    return replace(right, clock=clock, believed=BelievedTime())


def test_a_wall_clock_that_jumps_ends_no_grace() -> None:
    async def story(written: TrimmedLog) -> None:
        (key,) = written.records
        await written.raise_log_start(key, 20)
        await written.trim(wait_ms=0)
        before = written.keys(CHAINS)
        right = written.runner
        written.runner = replace(right, clock=VirtualClock(EPOCH_MS + 1000 * GRACE_MS))
        (done,) = await written.trim(wait_ms=0)
        assert (done.waiting, done.deleted) == (2, {})
        assert written.keys(CHAINS) == before
        written.runner = right
        await right.clock.sleep_s(GRACE_MS / 1000)
        (done,) = await written.trim()
        assert done.deleted.keys() == {1, 2}

    play(story)


def test_a_wall_clock_that_was_behind_shortens_no_grace() -> None:
    """The trim point is published by a broker whose clock is behind, and deleted by another."""

    async def story(written: TrimmedLog) -> None:
        (key,) = written.records
        await written.raise_log_start(key, 20)
        right = written.runner
        written.runner = behind(right)
        await written.trim(wait_ms=0)
        written.runner = right
        before = written.keys(CHAINS)
        (done,) = await written.trim(wait_ms=0)
        assert (done.waiting, done.deleted) == (2, {})
        assert written.keys(CHAINS) == before

    play(story)


def test_the_row_of_a_topic_that_a_clock_behind_deleted_stays_as_long() -> None:
    async def story(written: TrimmedLog) -> None:
        ((topic_id, _),) = written.records
        name = "orders"
        await behind(written.runner).run(delete_topic(name, topic_id))
        await written.runner.run(forget_deleted())
        row = await written.runner.registry.get(TOPIC, name)
        assert row is not None and row["status"] == TopicStatus.DELETED.value

    play(story)


def test_the_table_of_a_topic_that_a_clock_behind_found_gone_stays_as_long() -> None:
    async def story(written: TrimmedLog) -> None:
        right, topic_id = written.runner, bytes(16)
        new = TableRow(version=1, ends={0: 10}, topic="orders", on_delete="drop")
        await right.run(raise_table_pointer(topic_id, new))
        await behind(right).run(note_topic_gone(topic_id))
        row = await right.registry.get(TABLE, topic_id.hex())
        assert row is not None
        now_ms = await right.run(believed_ms())
        assert not may_drop_table(Fate.DELETED, TableRow.of(row), "drop", now_ms).may
        later_ms = now_ms + 3_600_000
        assert may_drop_table(Fate.DELETED, TableRow.of(row), "drop", later_ms).may

    play(story)


def test_a_clock_set_back_and_put_right_shortens_no_grace_on_a_directory() -> None:
    """The clock of the host is that of the store; its monotonic clock goes on."""

    async def story(written: TrimmedLog) -> None:
        (key,) = written.records
        await written.raise_log_start(key, 20)
        right = replace(written.runner, believed=BelievedTime("this boot"))
        await right.run(believed_ms())
        set_back = VirtualClock(EPOCH_MS - 1000 * GRACE_MS)
        await set_back.sleep_s(10 * GRACE_MS / 1000)
        written.runner = replace(right, clock=set_back)
        await right.run(believed_ms())
        await written.trim(wait_ms=0)
        written.runner = right
        before = written.keys(CHAINS)
        (done,) = await written.trim(wait_ms=GRACE_MS)
        assert (done.waiting, done.deleted) == (2, {})
        assert written.keys(CHAINS) == before
        (done,) = await written.trim()
        assert done.deleted.keys() == {1, 2}

    play(story)
