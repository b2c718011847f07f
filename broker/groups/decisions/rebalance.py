"""From one generation to the next: gather everybody, choose, answer all at once. Pure.

The new generation is recorded before anybody hears of it, with assignments still empty. So no
number is ever given twice, wherever a coordinator dies; Kafka records a generation only when its
leader has assigned. Source: `GroupMetadataManager.prepareRebalance`, `completeClassicGroupJoin`.
"""

from broker.groups.decisions.election import elect_leader, elect_protocol
from broker.groups.decisions.formats import NEVER, GroupKey, GroupValue
from broker.groups.decisions.group import NO_DEADLINE, Group, GroupTime, Member, Phase, member_value
from broker.groups.decisions.limits import GroupLimits
from broker.groups.decisions.outcome import Decision, Joined, JoinedMember, Synced
from logstore.wire.errors import ErrorCode


def prepare(group: Group, limits: GroupLimits, now: GroupTime, outcome: Decision) -> None:
    """Begin to gather members for the next generation."""
    outcome.begins_rebalance = True
    for member in group.members.values():
        if member.syncing is not None:
            outcome.answer(member.syncing, Synced(ErrorCode.REBALANCE_IN_PROGRESS))
            member.syncing = None
            group.touch(member, now)
    group.pending_sync.clear()
    group.sync_due_ms = NO_DEADLINE
    group.is_initial = group.phase is Phase.EMPTY
    group.phase = Phase.PREPARING
    group.has_new_member = False
    if group.is_initial and limits.initial_delay_ms > 0:
        delay_ms = limits.initial_delay_ms
        group.initial_left_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        _wait(group, now.steady_ms + delay_ms)
        return
    _wait(group, now.steady_ms + group.rebalance_timeout_ms)
    if group.is_initial or group.has_all_joined:
        complete(group, now, outcome)


def settle(group: Group, limits: GroupLimits, now: GroupTime, outcome: Decision) -> None:
    """Members came, changed or went: begin a rebalance, or end the one that is on if it can."""
    if group.phase is Phase.PREPARING:
        if group.has_all_joined and not group.is_initial:
            complete(group, now, outcome)
    elif group.phase is not Phase.EMPTY or group.members:
        prepare(group, limits, now, outcome)


def join_is_due(group: Group, limits: GroupLimits, now: GroupTime, outcome: Decision) -> None:
    """The time to gather is over; the first may be put off again while members keep arriving."""
    if group.is_initial and group.has_new_member and group.initial_left_ms > 0:
        delay_ms = min(limits.initial_delay_ms, group.initial_left_ms)
        group.initial_left_ms -= delay_ms
        group.has_new_member = False
        _wait(group, now.steady_ms + delay_ms)
    else:
        complete(group, now, outcome)


def complete(group: Group, now: GroupTime, outcome: Decision) -> None:
    """Go on with the members that have joined, and with static members, which may be late."""
    group.members = {
        member_id: member
        for member_id, member in group.members.items()
        if member.joining is not None or member.instance_id is not None
    }
    leader = elect_leader(group)
    group.is_initial = False  # the next one that joins, or the end of a session, ends the wait
    if leader is None and group.members:
        # No member can assign: wait until one of them joins, or its session ends.
        _wait(group, now.steady_ms + max(group.rebalance_timeout_ms, 1))
        return
    group.join_due_ms = NO_DEADLINE
    generation = group.generation + 1
    if leader is None:
        value = GroupValue(group.protocol_type, generation, None, None, now.wall_ms, ())
        outcome.records.append((GroupKey(group.group_id), value))
        return
    protocol = elect_protocol(group.members.values(), leader)
    _answer_all(group, generation, protocol, leader, now, outcome)
    members = [member_value(member, protocol, b"") for member in group.members.values()]
    value = GroupValue(leader.protocol_type, generation, protocol, leader.member_id, NEVER, members)
    outcome.records.append((GroupKey(group.group_id), value))
    group.pending_sync = set(group.members)
    group.sync_due_ms = now.steady_ms + group.rebalance_timeout_ms
    group.wake_at(group.sync_due_ms)


def _answer_all(
    group: Group, generation: int, protocol: str, leader: Member, now: GroupTime, outcome: Decision
) -> None:
    shown = [
        JoinedMember(member.member_id, member.instance_id, member.metadata(protocol))
        for member in group.members.values()
    ]
    for member in group.members.values():
        joined = Joined(
            ErrorCode.NONE,
            member.member_id,
            generation,
            leader.protocol_type,
            protocol,
            leader.member_id,
            members=shown if member is leader else (),
        )
        outcome.answer(member.joining, joined)
        if member.joining is not None:
            group.touch(member, now)
        member.joining = None
        member.is_new = False


def _wait(group: Group, due_ms: int) -> None:
    group.join_due_ms = due_ms
    group.wake_at(due_ms)
