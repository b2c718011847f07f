"""JoinGroup: a member joins, joins again, or changes its subscription. Pure.

    no member id    a new one, or the static member that bears its instance id, under a new id
    a member id     one that was given out before (KIP-394), or a member that joins again

Source: `GroupMetadataManager.classicGroupJoinToClassicGroup` and its callees.
"""

from dataclasses import dataclass

from broker.groups.decisions.election import common, elect_protocol, supports
from broker.groups.decisions.formats import GroupKey, GroupValue
from broker.groups.decisions.group import Group, GroupTime, Member, Phase, Protocols, member_value
from broker.groups.decisions.limits import NEW_MEMBER_JOIN_MS, PENDING_MAX, GroupLimits
from broker.groups.decisions.membership import check_member, dismiss, remove, wait_for_join
from broker.groups.decisions.outcome import Decision, Joined, JoinedMember
from broker.groups.decisions.rebalance import prepare, settle
from logstore.wire.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinAsk:
    """The answer goes to `token`; `new_member_id` is an unused id."""

    token: object
    member_id: str = ""
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    new_member_id: str
    needs_member_id: bool = True
    """Whether a dynamic member has to come back with the id that it is given."""
    can_skip_assignment: bool = True


def join(group: Group, ask: JoinAsk, limits: GroupLimits, now: GroupTime) -> Decision:
    outcome = Decision()
    if not limits.session_min_ms <= ask.session_timeout_ms <= limits.session_max_ms:
        _refuse(ask, ErrorCode.INVALID_SESSION_TIMEOUT, outcome)
    elif not _has_room(group, ask, limits):
        _turn_away(group, ask, limits, now, outcome)
    elif not supports(group, ask.protocol_type, ask.protocols):
        _refuse(ask, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, outcome)
    elif ask.member_id:
        _join_known(group, ask, limits, now, outcome)
    elif ask.instance_id is not None:
        _join_static(group, ask, limits, now, outcome)
    elif ask.needs_member_id:
        group.pending[ask.new_member_id] = now.steady_ms + ask.session_timeout_ms
        group.wake_at(now.steady_ms + ask.session_timeout_ms)
        outcome.answer(ask.token, Joined(ErrorCode.MEMBER_ID_REQUIRED, ask.new_member_id))
    else:
        _add(group, ask, ask.new_member_id, limits, now, outcome)
    return outcome


def _refuse(ask: JoinAsk, code: ErrorCode, outcome: Decision) -> None:
    outcome.answer(ask.token, Joined(code, ask.member_id))


def _has_room(group: Group, ask: JoinAsk, limits: GroupLimits) -> bool:
    """Known members come first; while a rebalance gathers, those who are already waiting."""
    if not ask.member_id and len(group.pending) >= PENDING_MAX:
        return False
    member = group.members.get(ask.member_id)
    asked_bytes = sum(len(name) + len(data) for name, data in ask.protocols)
    if group.byte_count + asked_bytes > limits.group_bytes_max:
        return False
    if group.phase is Phase.EMPTY:
        return True
    if group.phase is Phase.PREPARING:
        is_waiting = member is not None and member.joining is not None
        return is_waiting or group.joining_count < limits.size_max
    is_back = ask.instance_id is not None and group.by_instance(ask.instance_id) is not None
    return member is not None or is_back or len(group.members) < limits.size_max


def _turn_away(
    group: Group, ask: JoinAsk, limits: GroupLimits, now: GroupTime, outcome: Decision
) -> None:
    """The group is full. A member that was late to join again loses its place."""
    outcome.answer(ask.token, Joined(ErrorCode.GROUP_MAX_SIZE_REACHED))
    group.pending.pop(ask.member_id, None)
    member = group.members.get(ask.member_id)
    if member is not None:
        remove(group, member, outcome, ErrorCode.UNKNOWN_MEMBER_ID)
    if group.phase is Phase.PREPARING:
        settle(group, limits, now, outcome)


def _join_known(
    group: Group, ask: JoinAsk, limits: GroupLimits, now: GroupTime, outcome: Decision
) -> None:
    if ask.member_id in group.pending and ask.instance_id is None:
        del group.pending[ask.member_id]
        _add(group, ask, ask.member_id, limits, now, outcome)
        return
    code = check_member(group, ask.member_id, ask.instance_id)
    if not code and group.phase is Phase.EMPTY:
        code = ErrorCode.UNKNOWN_MEMBER_ID
    if code:
        _refuse(ask, code, outcome)
        return
    member = group.members[ask.member_id]
    is_same = tuple(member.protocols) == tuple(ask.protocols)
    is_leaders_wish = group.phase is Phase.STABLE and group.is_leader(ask.member_id)
    if group.phase is not Phase.PREPARING and is_same and not is_leaders_wish:
        # Its answer was lost, or nothing changed: it goes on to SyncGroup.
        group.touch(member, now)
        outcome.answer(ask.token, _current(group, member))
        return
    _update(member, ask, outcome)
    settle(group, limits, now, outcome)


