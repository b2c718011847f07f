"""Committing, finding and deleting offsets: by whom, when, and for which life of a topic."""

import pytest

from broker.groups.decisions.formats import CommittedOffset
from broker.groups.decisions.offsets import (
    Committer,
    OffsetCommit,
    check_commit,
    commit,
    delete,
    find,
)
from logstore.wire.errors import ErrorCode
from tests.broker.groups.played import GROUP, RANGE, SESSION_MS, Play

ID, OTHER_ID = b"1" * 16, b"2" * 16
NO_MEMBER = Committer("", None, -1)
SUBSCRIBED = (("range", bytes.fromhex("0000 00000001 0004 72656164 ffffffff")),)


def put(play: Play, topic: str = "t", offset: int = 5, keep_ms: int = -1) -> None:
    wanted = OffsetCommit((topic, 0), ID, offset, 3, "text")
    play.append(commit(GROUP, [wanted], keep_ms, play.now))


def check(play: Play, who: Committer) -> ErrorCode:
    return check_commit(play.states.get(GROUP), who, play.now)


def test_a_simple_consumer_commits_without_being_a_member() -> None:
    play = Play()
    assert check(play, NO_MEMBER) == 0
    put(play)

    found = find(play.group, ("t", 0), ID)
    assert found == CommittedOffset(5, 3, "text", play.now.wall_ms, -1, ID)
    assert play.group.protocol_type == ""


def test_no_client_commits_without_a_generation_while_there_are_members() -> None:
    play = Play()
    play.form(None)

    assert check(play, NO_MEMBER) == ErrorCode.UNKNOWN_MEMBER_ID


def test_members_commit_in_their_generation_only() -> None:
    play = Play()
    (member,) = play.form(None)

    assert check(play, Committer(member.member_id, None, 1)) == 0
    assert check(play, Committer(member.member_id, None, 0)) == ErrorCode.ILLEGAL_GENERATION
    assert check(play, Committer(member.member_id, None, 2)) == ErrorCode.ILLEGAL_GENERATION
    assert check(play, Committer("stranger", None, 1)) == ErrorCode.UNKNOWN_MEMBER_ID
    assert check(play, Committer(member.member_id, "i", 1)) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_generation_of_a_group_that_is_not_there_is_illegal() -> None:
    assert check(Play(), Committer("m", None, 3)) == ErrorCode.ILLEGAL_GENERATION


def test_a_fenced_static_member_cannot_commit() -> None:
    play = Play()
    (member,) = play.form("one")
    play.ask_join(instance_id="one")

    fenced = Committer(member.member_id, "one", member.generation)
    assert check(play, fenced) == ErrorCode.FENCED_INSTANCE_ID


def test_commits_are_taken_while_members_are_gathered_but_not_before_parts_are_given() -> None:
    play = Play()
    leader, follower = play.form(None, None)
    play.ask_join(leader.member_id)
    generation = leader.generation
    assert check(play, Committer(follower.member_id, None, generation)) == 0

    play.ask_join(follower.member_id)
    late = check(play, Committer(follower.member_id, None, generation + 1))
    assert late == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_commit_is_a_sign_of_life() -> None:
    play = Play()
    (member,) = play.form(None)
    for _ in range(3):
        play.wait(SESSION_MS - 1)
        assert check(play, Committer(member.member_id, None, 1)) == 0


def test_what_was_never_committed_is_not_found() -> None:
    play = Play()
    put(play)

    assert find(play.group, ("t", 1), ID) is None
    assert find(None, ("t", 0), ID) is None


def test_an_offset_of_an_earlier_life_of_the_topic_is_void() -> None:
    play = Play()
    put(play)

    assert find(play.group, ("t", 0), OTHER_ID) is None
    assert find(play.group, ("t", 0), ID) is not None
    assert find(play.group, ("t", 0), None) is not None, "not to know a topic proves nothing"
    put(play, keep_ms=1000)  # an old client's: no room for the id
    play.restart()
    assert find(play.group, ("t", 0), OTHER_ID) is not None


def test_offsets_survive_a_restart() -> None:
    play = Play()
    put(play, offset=7)
    put(play, offset=8)
    play.restart()

    found = find(play.group, ("t", 0), ID)
    assert found is not None
    assert (found.offset, found.leader_epoch, found.metadata) == (8, 3, "text")
    assert play.states.live_count == 1


def test_offsets_of_an_empty_group_can_be_deleted() -> None:
    play = Play()
    put(play)
    code, codes, changes = delete(play.group, [("t", 0), ("t", 1)])
    play.append(changes)

    assert (code, codes) == (0, [(("t", 0), 0), (("t", 1), 0)])
    assert play.states.get(GROUP) is None
    assert play.states.live_count == 0
    assert delete(None, [("t", 0)])[0] == ErrorCode.GROUP_ID_NOT_FOUND


def test_offsets_of_what_is_subscribed_to_cannot_be_deleted() -> None:
    play = Play()
    play.ask_join(protocols=SUBSCRIBED)
    put(play, "read")
    put(play, "unread")
    code, codes, changes = delete(play.group, [("read", 0), ("unread", 0)])

    assert code == 0
    assert codes == [(("read", 0), ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC), (("unread", 0), 0)]
    assert len(changes) == 1


@pytest.mark.parametrize("protocol_type", ["consumer", "connect"])
def test_what_members_read_may_be_unknown(protocol_type: str) -> None:
    play = Play()
    play.ask_join(protocol_type=protocol_type, protocols=RANGE)
    put(play)
    code, codes, changes = delete(play.group, [("t", 0)])

    assert not changes
    if protocol_type == "consumer":
        assert codes == [(("t", 0), ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)]
    else:
        assert code == ErrorCode.NON_EMPTY_GROUP
