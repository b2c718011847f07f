"""Whether a request is from whom it says it is, and what becomes of those who go. Pure."""

from broker.groups.decisions.group import NO_DEADLINE, Group, GroupTime, Member
from broker.groups.decisions.outcome import Decision, Joined, Synced
from logstore.wire.errors import ErrorCode


def check_member(group: Group, member_id: str, instance_id: str | None) -> ErrorCode:
    """An instance id belongs to the member that joined with it last; older ones are fenced."""
    if instance_id is not None:
        known = group.by_instance(instance_id)
        if known is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if known.member_id != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    return ErrorCode.NONE if member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID


def remove(group: Group, member: Member, outcome: Decision, code: ErrorCode) -> None:
    """Take a member out; its waiting requests are answered with `code`."""
    group.members.pop(member.member_id, None)
    group.pending_sync.discard(member.member_id)
    dismiss(member, outcome, code)


def dismiss(member: Member, outcome: Decision, code: ErrorCode) -> None:
    """Answer what a member has waiting."""
    outcome.answer(member.joining, Joined(code, member.member_id))
    outcome.answer(member.syncing, Synced(code))
    member.joining = member.syncing = None


def wait_for_join(member: Member, token: object, outcome: Decision) -> None:
    """Keep a JoinGroup. An older one of the same member is let go: two wait on one answer."""
    dismiss(member, outcome, ErrorCode.REBALANCE_IN_PROGRESS)
    member.joining = token
    member.session_due_ms = NO_DEADLINE


def wait_for_sync(member: Member, token: object, outcome: Decision) -> None:
    dismiss(member, outcome, ErrorCode.REBALANCE_IN_PROGRESS)
    member.syncing = token
    member.session_due_ms = NO_DEADLINE


def lost(group: Group, token: object, now: GroupTime) -> None:
    """The connection on which a member waited is gone: from now on it is silent.

    It has until its session ends to ask again. Kafka cannot see this, and waits for it longer.
    """
    for member in group.members.values():
        if token is member.joining or token is member.syncing:
            member.joining = None if token is member.joining else member.joining
            member.syncing = None if token is member.syncing else member.syncing
            group.touch(member, now)
