"""The runner of one partition: loads, answers after commits, keeps time, keeps its log short."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import pytest

from broker.groups.coordinator import LOAD_AGAIN_S, Coordinator
from broker.groups.decisions.join import JoinAsk
from broker.groups.decisions.key_compaction import (
    HELD_SEGMENTS_MAX,
    RECORDS_FLOOR,
    SEGMENTS_FLOOR,
    LogShape,
    is_due,
)
from broker.groups.decisions.limits import GroupLimits
from broker.groups.decisions.offsets import OffsetCommit
from broker.groups.decisions.outcome import Joined, Synced
from broker.groups.decisions.sync import SyncAsk
from broker.groups.loading import READ_TIMEOUT_S
from broker.groups.log_port import Batches
from logstore.testing.virtual_loop import VirtualClock, run
from logstore.wire.errors import ErrorCode
from tests.broker.groups.running_coordinator import (
    COMMIT_TIMEOUT_S,
    Bench,
    Box,
    MemoryPartition,
)

SESSION_S = 10.0
Story = Callable[[Bench], Awaitable[None]]


def play(story: Story) -> None:
    async def main() -> None:
        async with asyncio.TaskGroup() as tasks:
            await story(Bench(MemoryPartition(), tasks, GroupLimits(initial_delay_ms=0)))

    run(main())


def ask_join(
    coordinator: Coordinator, member_id: str = "", group: str = "g", new_member_id: str = "m1"
) -> Box:
    box = Box()
    ask = JoinAsk(
        token=box,
        member_id=member_id,
        session_timeout_ms=int(SESSION_S * 1000),
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=(("range", b"topics"),),
        new_member_id=new_member_id,
        needs_member_id=False,
    )
    coordinator.join(group, ask)
    return box


def ask_sync(
    coordinator: Coordinator,
    generation: int,
    member_id: str = "m1",
    assignments: Mapping[str, bytes] | None = None,
) -> Box:
    box = Box()
    shares = {"m1": b"part"} if assignments is None else assignments
    ask = SyncAsk(token=box, member_id=member_id, generation=generation, assignments=shares)
    coordinator.sync("g", ask)
    return box


def put(coordinator: Coordinator, offset: int, partition: int = 0, group: str = "g") -> None:
    coordinator.commit(group, [OffsetCommit(("t", partition), b"1" * 16, offset, -1, "")], -1)


def codes(coordinator: Coordinator) -> list[ErrorCode]:
    """The codes that a commit is answered with, once it is."""
    reported: list[ErrorCode] = []
    coordinator.when_safe(reported.append)
    return reported


def only(box: Box) -> Joined | Synced:
    (answer,) = box.answers
    return answer


def test_nothing_is_answered_before_it_is_committed() -> None:
    async def story(bench: Bench) -> None:
        coordinator = await bench.loaded()
        bench.log.commits_at_once = False
        join = ask_join(coordinator)
        assert join.answers == []
        bench.log.commit()
        assert only(join).code == 0
        sync = ask_sync(coordinator, 1)
        assert sync.answers == []
        bench.log.commit()
        assert only(sync).code == 0
        put(coordinator, 5)
        reported = codes(coordinator)
        assert reported == []
        bench.log.commit()
        assert reported == [ErrorCode.NONE]
        assert codes(coordinator) == [ErrorCode.NONE], "nothing is on its way"

    play(story)


def test_a_commit_that_takes_too_long_is_answered_so() -> None:
    async def story(bench: Bench) -> None:
        coordinator = await bench.loaded()
        bench.log.commits_at_once = False
        put(coordinator, 5)
        reported = codes(coordinator)
        await VirtualClock().sleep_s(COMMIT_TIMEOUT_S + 0.1)
        assert reported == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        bench.log.commit()
        assert reported == [ErrorCode.COORDINATOR_NOT_AVAILABLE]

    play(story)


def test_a_coordinator_that_starts_knows_what_was_committed() -> None:
    async def story(bench: Bench) -> None:
        first = await bench.loaded()
        ask_join(first)
        ask_sync(first, 1)
        put(first, 7)
        second = await bench.loaded()
        group = second.states.get("g")
        assert group is not None
        assert group.generation == 1
        assert group.members["m1"].assignment == b"part"
        assert group.offsets["t", 0].offset == 7
        assert second.heartbeat("g", "m1", None, 1) == 0

    play(story)


def test_a_member_that_never_comes_back_is_missed_after_its_session() -> None:
    async def story(bench: Bench) -> None:
        first = await bench.loaded()
        ask_join(first)
        ask_sync(first, 1)
        first.retire()
        second = await bench.loaded()
        await VirtualClock().sleep_s(SESSION_S - 0.1)
        assert second.heartbeat("g", "m1", None, 1) == 0
        await VirtualClock().sleep_s(SESSION_S + 0.1)
        assert second.heartbeat("g", "m1", None, 1) == ErrorCode.UNKNOWN_MEMBER_ID

    play(story)


class SlowPartition(MemoryPartition):
    """Gives one batch at a time, each after a while."""

    read_s = 0.0

    async def read(self, offset: int, bytes_max: int) -> Batches:
        await VirtualClock().sleep_s(self.read_s)
        return await super().read(offset, 1)


def test_a_load_may_take_long_as_long_as_it_goes_on() -> None:
    async def story(bench: Bench) -> None:
        bench.log = log = SlowPartition()
        first = await bench.loaded()
        for partition in range(10):
            put(first, 7, partition)
        log.read_s = 0.8 * READ_TIMEOUT_S
        coordinator = bench.new()
        async with asyncio.timeout(10 * READ_TIMEOUT_S):
            await coordinator.load()
        assert coordinator.states.live_count == 10

    play(story)


def test_a_read_that_hangs_is_given_up_and_tried_again() -> None:
    async def story(bench: Bench) -> None:
        bench.log = log = SlowPartition()
        put(await bench.loaded(), 7)
        coordinator = bench.new()
        log.read_s = 1000 * READ_TIMEOUT_S
        async with asyncio.timeout(10 * READ_TIMEOUT_S), asyncio.TaskGroup() as tasks:
            tasks.create_task(coordinator.load())
            await VirtualClock().sleep_s(READ_TIMEOUT_S / 2)
            log.read_s = 0.0
        assert coordinator.is_loaded

    play(story)


def test_who_leads_no_more_ends_loading_and_has_loaded_nothing() -> None:
    async def story(bench: Bench) -> None:
        bench.log = log = SlowPartition()
        first = await bench.loaded()
        put(first, 7, 0)
        put(first, 7, 1)
        coordinator = bench.new()
        log.read_s = 1.0
        async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
            tasks.create_task(coordinator.load())
            await VirtualClock().sleep_s(0.5)
            log.is_led = False  # fenced, and the coordinator does not know yet
        assert not coordinator.is_loaded

    play(story)


def test_a_load_that_fails_is_tried_again() -> None:
    async def story(bench: Bench) -> None:
        put(await bench.loaded(), 7)
        bench.log.fails_to_read = 2
        coordinator = bench.new()
        loading = asyncio.get_running_loop().time()
        await coordinator.load()
        assert asyncio.get_running_loop().time() - loading >= 2 * LOAD_AGAIN_S
        assert coordinator.states.live_count == 1

    play(story)


def test_a_partition_that_is_lost_answers_all_that_wait() -> None:
    async def story(bench: Bench) -> None:
        coordinator = await bench.loaded()
        ask_join(coordinator)
        waiting = Box()
        ask = JoinAsk(
            token=waiting,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=(("range", b""),),
            new_member_id="m2",
            needs_member_id=False,
        )
        coordinator.join("g", ask)
        bench.log.commits_at_once = False
        put(coordinator, 5, group="other")
        reported = codes(coordinator)
        bench.log.lose()
        assert only(waiting).code == ErrorCode.NOT_COORDINATOR
        assert reported == [ErrorCode.NOT_COORDINATOR]
        assert codes(coordinator) == [ErrorCode.NOT_COORDINATOR]

    play(story)


def test_an_append_that_is_refused_ends_the_coordinator() -> None:
    async def story(bench: Bench) -> None:
        coordinator = await bench.loaded()
        bench.log.is_led = False  # and it does not know yet
        join = ask_join(coordinator)
        assert only(join).code == ErrorCode.NOT_COORDINATOR
        assert coordinator.is_retired

    play(story)


@pytest.mark.slow
def test_many_commits_leave_little_to_load() -> None:
    async def story(bench: Bench) -> None:
        coordinator = await bench.loaded()
        for number in range(3 * RECORDS_FLOOR):
            put(coordinator, number, partition=number % 10)
            if number % 100 == 0:
                await VirtualClock().sleep_s(0)
        await VirtualClock().sleep_s(1)
        left = bench.log.end - bench.log.start
        assert left < RECORDS_FLOOR
        second = await bench.loaded()
        group = second.states.get("g")
        assert group is not None
        assert len(group.offsets) == second.states.live_count == 10
        assert {offset.offset for offset in group.offsets.values()} == set(
            range(3 * RECORDS_FLOOR - 10, 3 * RECORDS_FLOOR)
        )

    play(story)


def test_what_changes_while_keys_are_written_again_prevails() -> None:
    async def story(bench: Bench) -> None:
        coordinator = await bench.loaded()
        partitions = 1200  # more than one batch
        for number in range(2 * RECORDS_FLOOR):
            put(coordinator, number, partition=number % partitions)
            if bench.started_count:
                break
        await VirtualClock().sleep_s(0)  # the first batch is written
        put(coordinator, 1_000_000, partition=partitions - 1)
        coordinator.delete_offsets("g", [("t", partitions - 2), ("t", 0)])
        await VirtualClock().sleep_s(1)
        assert bench.log.start > 0
        second = await bench.loaded()
        ours, theirs = coordinator.states.get("g"), second.states.get("g")
        assert ours is not None
        assert theirs is not None
        assert ours.offsets == theirs.offsets
        assert len(theirs.offsets) == partitions - 2

    play(story)


def test_a_member_that_has_left_is_written_again_until_a_record_says_that_it_is_gone() -> None:
    """Else a restart would find a whole generation, in which no member has that one's share."""

    async def story(bench: Bench) -> None:
        first = await bench.loaded()
        ask_join(first)
        ask_sync(first, 1)
        other = ask_join(first, new_member_id="m2")
        ask_join(first, "m1")
        both = {"m1": b"half", "m2": b"other half"}
        ask_sync(first, 2, "m1", both)
        ask_sync(first, 2, "m2")
        assert only(other).code == 0
        assert first.leave("g", [("m2", None)]) == [ErrorCode.NONE]
        for number in range(2 * RECORDS_FLOOR):
            put(first, number)
        await VirtualClock().sleep_s(1)
        assert bench.log.start > 0
        second = await bench.loaded()
        group = second.states.get("g")
        assert group is not None
        assert {m.member_id: m.assignment for m in group.members.values()} == both
        await VirtualClock().sleep_s(SESSION_S / 2)
        assert second.heartbeat("g", "m1", None, 2) == ErrorCode.NONE
        await VirtualClock().sleep_s(SESSION_S / 2 + 1)
        assert second.heartbeat("g", "m1", None, 2) == ErrorCode.REBALANCE_IN_PROGRESS

    play(story)


