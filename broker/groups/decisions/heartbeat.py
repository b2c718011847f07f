"""Heartbeat: a member says that it is alive, and learns whether it has to join again. Pure."""

from broker.groups.decisions.group import Group, GroupTime, Phase
from broker.groups.decisions.membership import check_member
from logstore.wire.errors import ErrorCode


def heartbeat(
    group: Group, member_id: str, instance_id: str | None, generation: int, now: GroupTime
) -> ErrorCode:
    code = check_member(group, member_id, instance_id)
    if code:
        return code
    if generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    member = group.members[member_id]
    if member.joining is None and member.syncing is None:
        group.touch(member, now)
    if group.phase is Phase.PREPARING:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE
