"""After an upgrade that was rolled back: what the newer version wrote of groups is not lost."""

import asyncio

import pytest

from broker.groups.coordinator import Coordinator
from broker.groups.decisions.batches import encode_newer
from broker.groups.decisions.formats import GroupKey, OffsetKey, encode_key
from broker.groups.decisions.key_compaction import RECORDS_FLOOR
from broker.groups.decisions.limits import GroupLimits
from broker.groups.decisions.newer_records import BYTES_MAX, NewerRecord, NewerRecords, newer_key
from broker.groups.decisions.offsets import OffsetCommit
from logstore.testing.virtual_loop import VirtualClock, run
from tests.broker.groups.running_coordinator import Bench, MemoryPartition

NEWER_VALUE = b"\0\7" + b"of a version to come"
OFFSET = NewerRecord(encode_key(OffsetKey("g", "t", 0)), NEWER_VALUE, "g", OffsetKey("g", "t", 0))
GROUP = NewerRecord(encode_key(GroupKey("h")), NEWER_VALUE, "h", GroupKey("h"))
KIND = newer_key(b"\0\3\0\3new", b"\0\0 a group of another kind")
NAMELESS = newer_key(b"\x01\0\xff", b"of an unknown kind")
ALL = [OFFSET, GROUP, KIND, NAMELESS]


def put(coordinator: Coordinator, offset: int, group: str, partition: int = 0) -> None:
    coordinator.commit(group, [OffsetCommit(("t", partition), b"1" * 16, offset, -1, "")], -1)


async def write_again(coordinator: Coordinator) -> None:
    """So many commits that the live keys are written again."""
    for number in range(2 * RECORDS_FLOOR):
        put(coordinator, number, "other")
        if number % 100 == 0:
            await VirtualClock().sleep_s(0)
    await VirtualClock().sleep_s(1)


@pytest.mark.slow
def test_they_are_there_after_the_live_keys_were_written_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        async with asyncio.TaskGroup() as tasks:
            bench = Bench(MemoryPartition(), tasks, GroupLimits(initial_delay_ms=0))
            first = await bench.loaded()
            put(first, 5, "g")
            put(first, 6, "g", partition=1)
            bench.log.append(encode_newer(ALL, now_ms=0))
            for _ in range(2):
                start = bench.log.start
                coordinator = await bench.loaded()
                assert sorted(coordinator.states.newer.all()) == sorted(ALL)
                known = {one: coordinator.understands(one) for one in ("g", "h", "new", "other")}
                assert known == {"g": False, "h": False, "new": False, "other": True}
                group = coordinator.states.get("g")
                assert group is not None
                assert group.offsets.keys() == {("t", 1)}, "the other one is no longer so"
                await write_again(coordinator)
                assert bench.log.start > start

    run(main())
    assert "records=4 groups=3 (g, h, new); their members wait until" in caplog.messages[0]


async def test_their_groups_lose_nothing_by_age() -> None:
    async with asyncio.TaskGroup() as tasks:
        bench = Bench(MemoryPartition(), tasks, GroupLimits(initial_delay_ms=0))
        first = await bench.loaded()
        put(first, 6, "g", partition=1)
        put(first, 6, "other")
        bench.log.append(encode_newer([OFFSET], now_ms=0))
        coordinator = await bench.loaded()
        await coordinator.sweep(2**62)
        assert coordinator.states.groups.keys() == {"g"}


async def test_what_takes_the_place_of_one_ends_it() -> None:
    async with asyncio.TaskGroup() as tasks:
        bench = Bench(MemoryPartition(), tasks, GroupLimits(initial_delay_ms=0))
        old = await bench.loaded()
        bench.log.append(encode_newer(ALL, now_ms=0))
        put(old, 5, "g")  # the newer version went on, and wrote what we can read
        gone = [one._replace(value=None) for one in (GROUP, KIND, NAMELESS)]
        bench.log.append(encode_newer(gone, now_ms=0))
        coordinator = await bench.loaded()
        assert coordinator.states.newer.all() == []
        assert all(coordinator.understands(one) for one in ("g", "h", "new"))
        assert coordinator.states.live_count == 1
        assert coordinator.states.byte_count == coordinator_of_one(coordinator)


def coordinator_of_one(coordinator: Coordinator) -> int:
    """What its states would weigh if they had never been anything else."""
    (group,) = coordinator.states.groups.values()
    states = type(coordinator.states)()
    for place, offset in group.offsets.items():
        states.apply((OffsetKey(group.group_id, *place), offset))
    return states.byte_count


def test_more_than_fit_are_not_written_again_and_their_groups_stay_known() -> None:
    records = NewerRecords()
    records.apply(OFFSET)
    whole = [records.is_whole]
    records.apply(GROUP._replace(value=bytes(BYTES_MAX)))
    assert [*whole, records.is_whole] == [True, False]
    assert records.byte_count < BYTES_MAX
    assert records.groups == ["g", "h"]


async def test_a_partition_with_more_than_fit_is_not_written_again() -> None:
    async with asyncio.TaskGroup() as tasks:
        bench = Bench(MemoryPartition(), tasks, GroupLimits(initial_delay_ms=0))
        bench.log.append(encode_newer([OFFSET], now_ms=0))
        coordinator = await bench.loaded()
        coordinator.states.apply_newer(GROUP._replace(value=bytes(BYTES_MAX)))
        await write_again(coordinator)
        assert bench.log.start == 0