def test_a_log_start_that_cannot_be_raised_loses_nothing() -> None:
    async def story(bench: Bench) -> None:
        bench.log.fails_to_raise = True
        coordinator = await bench.loaded()
        for number in range(2 * RECORDS_FLOOR):
            put(coordinator, number)
            if number % 100 == 0:
                await VirtualClock().sleep_s(0)
        await VirtualClock().sleep_s(1)
        assert bench.log.start == 0
        second = await bench.loaded()
        group = second.states.get("g")
        assert group is not None
        assert group.offsets["t", 0].offset == 2 * RECORDS_FLOOR - 1

    play(story)


def test_old_offsets_are_swept_away() -> None:
    async def story(bench: Bench) -> None:
        coordinator = await bench.loaded()
        put(coordinator, 5)
        await VirtualClock().sleep_s(bench.limits.retention_ms / 1000)
        await coordinator.sweep(VirtualClock().now_ms())
        assert coordinator.states.groups == {}

    play(story)


def test_a_quiet_partition_holds_no_segments_of_others_for_long() -> None:
    async def story(bench: Bench) -> None:
        coordinator = await bench.loaded()
        await coordinator.sweep(VirtualClock().now_ms())
        put(coordinator, 5)
        await VirtualClock().sleep_s(1)
        bench.log.committed_end += HELD_SEGMENTS_MAX  # segments of other partitions
        for is_raised in (False, True):
            await coordinator.sweep(VirtualClock().now_ms())
            await VirtualClock().sleep_s(1)
            assert (bench.log.start, bench.log.end) == ((1, 2) if is_raised else (0, 1))
            bench.log.committed_end += 2
        bench.log.committed_end += HELD_SEGMENTS_MAX
        second = await bench.loaded()
        group = second.states.get("g")
        assert group is not None
        assert group.offsets["t", 0].offset == 5

    play(story)


