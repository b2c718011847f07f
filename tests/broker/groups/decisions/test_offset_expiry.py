"""Old offsets go, but never those of a group that is alive; groups go with their last offset."""

from broker.groups.decisions.deletion import delete_group
from broker.groups.decisions.describe import SLICE_NAMES, describe, list_filter
from broker.groups.decisions.formats import GroupKey
from broker.groups.decisions.group import Group, Phase
from broker.groups.decisions.offset_expiry import expired
from broker.groups.decisions.offsets import OffsetCommit, commit
from logstore.slices import finish
from logstore.wire.errors import ErrorCode
from tests.broker.groups.decisions.test_offsets import SUBSCRIBED
from tests.broker.groups.played import GROUP, SESSION_MS, Play

DAY_MS = 86_400_000
ID = bytes(range(16))


def put(play: Play, topic: str, keep_ms: int = -1) -> None:
    play.append(commit(GROUP, [OffsetCommit((topic, 0), ID, 1, -1, "")], keep_ms, play.now))


def sweep(play: Play) -> list[str]:
    """Topics whose offsets went."""
    group = play.states.get(GROUP)
    if group is None:
        return []
    changes = expired(group, DAY_MS, play.now.wall_ms)
    play.append(changes)
    return [key.topic for key, _ in changes if not isinstance(key, GroupKey)]


def test_a_simple_consumer_s_offset_goes_a_while_after_its_commit() -> None:
    play = Play()
    put(play, "early")
    play.wait(1000)
    put(play, "late")
    play.wait(DAY_MS - 1000)

    assert sweep(play) == ["early"]
    play.wait(1000)
    assert sweep(play) == ["late"]
    assert play.states.get(GROUP) is None


def test_offsets_of_a_group_are_kept_from_when_its_last_member_left() -> None:
    play = Play()
    (member,) = play.form(None)
    put(play, "t")
    for _ in range(40):
        play.wait(SESSION_MS // 2)
        assert play.beat(member.member_id, 1) == 0
    play.leave((member.member_id, None))
    play.wait(DAY_MS - 1)
    play.restart()

    assert sweep(play) == []
    play.wait(1)
    assert sweep(play) == ["t"]
    assert play.states.get(GROUP) is None, "the group went with its last offset"
    assert play.states.live_count == 0


def test_a_live_group_loses_only_what_no_member_subscribes_to() -> None:
    play = Play()
    member = play.joined(play.ask_join(protocols=SUBSCRIBED, session_ms=1_000_000))
    put(play, "read")
    put(play, "unread")
    play.steady_ms += DAY_MS
    assert sweep(play) == [], "not in the midst of a rebalance"
    play.ask_sync(member.member_id, 1)

    assert sweep(play) == ["unread"]
    assert play.group.phase is Phase.STABLE


def test_a_group_of_another_kind_keeps_all_while_it_lives() -> None:
    play = Play()
    member = play.joined(play.ask_join(protocol_type="connect"))
    play.ask_sync(member.member_id, 1)
    put(play, "t")
    play.steady_ms += DAY_MS

    assert sweep(play) == []


def test_an_old_client_says_itself_how_long() -> None:
    play = Play()
    put(play, "short", keep_ms=1000)
    put(play, "long", keep_ms=2 * DAY_MS)
    play.wait(1000)

    assert sweep(play) == ["short"]
    play.wait(DAY_MS)
    assert sweep(play) == []


def test_only_a_group_without_members_can_be_deleted() -> None:
    play = Play()
    assert delete_group(play.states.get(GROUP))[0] == ErrorCode.GROUP_ID_NOT_FOUND
    (member,) = play.form(None)
    put(play, "t")
    assert delete_group(play.group)[0] == ErrorCode.NON_EMPTY_GROUP
    play.leave((member.member_id, None))
    code, changes = delete_group(play.group)
    play.append(changes)

    assert code == 0
    assert play.states.get(GROUP) is None
    play.restart()
    assert play.states.get(GROUP) is None


def test_a_group_is_described_as_it_is() -> None:
    play = Play()
    assert describe(None).state == "Dead"
    joined = play.joined(play.ask_join())
    reported = describe(play.group)
    assert (reported.state, reported.protocol) == ("CompletingRebalance", "")
    assert [(metadata, part) for _, metadata, part in reported.members] == [(b"", b"")]
    play.ask_sync(joined.member_id, 1, {joined.member_id: b"part"})
    reported = describe(play.group)
    assert (reported.state, reported.protocol_type, reported.protocol) == (
        "Stable",
        "consumer",
        "range",
    )
    assert [(metadata, part) for _, metadata, part in reported.members] == [(b"topics", b"part")]
    play.ask_join()
    assert describe(play.group).state == "PreparingRebalance"


def test_groups_are_listed_by_state_and_type() -> None:
    play = Play()
    play.form(None)
    groups = [play.group]

    def listed(states: list[str], types: list[str]) -> list[Group]:
        return list(filter(finish(list_filter(states, types)), groups))

    assert listed([], []) == groups
    assert listed(["stable"], ["Classic"]) == groups
    assert listed(["unknown", "STABLE"], ["consumer", "classic"]) == groups
    assert listed(["Empty"], []) == listed([], ["consumer"]) == listed(["unknown"], []) == []


def test_states_and_types_to_list_are_looked_at_in_slices() -> None:
    names = [f"s{number}" for number in range(3 * SLICE_NAMES)]

    assert sum(1 for _ in list_filter(names, [])) == sum(1 for _ in list_filter([], names)) == 3
