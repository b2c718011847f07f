"""DeleteGroups: a group without members goes, offsets and all. Pure.

Of a group with many offsets some go at a time, and the group itself with the last of them.
"""

from itertools import islice

from broker.groups.decisions.formats import GroupKey, OffsetKey
from broker.groups.decisions.group import Group, Phase
from broker.groups.decisions.outcome import Change
from logstore.wire.errors import ErrorCode

AT_ONCE = 200
"""Offsets that go in one step."""


def delete_group(group: Group | None) -> tuple[ErrorCode, list[Change]]:
    """Why the group may not go, else the next changes: it is gone once none are left."""
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND, []
    if group.phase is not Phase.EMPTY:
        return ErrorCode.NON_EMPTY_GROUP, []
    places = islice(group.offsets, AT_ONCE)
    changes: list[Change] = [(OffsetKey(group.group_id, *place), None) for place in places]
    if group.recorded and len(changes) == len(group.offsets):
        changes.append((GroupKey(group.group_id), None))
    return ErrorCode.NONE, changes
