"""What groups take in memory is known, bounded, and given back."""

import asyncio
from collections.abc import Awaitable, Callable

from hypothesis import given
from hypothesis import strategies as st

from broker.groups.coordinator import Coordinator
from broker.groups.decisions.formats import (
    CommittedOffset,
    GroupKey,
    GroupValue,
    MemberValue,
    OffsetKey,
)
from broker.groups.decisions.group import offset_bytes
from broker.groups.decisions.join import JoinAsk
from broker.groups.decisions.limits import GroupLimits
from broker.groups.decisions.offsets import OffsetCommit
from broker.groups.decisions.outcome import Change, Joined
from broker.groups.decisions.state import GroupStates
from broker.groups.decisions.sync import SyncAsk
from logstore.slices import finish
from logstore.testing.virtual_loop import run
from logstore.wire.errors import ErrorCode
from tests.broker.groups.running_coordinator import Bench, Box, MemoryPartition

MEMORY_BYTES = 20_000
GROUPS = ("a", "b")


def play(story: Callable[[Coordinator], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.TaskGroup() as tasks:
            limits = GroupLimits(initial_delay_ms=0, memory_bytes_max=MEMORY_BYTES)
            await story(await Bench(MemoryPartition(), tasks, limits).loaded())

    run(main())


def join(coordinator: Coordinator, group: str, member_id: str = "", metadata: int = 10) -> Joined:
    box = Box()
    ask = JoinAsk(
        token=box,
        member_id=member_id,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=(("range", bytes(metadata)),),
        new_member_id=f"member of {group}",
        needs_member_id=False,
    )
    coordinator.join(group, ask)
    (answer,) = box.answers
    assert isinstance(answer, Joined)
    return answer


def sync(coordinator: Coordinator, group: str, member_id: str, size: int) -> ErrorCode:
    box = Box()
    ask = SyncAsk(
        token=box, member_id=member_id, generation=1, assignments={member_id: bytes(size)}
    )
    coordinator.sync(group, ask)
    (answer,) = box.answers
    return answer.code


def wanted(partition: int, metadata: int = 0) -> OffsetCommit:
    return OffsetCommit(("t", partition), bytes(16), 5, -1, "x" * metadata)


def test_members_that_find_no_room_are_refused_and_present_ones_go_on() -> None:
    async def story(coordinator: Coordinator) -> None:
        answers = [join(coordinator, f"group {number}") for number in range(100)]
        inside = [one for one in answers if not one.code]
        assert {one.code for one in answers} == {
            ErrorCode.NONE,
            ErrorCode.GROUP_MAX_SIZE_REACHED,
        }
        assert 3 < len(inside) < 20
        assert len(coordinator.states.groups) == len(inside), "who is refused leaves nothing"
        assert coordinator.states.byte_count <= MEMORY_BYTES + 4_000

        member_id = inside[0].member_id
        assert not sync(coordinator, "group 0", member_id, 10)
        assert not join(coordinator, "group 0", member_id).code
        huge = join(coordinator, "group 0", member_id, metadata=MEMORY_BYTES)
        assert huge.code == ErrorCode.GROUP_MAX_SIZE_REACHED
        assert sync(coordinator, "group 0", member_id, MEMORY_BYTES) == huge.code

        assert coordinator.leave("group 1", [(inside[1].member_id, None)]) == [ErrorCode.NONE]
        assert not finish(coordinator.delete_group("group 1"))
        assert not join(coordinator, "another").code, "what was given back is there for others"

    play(story)


def test_offsets_that_find_no_room_are_refused_and_known_ones_go_on() -> None:
    async def story(coordinator: Coordinator) -> None:
        partition = 0
        while not coordinator.check_room("g", [wanted(partition)]):
            coordinator.commit("g", [wanted(partition)], -1)
            partition += 1
        assert 20 < partition < 60
        refused = ErrorCode.GROUP_MAX_SIZE_REACHED
        assert coordinator.check_room("g", [wanted(0), wanted(partition)]) == refused
        assert coordinator.check_room("other", [wanted(0)]) == refused
        assert not coordinator.check_room("g", [wanted(number) for number in range(partition)])
        assert not coordinator.check_room("g", [wanted(0, metadata=100)])
        assert coordinator.check_room("g", [wanted(0, metadata=MEMORY_BYTES)]) == refused

        coordinator.delete_offsets("g", [("t", number) for number in range(5)])
        assert not coordinator.check_room("g", [wanted(partition)])

    play(story)


async def test_other_coordinators_of_the_broker_count_too() -> None:
    async with asyncio.TaskGroup() as tasks:
        limits = GroupLimits(initial_delay_ms=0, memory_bytes_max=MEMORY_BYTES)
        bench = Bench(MemoryPartition(), tasks, limits)
        bench.used_bytes = lambda: MEMORY_BYTES
        coordinator = await bench.loaded()
        assert join(coordinator, "g").code == ErrorCode.GROUP_MAX_SIZE_REACHED


def member(size: int) -> MemberValue:
    return MemberValue(f"m{size}", None, "", "", 1, 1, bytes(size), bytes(size))


CHANGES = st.lists(
    st.one_of(
        st.tuples(
            st.builds(OffsetKey, st.sampled_from(GROUPS), st.just("t"), st.integers(0, 2)),
            st.none()
            | st.builds(CommittedOffset, st.just(1), st.just(0), st.text(max_size=9), st.just(0)),
        ),
        st.tuples(
            st.builds(GroupKey, st.sampled_from(GROUPS)),
            st.none()
            | st.lists(st.integers(0, 9), unique=True).map(
                lambda sizes: GroupValue("c", 1, "p", None, 0, [member(size) for size in sizes])
            ),
        ),
    ),
    max_size=30,
)


@given(CHANGES)
def test_the_sum_is_that_of_what_is_there(changes: list[Change]) -> None:
    states = GroupStates()
    for change in changes:
        states.apply(change)
        assert states.byte_count == sum(
            group.held_bytes + sum(offset_bytes(*item) for item in group.offsets.items())
            for group in states.groups.values()
        )
