"""JoinGroup: who is let in, who waits, what a rebalance gathers and answers."""

from dataclasses import replace

import pytest

from broker.groups.decisions.group import Phase
from broker.groups.decisions.limits import GroupLimits
from logstore.wire.errors import ErrorCode
from tests.broker.groups.played import REBALANCE_MS, SESSION_MS, Play, Token


def test_the_first_member_leads_a_group_of_its_own() -> None:
    play = Play()
    joined = play.joined(play.ask_join())

    assert joined.code == 0
    assert (joined.generation, joined.protocol_type, joined.protocol) == (1, "consumer", "range")
    assert joined.leader == joined.member_id
    assert [m.member_id for m in joined.members] == [joined.member_id]
    assert [m.metadata for m in joined.members] == [b"topics"]
    assert play.group.phase is Phase.COMPLETING


def test_a_member_id_is_given_out_first_and_expected_back() -> None:
    play = Play()
    response = play.joined(play.ask_join(needs_id=True))

    assert response.code == ErrorCode.MEMBER_ID_REQUIRED
    assert not play.group.members
    assert play.group.phase is Phase.EMPTY
    joined = play.joined(play.ask_join(response.member_id, needs_id=True))
    assert (joined.code, joined.member_id) == (0, response.member_id)
    assert not play.group.pending


def test_a_member_id_that_does_not_come_back_is_forgotten_after_its_session() -> None:
    play = Play()
    response = play.joined(play.ask_join(needs_id=True))
    play.wait(SESSION_MS)

    assert play.group.is_forgettable
    assert play.joined(play.ask_join(response.member_id)).code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_waits_for_ids_that_were_given_out() -> None:
    play = Play()
    (leader,) = play.form(None)
    response = play.joined(play.ask_join(needs_id=True))
    again = play.ask_join(leader.member_id)
    assert again not in play.answers, "the one to come is waited for"

    other = play.ask_join(response.member_id)
    assert play.joined(other).generation == play.joined(again).generation == 2


@pytest.mark.parametrize("session_ms", [5_999, 1_800_001])
def test_a_session_timeout_has_limits(session_ms: int) -> None:
    play = Play()
    answer = play.joined(play.ask_join(session_ms=session_ms))

    assert answer.code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert play.group.is_forgettable


def test_the_first_rebalance_waits_while_members_keep_arriving() -> None:
    play = Play(GroupLimits(initial_delay_ms=3000))
    first = play.ask_join(rebalance_ms=7000)
    play.wait(2999)
    second = play.ask_join(rebalance_ms=7000)
    play.wait(2)
    assert first not in play.answers, "put off once more"
    third = play.ask_join(rebalance_ms=7000)
    play.wait(2999)
    assert first not in play.answers, "and again, for what is left"
    play.wait(1001)

    generations = {play.joined(token).generation for token in (first, second, third)}
    assert generations == {1}
    assert play.steady_ms - 1_000_000 == 7001


def test_the_first_rebalance_ends_when_no_other_member_arrives() -> None:
    play = Play(GroupLimits(initial_delay_ms=3000))
    first = play.ask_join()
    play.wait(2999)
    assert first not in play.answers
    play.wait(1)
    assert play.joined(first).code == 0


def test_a_join_is_held_until_all_known_members_have_joined() -> None:
    play = Play()
    (leader,) = play.form(None)
    newcomer = play.ask_join()
    assert newcomer not in play.answers
    assert play.beat(leader.member_id, 1) == ErrorCode.REBALANCE_IN_PROGRESS

    again = play.ask_join(leader.member_id)
    assert play.joined(newcomer).generation == play.joined(again).generation == 2


