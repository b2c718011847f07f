"""The rules for committing, fetching and deleting offsets. Pure.

Members commit in their generation; a consumer that assigns partitions to itself ("simple") commits
without one, which is accepted only while the group has no members.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from broker.groups.decisions.formats import NEVER, CommittedOffset, OffsetKey
from broker.groups.decisions.group import OFFSET_BYTES, Group, GroupTime, Phase, offset_bytes
from broker.groups.decisions.membership import check_member
from broker.groups.decisions.outcome import Change
from broker.groups.decisions.subscription import is_consumers, subscribed_topics
from logstore.wire.errors import ErrorCode
from logstore.wire.primitives import ZERO_UUID

Place = tuple[str, int]


class Committer(NamedTuple):
    member_id: str
    instance_id: str | None
    generation: int


class OffsetCommit(NamedTuple):
    """An offset to be committed; the topic id is that of the topic as it lives now."""

    place: Place
    topic_id: bytes
    offset: int
    leader_epoch: int
    metadata: str


def check_commit(group: Group | None, who: Committer, now: GroupTime) -> ErrorCode:
    if group is None:
        return ErrorCode.NONE if who.generation < 0 else ErrorCode.ILLEGAL_GENERATION
    if who.generation < 0 and group.phase is Phase.EMPTY:
        return ErrorCode.NONE
    if who.generation < 0 and not who.member_id and who.instance_id is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    code = check_member(group, who.member_id, who.instance_id)
    if code:
        return code
    if who.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if group.phase is Phase.COMPLETING:
        return ErrorCode.REBALANCE_IN_PROGRESS
    member = group.members[who.member_id]
    if member.joining is None:
        group.touch(member, now)
    return ErrorCode.NONE


def commit(
    group_id: str, wanted: Sequence[OffsetCommit], keep_ms: int, now: GroupTime
) -> list[Change]:
    """`keep_ms`: how long an old client wants them kept, else -1."""
    expire_ms = NEVER if keep_ms < 0 else now.wall_ms + keep_ms
    return [
        (
            OffsetKey(group_id, *one.place),
            CommittedOffset(
                one.offset, one.leader_epoch, one.metadata, now.wall_ms, expire_ms, one.topic_id
            ),
        )
        for one in wanted
    ]


def growth_bytes(known: Mapping[Place, CommittedOffset], wanted: Sequence[OffsetCommit]) -> int:
    """About how much more memory offsets take once `wanted` is committed."""
    growth = 0
    for one in wanted:
        before = known.get(one.place)
        growth += OFFSET_BYTES + len(one.place[0]) + len(one.metadata)
        growth -= 0 if before is None else offset_bytes(one.place, before)
    return growth


def find(group: Group | None, place: Place, topic_id: bytes | None) -> CommittedOffset | None:
    """The offset, unless the topic was deleted and created again since: then it means nothing.

    `topic_id` None: no such topic is known here, which says nothing about the offset.
    """
    committed = None if group is None else group.offsets.get(place)
    if committed is None or ZERO_UUID in (committed.topic_id, topic_id):
        return committed
    return committed if topic_id is None or topic_id == committed.topic_id else None


def delete(
    group: Group | None, places: Collection[Place]
) -> tuple[ErrorCode, list[tuple[Place, ErrorCode]], list[Change]]:
    """For the whole request, for each place, and what to append. Not for subscribed topics."""
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND, [], []
    is_empty = group.phase is Phase.EMPTY
    if not is_empty and not is_consumers(group):
        return ErrorCode.NON_EMPTY_GROUP, [], []
    topics = frozenset[str]() if is_empty else subscribed_topics(group)
    codes, changes = [], list[Change]()
    for place in places:
        if topics is None or place[0] in topics:
            codes.append((place, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC))
            continue
        codes.append((place, ErrorCode.NONE))
        if place in group.offsets:
            changes.append((OffsetKey(group.group_id, *place), None))
    return ErrorCode.NONE, codes, changes
