"""All groups of one partition of `__consumer_offsets`: the state of its records. Pure.

Only `apply` changes state that must survive: a live coordinator applies the records that it
appends, one that starts applies those that it reads, from log start to the high watermark.
"""

from collections import Counter
from collections.abc import Callable, Iterator

from broker.groups.decisions.formats import (
    NEVER,
    CommittedOffset,
    GroupKey,
    GroupValue,
    Key,
    OffsetKey,
)
from broker.groups.decisions.group import (
    NO_DEADLINE,
    Group,
    GroupTime,
    Member,
    Phase,
    member_of,
    offset_bytes,
)
from broker.groups.decisions.newer_records import NewerRecord, NewerRecords
from broker.groups.decisions.outcome import Change


class GroupStates:
    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}
        self.live_count = 0
        """Keys with a value: what would be left of the partition by compaction."""
        self.byte_count = 0
        """About what all of it takes in memory."""
        self.topic_offset_counts = Counter[str]()
        """Committed offsets by topic name, of all groups."""
        self.newer = NewerRecords()
        self._weights: dict[str, int] = {}
        """Of each group, as weighed last: its share of `byte_count`, without offsets."""

    def get(self, group_id: str) -> Group | None:
        return self.groups.get(group_id)

    def get_or_new(self, group_id: str) -> Group:
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = Group(group_id)
            self.weigh(group)
        return group

    def forget(self, group: Group) -> None:
        """Drop a group of which nothing is recorded."""
        if group.is_forgettable:
            self.groups.pop(group.group_id, None)
            self.byte_count -= self._weights.pop(group.group_id, 0)

    def weigh(self, group: Group) -> None:
        """To be called when members have come, gone or changed."""
        if self.groups.get(group.group_id) is not group:
            return
        weight = group.held_bytes
        self.byte_count += weight - self._weights.get(group.group_id, 0)
        self._weights[group.group_id] = weight

    def apply(self, change: Change) -> None:
        key, value = change
        if self.newer:
            self._change_newer(lambda: self.newer.drop(key))
        if isinstance(key, OffsetKey):
            assert value is None or isinstance(value, CommittedOffset)
            self._apply_offset(key, value)
        else:
            assert value is None or isinstance(value, GroupValue)
            self._apply_group(key, value)

    def apply_newer(self, record: NewerRecord) -> None:
        """A record that only a newer version understands; the one it replaces no longer holds."""
        if isinstance(record.known, OffsetKey):
            self._apply_offset(record.known, None)
        elif record.known is not None:
            self._apply_group(record.known, None)
        self._change_newer(lambda: self.newer.apply(record))

    def _change_newer(self, change: Callable[[], None]) -> None:
        before = (len(self.newer), self.newer.byte_count)
        change()
        self.live_count += len(self.newer) - before[0]
        self.byte_count += self.newer.byte_count - before[1]

    def _apply_offset(self, key: OffsetKey, value: CommittedOffset | None) -> None:
        place = (key.topic, key.partition)
        if value is not None:
            offsets = self.get_or_new(key.group).offsets
            known = offsets.get(place)
            if known is None:
                self.live_count += 1
                self.topic_offset_counts[key.topic] += 1
            self.byte_count += offset_bytes(place, value)
            self.byte_count -= 0 if known is None else offset_bytes(place, known)
            offsets[place] = value
            return
        group = self.groups.get(key.group)
        if group is not None and (gone := group.offsets.pop(place, None)) is not None:
            self.live_count -= 1
            self.topic_offset_counts[key.topic] -= 1
            if not self.topic_offset_counts[key.topic]:
                del self.topic_offset_counts[key.topic]
            self.byte_count -= offset_bytes(place, gone)
            self.forget(group)

    def _apply_group(self, key: GroupKey, value: GroupValue | None) -> None:
        if value is None:
            gone = self.groups.get(key.group)
            if gone is not None:
                self.live_count -= gone.recorded is not None
                gone.recorded = None
                gone.generation, gone.protocol_type = 0, ""
                gone.protocol = gone.leader = None
                _become(gone, Phase.EMPTY, {})
                self.weigh(gone)
                self.forget(gone)
            return
        group = self.get_or_new(key.group)
        self.live_count += group.recorded is None
        group.recorded = value
        group.generation, group.protocol_type = value.generation, value.protocol_type
        group.protocol, group.leader = value.protocol, value.leader
        group.state_ms = value.state_ms
        members: dict[str, Member] = {}
        for one in value.members:
            member = group.members.get(one.member_id)
            if member is None:
                member = member_of(one, value.protocol_type, value.protocol)
            member.assignment = one.assignment
            members[one.member_id] = member
        _become(group, _phase_of(value), members)
        self.weigh(group)

    def keys(self) -> Iterator[Key]:
        """Of all that is recorded; groups may change while this is walked through."""
        for group in list(self.groups.values()):
            for place in list(group.offsets):
                yield OffsetKey(group.group_id, *place)
            yield GroupKey(group.group_id)

    def recorded(self, key: Key) -> Change | None:
        """The last record of `key`, to be written again; None: nothing is recorded.

        Not the group as it stands: members that left during a rebalance have no record of it yet.
        Without them the generation would seem whole, and their partitions would have no owner.
        """
        group = self.groups.get(key.group)
        if group is None:
            return None
        if isinstance(key, OffsetKey):
            offset = group.offsets.get((key.topic, key.partition))
            return None if offset is None else (key, offset)
        return None if group.recorded is None else (key, group.recorded)

    def resume(self, now: GroupTime) -> None:
        """After a start: every member's session begins now, since heartbeats are not recorded."""
        for group in self.groups.values():
            for member in group.members.values():
                group.touch(member, now)
            if group.phase is Phase.COMPLETING:
                group.pending_sync = set(group.members)
                group.sync_due_ms = now.steady_ms + group.rebalance_timeout_ms
                group.wake_at(group.sync_due_ms)


def _phase_of(value: GroupValue) -> Phase:
    if not value.members:
        return Phase.EMPTY
    is_assigned = value.state_ms != NEVER or any(one.assignment for one in value.members)
    return Phase.STABLE if is_assigned else Phase.COMPLETING


def _become(group: Group, phase: Phase, members: dict[str, Member]) -> None:
    group.phase, group.members = phase, members
    if phase is Phase.EMPTY:
        group.pending_sync.clear()
        group.sync_due_ms = group.join_due_ms = NO_DEADLINE
