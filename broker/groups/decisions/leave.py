"""LeaveGroup: members go at once instead of at the end of their sessions. Pure."""

from collections.abc import Sequence

from broker.groups.decisions.group import Group, GroupTime
from broker.groups.decisions.limits import GroupLimits
from broker.groups.decisions.membership import check_member, remove
from broker.groups.decisions.outcome import Decision
from broker.groups.decisions.rebalance import settle
from logstore.wire.errors import ErrorCode

Who = tuple[str, str | None]
"""Member id, and instance id. A tool that removes a static member knows only the latter."""


def leave(
    group: Group, asked: Sequence[Who], limits: GroupLimits, now: GroupTime
) -> tuple[Decision, list[ErrorCode]]:
    """The outcome, and one code per member asked for."""
    outcome = Decision()
    codes = [_leave_one(group, *who, outcome) for who in asked]
    if ErrorCode.NONE in codes:
        settle(group, limits, now, outcome)
    return outcome, codes


def _leave_one(
    group: Group, member_id: str, instance_id: str | None, outcome: Decision
) -> ErrorCode:
    if instance_id is None and group.pending.pop(member_id, None) is not None:
        return ErrorCode.NONE
    if instance_id is not None and not member_id:
        known = group.by_instance(instance_id)
        member_id = known.member_id if known is not None else ""
    code = check_member(group, member_id, instance_id)
    if not code:
        remove(group, group.members[member_id], outcome, ErrorCode.UNKNOWN_MEMBER_ID)
    return code
