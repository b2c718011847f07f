"""SyncGroup and Heartbeat: parts are handed out once per generation, to its members alone."""

from broker.groups.decisions.group import Phase
from broker.groups.decisions.member_timeouts import expire, forgive
from logstore.wire.errors import ErrorCode
from tests.broker.groups.played import REBALANCE_MS, SESSION_MS, Play


def test_followers_wait_for_the_leader_and_get_their_part() -> None:
    play = Play()
    first = play.joined(play.ask_join())
    newcomer = play.ask_join()
    leader = play.joined(play.ask_join(first.member_id))
    follower = play.joined(newcomer)
    waiting = play.ask_sync(follower.member_id, 2)
    assert waiting not in play.answers
    parts = {leader.member_id: b"a", follower.member_id: b"b"}
    own = play.ask_sync(leader.member_id, 2, parts)

    assert play.synced(own).assignment == b"a"
    assert play.synced(waiting).assignment == b"b"
    assert (play.synced(own).protocol_type, play.synced(own).protocol) == ("consumer", "range")
    assert play.group.phase is Phase.STABLE


def test_a_stable_group_gives_the_stored_part() -> None:
    play = Play()
    (member,) = play.form(None)
    again = play.synced(play.ask_sync(member.member_id, 1))

    assert again.assignment == f"part of {member.member_id}".encode()


def test_a_member_the_leader_forgot_gets_empty_bytes() -> None:
    play = Play()
    member = play.joined(play.ask_join())
    answer = play.synced(play.ask_sync(member.member_id, 1, {}))

    assert (answer.code, answer.assignment) == (0, b"")
    assert play.group.phase is Phase.STABLE
    play.restart()
    assert play.group.phase is Phase.STABLE, "an assignment of nothing is one all the same"


def test_a_wrong_generation_or_protocol_or_member_is_refused() -> None:
    play = Play()
    (member,) = play.form(None)

    assert play.synced(play.ask_sync(member.member_id, 0)).code == ErrorCode.ILLEGAL_GENERATION
    assert play.synced(play.ask_sync("stranger", 1)).code == ErrorCode.UNKNOWN_MEMBER_ID
    wrong = play.synced(play.ask_sync(member.member_id, 1, protocol="sticky"))
    assert wrong.code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_rebalance_sends_those_who_sync_back_to_join() -> None:
    play = Play()
    leader, follower = play.form(None, None)
    play.ask_join(leader.member_id)
    late = play.synced(play.ask_sync(follower.member_id, leader.generation))
    assert late.code == ErrorCode.REBALANCE_IN_PROGRESS

    joined = play.joined(play.ask_join(follower.member_id))
    waiting = play.ask_sync(follower.member_id, joined.generation)
    play.ask_join()  # another member comes before the leader has assigned
    assert play.synced(waiting).code == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_leader_that_never_assigns_is_dropped_and_the_others_begin_again() -> None:
    play = Play()
    leader, follower = play.form(None, None)
    play.ask_join(leader.member_id)
    joined = play.joined(play.ask_join(follower.member_id))
    waiting = play.ask_sync(follower.member_id, joined.generation)
    for _ in range(REBALANCE_MS * 2 // SESSION_MS):
        play.beat(leader.member_id, joined.generation)
        play.wait(SESSION_MS // 2)

    assert play.synced(waiting).code == ErrorCode.REBALANCE_IN_PROGRESS
    assert leader.member_id not in play.group.members
    assert play.joined(play.ask_join(follower.member_id)).leader == follower.member_id


def test_a_follower_that_never_syncs_is_dropped_though_it_sends_heartbeats() -> None:
    play = Play()
    leader, follower = play.form(None, None)
    play.ask_join(leader.member_id)
    joined = play.joined(play.ask_join(follower.member_id))
    play.ask_sync(leader.member_id, joined.generation, {})
    for _ in range(REBALANCE_MS * 2 // SESSION_MS):
        play.beat(leader.member_id, joined.generation)
        play.beat(follower.member_id, joined.generation)
        play.wait(SESSION_MS // 2)

    assert set(play.group.members) == {leader.member_id}


def test_heartbeats_keep_a_session_alive_and_silence_ends_it() -> None:
    play = Play()
    leader, follower = play.form(None, None)
    for _ in range(4):
        play.wait(SESSION_MS - 1)
        assert play.beat(leader.member_id, leader.generation) in (
            0,
            ErrorCode.REBALANCE_IN_PROGRESS,
        )

    assert follower.member_id not in play.group.members
    assert play.group.phase is Phase.PREPARING
    assert play.beat(follower.member_id, leader.generation) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_heartbeat_is_checked_like_everything_else() -> None:
    play = Play()
    (member,) = play.form(None)

    assert play.beat(member.member_id, 1) == 0
    assert play.beat(member.member_id, 2) == ErrorCode.ILLEGAL_GENERATION
    assert play.beat("stranger", 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_heartbeat_between_join_and_assignment_is_fine() -> None:
    play = Play()
    member = play.joined(play.ask_join())

    assert play.beat(member.member_id, 1) == 0


def test_sync_and_join_restart_the_session_timeout() -> None:
    play = Play()
    member = play.joined(play.ask_join())
    play.wait(SESSION_MS - 1)
    play.ask_sync(member.member_id, 1)
    play.wait(SESSION_MS - 1)
    assert play.beat(member.member_id, 1) == 0
    play.wait(SESSION_MS - 1)
    again = play.joined(play.ask_join(member.member_id))
    play.wait(SESSION_MS - 1)

    assert play.beat(member.member_id, again.generation) == 0


def test_a_group_whose_last_member_is_gone_is_empty_and_counts_on() -> None:
    play = Play()
    play.form(None)
    play.wait(SESSION_MS)

    assert play.group.phase is Phase.EMPTY
    assert play.group.generation == 2
    assert play.group.state_ms > 0
    assert play.joined(play.ask_join()).generation == 3


def test_a_generation_that_was_given_is_never_given_again() -> None:
    play = Play()
    first = play.joined(play.ask_join())
    play.restart()  # before its leader has assigned
    assert play.group.phase is Phase.COMPLETING
    play.leave((first.member_id, None))

    assert play.joined(play.ask_join()).generation > first.generation


def test_an_assignment_may_be_handed_in_to_the_next_coordinator() -> None:
    play = Play()
    joined = play.joined(play.ask_join())
    play.restart()
    part = play.synced(play.ask_sync(joined.member_id, 1, {joined.member_id: b"part"}))

    assert (part.code, part.assignment) == (0, b"part")


def test_members_are_not_taken_for_dead_because_the_coordinator_was_away() -> None:
    play = Play()
    leader, follower = play.form(None, None)
    reported = play.joined(play.ask_join(needs_id=True))
    play.steady_ms += 10 * SESSION_MS  # the broker's machine slept
    forgive(play.group, 10 * SESSION_MS - 1000)
    play.carry_out(expire(play.group, play.limits, play.now))
    assert set(play.group.members) == {leader.member_id, follower.member_id}
    assert reported.member_id in play.group.pending

    play.wait(SESSION_MS)
    assert not play.group.members
