"""Static members (KIP-345): known by their instance id, whatever member id they have."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.groups.decisions.group import Phase
from broker.groups.decisions.limits import GroupLimits
from broker.groups.decisions.membership import lost
from broker.groups.decisions.outcome import Joined
from logstore.wire.errors import ErrorCode
from tests.broker.groups.played import SESSION_MS, Play, Token

LONG = 300_000
"""A consumer's `max.poll.interval.ms`, which is its rebalance time-out."""


def test_a_static_member_needs_no_second_join() -> None:
    play = Play()
    joined = play.joined(play.ask_join(instance_id="one", needs_id=True))

    assert joined.code == 0
    assert joined.members[0].instance_id == "one"


def test_a_follower_that_starts_again_changes_its_id_and_nothing_else() -> None:
    play = Play()
    leader, follower = play.form("one", "two")
    again = play.joined(play.ask_join(instance_id="two"))

    assert again.member_id != follower.member_id
    assert (again.generation, again.leader) == (leader.generation, leader.member_id)
    assert (again.members, again.skips_assignment) == ((), False)
    assert play.group.phase is Phase.STABLE
    part = play.synced(play.ask_sync(again.member_id, again.generation, instance_id="two"))
    assert part.assignment == f"part of {follower.member_id}".encode()


def test_the_old_id_is_fenced_everywhere() -> None:
    play = Play()
    leader, follower = play.form("one", "two")
    play.ask_join(instance_id="two")
    old, generation = follower.member_id, leader.generation

    assert play.beat(old, generation, "two") == ErrorCode.FENCED_INSTANCE_ID
    synced = play.synced(play.ask_sync(old, generation, instance_id="two"))
    assert synced.code == ErrorCode.FENCED_INSTANCE_ID
    joined = play.joined(play.ask_join(old, instance_id="two"))
    assert joined.code == ErrorCode.FENCED_INSTANCE_ID
    assert play.leave((old, "two")) == [ErrorCode.FENCED_INSTANCE_ID]
    assert play.beat(old, generation) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_leader_that_starts_again_leads_on_without_assigning() -> None:
    play = Play()
    leader, _ = play.form("one", "two")
    again = play.joined(play.ask_join(instance_id="one"))

    assert again.leader == again.member_id
    assert again.skips_assignment
    assert len(again.members) == 2
    assert again.generation == leader.generation
    assert play.group.leader == again.member_id


def test_an_old_client_that_led_takes_itself_for_a_follower() -> None:
    play = Play()
    leader, _ = play.form("one", "two")
    again = play.joined(play.ask_join(instance_id="one", can_skip=False))

    assert again.leader == leader.member_id != again.member_id
    assert (again.members, again.skips_assignment) == ((), False)


def test_a_change_of_the_chosen_protocol_begins_a_rebalance() -> None:
    both = (("range", b"r"), ("sticky", b"s"))
    play = Play()
    first = play.joined(play.ask_join(instance_id="one", protocols=both))
    play.ask_sync(first.member_id, 1)
    play.ask_join(instance_id="one", protocols=(("sticky", b"s"), ("range", b"r")))

    assert play.group.generation == 2
    assert play.group.protocol == "sticky"


def test_a_start_during_the_assignment_begins_again() -> None:
    play = Play()
    first = play.joined(play.ask_join(instance_id="one"))
    again = play.joined(play.ask_join(instance_id="one"))

    assert again.generation == first.generation + 1
    assert play.group.leader == again.member_id


def test_what_the_old_self_waits_for_is_answered_that_it_is_fenced() -> None:
    play = Play()
    leader, follower = play.form("one", "two")
    waiting = play.ask_join(leader.member_id, instance_id="one")
    again = play.ask_join(instance_id="one")

    assert play.joined(waiting).code == ErrorCode.FENCED_INSTANCE_ID
    play.ask_join(follower.member_id, instance_id="two")
    assert play.joined(again).code == 0