def test_records_of_an_earlier_chain_hold_it_no_longer_than_those_of_ones_own() -> None:
    """A partition without records holds nothing, and is left alone."""

    async def story(bench: Bench) -> None:
        nothing = await bench.loaded()
        bench.log.committed_end += 3 * HELD_SEGMENTS_MAX
        await nothing.sweep(VirtualClock().now_ms())
        await VirtualClock().sleep_s(1)
        assert bench.log.start == 0
        put(nothing, 5)
        await VirtualClock().sleep_s(1)
        successor = await bench.loaded()
        bench.log.committed_end += HELD_SEGMENTS_MAX + 2
        await successor.sweep(VirtualClock().now_ms())
        await VirtualClock().sleep_s(1)
        assert bench.log.start == 1

    play(story)


@pytest.mark.parametrize(
    ("records", "segments", "live", "is_wanted"),
    [
        (RECORDS_FLOOR, 1, 0, False),
        (RECORDS_FLOOR + 1, 1, 0, True),
        (3 * RECORDS_FLOOR, 1, 2 * RECORDS_FLOOR, False),
        (5 * RECORDS_FLOOR, 1, 2 * RECORDS_FLOOR, True),
        (SEGMENTS_FLOOR + 1, SEGMENTS_FLOOR + 1, 1, True),
        (SEGMENTS_FLOOR + 1, SEGMENTS_FLOOR + 1, SEGMENTS_FLOOR + 1, False),
    ],
)
def test_keys_are_written_again_when_the_dead_outnumber_them(
    records: int, segments: int, live: int, is_wanted: bool
) -> None:
    assert is_due(LogShape(records, segments), live) is is_wanted