def test_who_does_not_join_in_time_is_dropped_unless_static() -> None:
    play = Play()
    leader, _, static = play.form(None, None, "fixed")
    again = play.ask_join(leader.member_id)  # a leader that joins again begins a rebalance
    while play.steady_ms < 1_000_000 + REBALANCE_MS:
        for member in list(play.group.members.values()):
            play.beat(member.member_id, play.group.generation, member.instance_id)
        play.wait(SESSION_MS // 2)

    assert play.joined(again).generation == leader.generation + 1
    assert set(play.group.members) == {leader.member_id, static.member_id}


def test_only_the_leader_gets_the_members() -> None:
    play = Play()
    leader, follower = play.form(None, None)

    assert {m.member_id for m in leader.members} == {leader.member_id, follower.member_id}
    assert follower.members == ()
    assert follower.leader == leader.member_id


def test_a_follower_that_changed_nothing_gets_the_current_generation() -> None:
    play = Play()
    leader, follower = play.form(None, None)
    again = play.joined(play.ask_join(follower.member_id))

    assert (again.code, again.generation) == (0, leader.generation)
    assert again.members == ()
    assert play.group.phase is Phase.STABLE


def test_a_leader_that_joins_again_begins_a_rebalance() -> None:
    play = Play()
    leader, follower = play.form(None, None)
    again = play.ask_join(leader.member_id)

    assert again not in play.answers
    assert play.group.phase is Phase.PREPARING
    play.ask_join(follower.member_id)
    assert play.joined(again).generation == leader.generation + 1
    assert play.joined(again).leader == leader.member_id, "it stays the leader"


def test_changed_metadata_begins_a_rebalance() -> None:
    play = Play()
    leader, follower = play.form(None, None)
    play.ask_join(follower.member_id, protocols=(("range", b"other topics"),))

    assert play.beat(leader.member_id, leader.generation) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_join_answer_that_was_lost_is_given_again() -> None:
    play = Play()
    first = play.joined(play.ask_join())
    again = play.joined(play.ask_join(first.member_id))

    assert (again.generation, again.leader) == (first.generation, first.leader)
    assert again.members == first.members
    assert play.group.phase is Phase.COMPLETING


def test_changed_metadata_before_the_assignment_begins_again() -> None:
    play = Play()
    first = play.joined(play.ask_join())
    again = play.joined(play.ask_join(first.member_id, protocols=(("range", b"other"),)))

    assert again.generation == first.generation + 1


def test_a_full_group_takes_no_member_and_keeps_present_ones() -> None:
    play = Play(GroupLimits(initial_delay_ms=0, size_max=2))
    leader, follower = play.form(None, None)

    assert play.joined(play.ask_join()).code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert play.beat(follower.member_id, leader.generation) == 0
    play.ask_join(leader.member_id)
    assert play.joined(play.ask_join(follower.member_id)).code == 0


def test_a_group_that_was_full_before_the_limit_fell_loses_the_last_to_join_again() -> None:
    play = Play()
    members = play.form(None, None, None)
    play.limits = replace(play.limits, size_max=2)
    tokens = [play.ask_join(member.member_id) for member in members]

    assert [play.joined(t).code for t in tokens] == [0, 0, ErrorCode.GROUP_MAX_SIZE_REACHED]
    assert len(play.group.members) == 2


def test_what_members_bring_along_is_bounded() -> None:
    play = Play(GroupLimits(initial_delay_ms=0, group_bytes_max=10_000))
    play.ask_join(protocols=(("range", bytes(5000)),))
    late = play.ask_join(protocols=(("range", bytes(5000)),))

    assert play.joined(late).code == ErrorCode.GROUP_MAX_SIZE_REACHED


@pytest.mark.parametrize(
    ("protocol_type", "protocols"),
    [("connect", (("range", b""),)), ("consumer", (("sticky", b""),)), ("consumer", ())],
)
def test_who_has_no_protocol_in_common_is_refused(
    protocol_type: str, protocols: tuple[tuple[str, bytes], ...]
) -> None:
    play = Play()
    play.form(None)
    refused = play.ask_join(protocol_type=protocol_type, protocols=protocols)

    assert play.joined(refused).code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_an_empty_group_takes_any_protocol_but_not_none() -> None:
    play = Play()

    none = play.joined(play.ask_join(protocols=()))
    assert none.code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    nameless = play.joined(play.ask_join(protocol_type=""))
    assert nameless.code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    (member,) = play.form(None)
    play.leave((member.member_id, None))
    assert play.joined(play.ask_join(protocol_type="connect")).protocol_type == "connect"


def test_a_cooperative_protocol_wins_only_when_all_know_it() -> None:
    both = (("cooperative-sticky", b"c"), ("range", b"r"))
    play = Play()
    first = play.joined(play.ask_join(protocols=both))
    assert first.protocol == "cooperative-sticky"
    play.ask_join(protocols=(("range", b"r"),))
    again = play.joined(play.ask_join(first.member_id, protocols=both))

    assert again.protocol == "range"
    assert [m.metadata for m in again.members] == [b"r", b"r"]


def test_an_older_join_of_the_same_member_is_let_go() -> None:
    play = Play()
    leader, follower = play.form(None, None)
    first = play.ask_join(leader.member_id)
    second = play.ask_join(leader.member_id)

    assert play.joined(first).code == ErrorCode.REBALANCE_IN_PROGRESS
    play.ask_join(follower.member_id)
    assert play.joined(second).code == 0


def test_a_stranger_is_not_let_in() -> None:
    play = Play()
    play.form(None)

    assert play.joined(play.ask_join("stranger")).code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_waits_is_not_dropped_however_long_it_takes() -> None:
    play = Play()
    leader, follower = play.form(None, None)
    waiting = play.ask_join(leader.member_id, rebalance_ms=10 * SESSION_MS)
    for _ in range(15):
        play.beat(follower.member_id, leader.generation)
        play.wait(SESSION_MS // 2)
    assert waiting not in play.answers

    again = play.ask_join(follower.member_id)
    assert play.joined(waiting).generation == play.joined(again).generation


def test_a_new_member_whose_connection_is_lost_is_dropped_after_its_session() -> None:
    from broker.groups.decisions.membership import lost

    play = Play(GroupLimits(initial_delay_ms=600_000))
    token: Token = play.ask_join(rebalance_ms=700_000)
    lost(play.group, token, play.now)
    play.wait(SESSION_MS)

    assert not play.group.members
    assert token not in play.answers
