"""A fetch session's answers, put together, say what full fetches would have said."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.wire.errors import ErrorCode
from logstore.wire.messages.fetch import PartitionData
from tests.broker.answers.session_world import NO_ROOM, Client, World, request_of

COUNT = 4
ALL = range(COUNT)


def numbers(answers: list[PartitionData]) -> list[int]:
    return [data.partition_index for data in answers]


def settled(count: int = COUNT) -> World:
    """All partitions are in a session and answered."""
    world = World(count)
    assert numbers(world.fetch(request_of(*range(count)))[1]) == list(range(count))
    world.looks.clear()
    return world


def fetch(world: World, *named: int, forgotten: Sequence[int] = (), room: int = 1000) -> list[int]:
    assert world.session is not None
    session = (world.session.id, world.session.epoch)
    error, answers = world.fetch(
        request_of(*named, session=session, forgotten=forgotten), room=room
    )
    assert not error
    return numbers(answers)


def test_nothing_is_looked_at_where_nothing_changed() -> None:
    world = settled(COUNT)

    assert fetch(world) == []
    assert world.looks == []


@pytest.mark.parametrize("change", ["commit", "retire"])
def test_the_next_fetch_looks_at_a_partition_that_changed_and_at_no_other(change: str) -> None:
    world = settled()
    getattr(world.partitions[2], change)()

    assert fetch(world) == [2]
    assert world.looks == [2]


def test_a_log_start_that_rose_is_answered_without_records() -> None:
    world = settled()
    world.partitions[1].high_watermark = 2
    assert fetch(world, 1) == [1]
    asked = request_of(1).topics[0].partitions[0]
    asked.fetch_offset = 2
    assert world.session is not None
    request = request_of(session=(world.session.id, world.session.epoch))
    request.topics = request_of(1).topics
    request.topics[0].partitions = [asked]
    assert world.fetch(request)[1] == []

    world.partitions[1].raise_log_start()
    assert fetch(world) == [1]
    assert fetch(world) == []


def test_a_partition_named_once_more_is_answered_only_where_it_has_news() -> None:
    world = settled()

    assert fetch(world, 3) == []
    assert world.looks == [3]


def test_a_forgotten_partition_is_answered_no_more_and_watched_no_more() -> None:
    world = settled()
    assert fetch(world, forgotten=[2]) == []
    assert not world.partitions[2].watchers
    world.partitions[2].commit()
    world.partitions[3].commit()

    assert fetch(world) == [3]
    assert world.looks == [3]
    assert world.sessions.partition_count == COUNT - 1


def test_a_partition_that_was_added_is_answered_whatever_its_offsets() -> None:
    world = World(COUNT)
    world.fetch(request_of(0))

    assert fetch(world, 1) == [1]
    assert world.sessions.partition_count == 2


def test_records_that_had_no_room_come_next_and_those_that_were_sent_go_behind() -> None:
    world = settled()
    for partition in world.partitions:
        partition.commit()

    assert fetch(world, room=1) == [0, 1, 2, 3]
    assert fetch(world, room=1) == [1]
    assert fetch(world, room=1) == [2]
    assert fetch(world, room=1) == [3]
    assert fetch(world, room=1) == [0], "it was not consumed"


def test_an_error_is_answered_each_time_and_its_end_as_well() -> None:
    world = settled()
    world.partitions[1].retire()
    assert fetch(world) == [1]
    assert fetch(world) == [1]

    world.partitions[1].is_led = True
    assert fetch(world) == [1]
    assert fetch(world) == []


def test_a_session_without_partitions_ends() -> None:
    world = settled()
    session = world.session
    assert session is not None

    assert fetch(world, forgotten=list(ALL)) == []
    assert session.is_closed
    assert (len(world.sessions), world.sessions.partition_count) == (0, 0)
    assert not any(partition.watchers for partition in world.partitions)
    late = request_of(session=(session.id, session.epoch))
    assert world.fetch(late) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, [])


def test_all_partitions_are_looked_at_by_other_terms() -> None:
    world = settled()
    assert world.session is not None
    world.session.look_by((12, 0, "", 1))

    fetch(world)
    assert sorted(set(world.looks)) == list(ALL)


Change = tuple[str, int]

CHANGES = st.tuples(
    st.sampled_from(["commit", "raise_log_start", "retire", "lead"]), st.sampled_from(ALL)
)
STEPS = st.one_of(
    CHANGES,
    st.tuples(st.just("poll"), st.integers(NO_ROOM, 3)),
    st.tuples(st.just("add"), st.sampled_from(ALL)),
    st.tuples(st.just("forget"), st.sampled_from(ALL)),
)


def changer(world: World, changes: list[Change]) -> Callable[[], None]:
    """Makes the next change at each call."""
    left = list(changes)

    def change() -> None:
        if left:
            apply(world, *left.pop(0))

    return change


def apply(world: World, name: str, number: int) -> None:
    partition = world.partitions[number]
    if name == "lead":
        partition.is_led = True  # an error is asked about at each fetch
    else:
        getattr(partition, name)()


@given(st.lists(st.tuples(STEPS, st.lists(CHANGES, max_size=6)), max_size=12))
def test_a_session_says_what_full_fetches_would_have_said(
    steps: list[tuple[tuple[str, int], list[Change]]],
) -> None:
    world = World(COUNT)
    client = Client(world)
    client.offsets = {0: 0, 1: 0}
    client.poll()
    for (name, number), between in steps:
        if name == "poll":
            client.poll(room=number, between=changer(world, between))
        elif name == "add":
            client.offsets.setdefault(number, world.partitions[number].log_start)
        elif name == "forget":
            if len(client.offsets) > 1:
                client.offsets.pop(number, None)
        else:
            apply(world, name, number)

    for _ in range(3):  # out of range, its records, their end
        client.poll()
    for number, offset in client.offsets.items():
        partition = world.partitions[number]
        if partition.is_led:
            assert client.view[number] == (0, partition.high_watermark, partition.log_start)
            assert offset == partition.high_watermark
        else:
            assert client.view[number][0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    world.looks.clear()
    client.poll()
    led = {n for n in client.offsets if world.partitions[n].is_led}
    assert not led & set(world.looks), "a partition without news was looked at"
    watched = {n for n, one in enumerate(world.partitions) if one.watchers and one.is_led}
    assert watched <= client.offsets.keys()