def _current(group: Group, member: Member) -> Joined:
    is_leader = group.is_leader(member.member_id)
    return Joined(
        ErrorCode.NONE,
        member.member_id,
        group.generation,
        group.protocol_type,
        group.protocol,
        group.leader or "",
        members=_joined_members(group) if is_leader else (),
    )


def _joined_members(group: Group) -> list[JoinedMember]:
    return [
        JoinedMember(m.member_id, m.instance_id, m.metadata(group.protocol))
        for m in group.members.values()
    ]


def _update(member: Member, ask: JoinAsk, outcome: Decision) -> None:
    member.protocols = tuple(ask.protocols)
    member.protocol_type = ask.protocol_type
    member.rebalance_timeout_ms = ask.rebalance_timeout_ms
    member.session_timeout_ms = ask.session_timeout_ms
    wait_for_join(member, ask.token, outcome)


def _add(
    group: Group,
    ask: JoinAsk,
    member_id: str,
    limits: GroupLimits,
    now: GroupTime,
    outcome: Decision,
) -> None:
    member = group.members[member_id] = _member(ask, member_id)
    member.joining, member.is_new = ask.token, True
    member.session_due_ms = now.steady_ms + NEW_MEMBER_JOIN_MS
    group.wake_at(member.session_due_ms)
    group.has_new_member = True
    settle(group, limits, now, outcome)


def _member(ask: JoinAsk, member_id: str) -> Member:
    return Member(
        member_id,
        ask.instance_id,
        ask.client_id,
        ask.client_host,
        ask.rebalance_timeout_ms,
        ask.session_timeout_ms,
        ask.protocol_type,
        tuple(ask.protocols),
    )


def _join_static(
    group: Group, ask: JoinAsk, limits: GroupLimits, now: GroupTime, outcome: Decision
) -> None:
    """A static member starts: under a new id it is who it was, and the old id is fenced."""
    assert ask.instance_id is not None
    old = group.by_instance(ask.instance_id)
    if old is None:
        _add(group, ask, ask.new_member_id, limits, now, outcome)
        return
    leader_before = group.leader
    dismiss(old, outcome, ErrorCode.FENCED_INSTANCE_ID)
    member = _replace(group, old, ask)
    if group.phase is Phase.STABLE and _protocol_stays(group, old, member):
        group.touch(member, now)
        outcome.records.append((GroupKey(group.group_id), _with_new_id(group, old, member)))
        outcome.answer(ask.token, _unchanged(group, member, ask, leader_before, old))
        return
    wait_for_join(member, ask.token, outcome)
    if group.phase is Phase.PREPARING:
        settle(group, limits, now, outcome)
    else:
        # The leader may know the old id alone: it would assign to a member that is gone.
        prepare(group, limits, now, outcome)


def _replace(group: Group, old: Member, ask: JoinAsk) -> Member:
    """The member under its new id, in the old one's place."""
    member = _member(ask, ask.new_member_id)
    member.assignment = old.assignment
    group.members = {
        one.member_id: one for one in (member if m is old else m for m in group.members.values())
    }
    group.pending_sync.discard(old.member_id)
    return member


def _protocol_stays(group: Group, old: Member, member: Member) -> bool:
    """Whether the same protocol would be chosen with the member's new list."""
    members = group.members.values()
    if group.protocol not in common(members):
        return False
    leader = member if group.is_leader(old.member_id) else group.members.get(group.leader or "")
    return elect_protocol(members, leader or member) == group.protocol


def _with_new_id(group: Group, old: Member, member: Member) -> GroupValue:
    leader = member.member_id if group.is_leader(old.member_id) else group.leader
    members = [member_value(m, group.protocol) for m in group.members.values()]
    return GroupValue(
        group.protocol_type, group.generation, group.protocol, leader, group.state_ms, members
    )


def _unchanged(
    group: Group, member: Member, ask: JoinAsk, leader_before: str | None, old: Member
) -> Joined:
    """The generation goes on. A client that cannot skip assigning gets its own old id as the
    leader's: not its current id, so it takes itself for a follower (KIP-814)."""
    was_leader = leader_before == old.member_id
    is_leader = was_leader and ask.can_skip_assignment
    return Joined(
        ErrorCode.NONE,
        member.member_id,
        group.generation,
        group.protocol_type,
        group.protocol,
        member.member_id if is_leader else leader_before or "",
        skips_assignment=is_leader,
        members=_joined_members(group) if is_leader else (),
    )
