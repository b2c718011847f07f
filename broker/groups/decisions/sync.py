"""SyncGroup: the leader hands in who gets what, everybody gets their part. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from broker.groups.decisions.formats import GroupKey
from broker.groups.decisions.group import NO_DEADLINE, Group, GroupTime, Phase, member_value
from broker.groups.decisions.limits import GroupLimits
from broker.groups.decisions.membership import check_member, wait_for_sync
from broker.groups.decisions.outcome import Decision, Synced
from logstore.wire.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncAsk:
    token: object
    member_id: str
    generation: int
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: Mapping[str, bytes]
    """By member id; counts only from the leader."""


def sync(group: Group, ask: SyncAsk, limits: GroupLimits, now: GroupTime) -> Decision:
    outcome = Decision()
    code = _check(group, ask, limits)
    if code:
        outcome.answer(ask.token, Synced(code))
        return outcome
    member = group.members[ask.member_id]
    group.pending_sync.discard(member.member_id)
    if not group.pending_sync:
        group.sync_due_ms = NO_DEADLINE
    if group.phase is Phase.STABLE:
        group.touch(member, now)
        outcome.answer(ask.token, _part(group, member.assignment))
        return outcome
    wait_for_sync(member, ask.token, outcome)
    if group.is_leader(member.member_id):
        _assign(group, ask.assignments, now, outcome)
    return outcome


def _check(group: Group, ask: SyncAsk, limits: GroupLimits) -> ErrorCode:
    code = check_member(group, ask.member_id, ask.instance_id)
    if code:
        return code
    if ask.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if group.phase is Phase.PREPARING:
        return ErrorCode.REBALANCE_IN_PROGRESS
    if _differs(ask.protocol_type, group.protocol_type) or _differs(ask.protocol, group.protocol):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assigned_bytes = sum(map(len, ask.assignments.values()))
    if group.byte_count + assigned_bytes > 2 * limits.group_bytes_max:
        return ErrorCode.GROUP_MAX_SIZE_REACHED
    return ErrorCode.NONE


def _differs(asked: str | None, known: str | None) -> bool:
    return asked is not None and known is not None and asked != known


def _assign(group: Group, parts: Mapping[str, bytes], now: GroupTime, outcome: Decision) -> None:
    """Members that the leader forgot get nothing: empty bytes."""
    members = []
    for member in group.members.values():
        part = parts.get(member.member_id, b"")
        members.append(member_value(member, group.protocol, part))
        if member.syncing is not None:
            outcome.answer(member.syncing, _part(group, part))
            member.syncing = None
            group.touch(member, now)
    value = replace(group.value(now.wall_ms), members=members)
    outcome.records.append((GroupKey(group.group_id), value))


def _part(group: Group, assignment: bytes) -> Synced:
    return Synced(ErrorCode.NONE, group.protocol_type, group.protocol, assignment)
