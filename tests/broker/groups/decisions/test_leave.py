"""LeaveGroup: a member goes, and those who stay begin again at once."""

from broker.groups.decisions.group import Phase
from logstore.wire.errors import ErrorCode
from tests.broker.groups.played import Play


def test_who_leaves_is_gone_and_the_others_rebalance() -> None:
    play = Play()
    leader, follower = play.form(None, None)

    assert play.leave((leader.member_id, None)) == [0]
    assert play.beat(follower.member_id, follower.generation) == ErrorCode.REBALANCE_IN_PROGRESS
    assert play.joined(play.ask_join(follower.member_id)).leader == follower.member_id


def test_the_last_to_leave_empties_the_group() -> None:
    play = Play()
    (member,) = play.form(None)
    play.leave((member.member_id, None))

    assert play.group.phase is Phase.EMPTY
    assert play.group.protocol is None
    assert play.group.protocol_type == "consumer", "it was a consumers' group"


def test_a_stranger_cannot_leave() -> None:
    play = Play()
    (member,) = play.form(None)

    assert play.leave(("stranger", None)) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert play.leave((member.member_id, "instance")) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert play.group.phase is Phase.STABLE


def test_an_id_that_was_given_out_can_be_given_back() -> None:
    play = Play()
    (leader,) = play.form(None)
    response = play.joined(play.ask_join(needs_id=True))
    again = play.ask_join(leader.member_id)
    assert again not in play.answers

    assert play.leave((response.member_id, None)) == [0]
    assert play.joined(again).code == 0


def test_a_member_that_leaves_answers_the_join_it_has_waiting() -> None:
    play = Play()
    leader, follower = play.form(None, None)
    waiting = play.ask_join(leader.member_id)
    play.leave((leader.member_id, None))

    assert play.joined(waiting).code == ErrorCode.UNKNOWN_MEMBER_ID
    assert set(play.group.members) == {follower.member_id}


def test_several_leave_in_one_rebalance() -> None:
    play = Play()
    first, second, third = play.form(None, None, None)

    assert play.leave((first.member_id, None), (second.member_id, None)) == [0, 0]
    assert play.joined(play.ask_join(third.member_id)).generation == first.generation + 1
