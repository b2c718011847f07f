"""DeleteGroups: a group without members goes, offsets and all. Pure."""

from broker.groups.decisions.formats import GroupKey, OffsetKey
from broker.groups.decisions.group import Group, Phase
from broker.groups.decisions.outcome import Change
from logstore.wire.errors import ErrorCode


def delete_group(group: Group | None) -> tuple[ErrorCode, list[Change]]:
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND, []
    if group.phase is not Phase.EMPTY:
        return ErrorCode.NON_EMPTY_GROUP, []
    changes: list[Change] = [(OffsetKey(group.group_id, *place), None) for place in group.offsets]
    if group.recorded:
        changes.append((GroupKey(group.group_id), None))
    return ErrorCode.NONE, changes
