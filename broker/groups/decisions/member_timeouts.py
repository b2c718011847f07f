"""Time-outs: sessions of members, and the joining and syncing of a rebalance. Pure."""

from broker.groups.decisions.group import NO_DEADLINE, Group, GroupTime, Phase
from broker.groups.decisions.limits import GroupLimits
from broker.groups.decisions.membership import remove
from broker.groups.decisions.outcome import Decision
from broker.groups.decisions.rebalance import join_is_due, prepare, settle
from logstore.wire.errors import ErrorCode


def expire(group: Group, limits: GroupLimits, now: GroupTime) -> Decision:
    """Do all that is due, and note in `wake_ms` when to look again."""
    outcome = Decision()
    if group.sync_due_ms <= now.steady_ms:
        _sync_is_due(group, limits, now, outcome)
    if _drop_silent(group, now, outcome):
        settle(group, limits, now, outcome)
    if group.join_due_ms <= now.steady_ms and group.phase is Phase.PREPARING:
        join_is_due(group, limits, now, outcome)
    group.wake_ms = min(group.deadlines(), default=NO_DEADLINE)
    return outcome


def forgive(group: Group, late_ms: int) -> None:
    """Give everybody the time that the coordinator itself was away.

    A process that was stopped, or a machine that slept, finds every session over though heartbeats
    lie unread in its sockets.
    """
    group.pending = {member_id: due_ms + late_ms for member_id, due_ms in group.pending.items()}
    for member in group.members.values():
        if member.session_due_ms != NO_DEADLINE:
            member.session_due_ms += late_ms
    if group.join_due_ms != NO_DEADLINE:
        group.join_due_ms += late_ms
    if group.sync_due_ms != NO_DEADLINE:
        group.sync_due_ms += late_ms


def _drop_silent(group: Group, now: GroupTime, outcome: Decision) -> bool:
    """Forget members not heard of in time; whether there were any."""
    late = [member_id for member_id, due_ms in group.pending.items() if due_ms <= now.steady_ms]
    for member_id in late:
        del group.pending[member_id]
    silent = [m for m in group.members.values() if m.session_due_ms <= now.steady_ms]
    for member in silent:
        remove(group, member, outcome, ErrorCode.UNKNOWN_MEMBER_ID)
    return bool(silent) or (bool(late) and group.phase is Phase.PREPARING)


def _sync_is_due(group: Group, limits: GroupLimits, now: GroupTime, outcome: Decision) -> None:
    """Members that joined and never synced are removed; if the leader is one, none is assigned."""
    group.sync_due_ms = NO_DEADLINE
    late = [m for m in group.members.values() if m.member_id in group.pending_sync]
    for member in late:
        remove(group, member, outcome, ErrorCode.UNKNOWN_MEMBER_ID)
    if late and group.phase in (Phase.COMPLETING, Phase.STABLE):
        prepare(group, limits, now, outcome)