def test_a_static_member_is_away_for_a_session_before_it_is_missed() -> None:
    play = Play()
    leader, follower = play.form("one", "two")
    play.wait(SESSION_MS - 1)
    play.beat(leader.member_id, leader.generation, "one")
    assert follower.member_id in play.group.members
    play.wait(2)

    assert follower.member_id not in play.group.members
    assert play.group.phase is Phase.PREPARING


def test_a_tool_removes_a_static_member_by_its_instance_id() -> None:
    play = Play()
    leader, _ = play.form("one", "two")

    assert play.leave(("", "two"), ("", "three")) == [0, ErrorCode.UNKNOWN_MEMBER_ID]
    assert set(play.group.members) == {leader.member_id}


def test_static_members_survive_a_restart_with_their_parts() -> None:
    play = Play()
    leader, follower = play.form("one", "two")
    play.restart()
    again = play.joined(play.ask_join(instance_id="two"))

    assert again.generation == leader.generation
    part = play.synced(play.ask_sync(again.member_id, again.generation, instance_id="two"))
    assert part.assignment == f"part of {follower.member_id}".encode()


@pytest.mark.parametrize("away_ms", [1000, SESSION_MS + 1])
def test_a_start_after_one_that_ended_before_its_first_answer_does_not_wait(away_ms: int) -> None:
    """Else for a rebalance time-out: five minutes, with a consumer's defaults."""
    play = Play(limits=GroupLimits(initial_delay_ms=200))
    first = play.ask_join(instance_id="one")
    lost(play.group, first, play.now)
    play.wait(200)
    play.wait(away_ms)

    again = play.ask_join(instance_id="one")
    play.wait(200)

    joined = play.joined(again)
    assert (joined.code, joined.leader) == (0, joined.member_id)


@given(
    st.sampled_from([0, 200]),
    st.lists(
        st.tuples(
            st.sampled_from(["start", "start", "again", "sync", "lose", "wait", "restart"]),
            st.integers(0, 9),
        ),
        max_size=12,
    ),
    st.sampled_from([10, 3000, SESSION_MS + 1]),
)
def test_a_start_is_answered_within_a_session_whatever_came_before(
    delay_ms: int, steps: list[tuple[str, int]], away_ms: int
) -> None:
    """Of one instance, when its other processes and the other members have died."""
    play, waiting = Play(GroupLimits(initial_delay_ms=delay_ms)), list[Token]()
    for step, number in steps:
        joined = [
            one
            for token in waiting
            if isinstance(one := play.answers.get(token), Joined) and not one.code
        ]
        if step == "start":
            waiting.append(play.ask_join(instance_id=("one", "two")[number % 2], rebalance_ms=LONG))
        elif step == "wait":
            play.wait((50, 200, 3000, SESSION_MS + 1)[number % 4])
        elif step == "restart":
            play.restart()
            waiting.clear()
        elif step == "lose" and waiting:
            lost(play.group, waiting.pop(number % len(waiting)), play.now)
        elif step == "again" and joined:
            one = joined[number % len(joined)]
            name = instance_of(play, one.member_id)
            token = play.ask_join(one.member_id, instance_id=name, rebalance_ms=LONG)
            waiting.append(token)
        elif step == "sync" and joined:
            one = joined[number % len(joined)]
            parts = {member.member_id: b"part" for member in one.members}
            name = instance_of(play, one.member_id)
            waiting.append(play.ask_sync(one.member_id, one.generation, parts, instance_id=name))
    for token in waiting:
        lost(play.group, token, play.now)
    play.wait(away_ms)

    token = play.ask_join(instance_id="one", rebalance_ms=LONG)
    play.wait(2 * SESSION_MS)

    assert play.joined(token).code == 0


def instance_of(play: Play, member_id: str) -> str | None:
    member = play.group.members.get(member_id)
    return None if member is None else member.instance_id
