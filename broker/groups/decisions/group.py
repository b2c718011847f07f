"""One consumer group and its members, as values that decisions work on. Pure.

    Empty → PreparingRebalance → CompletingRebalance → Stable → PreparingRebalance …

State that must survive a restart (generation, protocol, leader, members, assignments, offsets) is
that of the last records, and changes in `state.GroupStates.apply` alone. The rest is waiting
requests, deadlines and members about to join: a restart may forget it, and members begin again.

Times are milliseconds: deadlines by a steady clock, stamps in records by the wall's.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from broker.groups.decisions.formats import CommittedOffset, GroupValue, MemberValue

NO_DEADLINE = 1 << 62
GROUP_BYTES, MEMBER_BYTES, PENDING_BYTES, OFFSET_BYTES = 1_000, 500, 150, 400
"""Approximate bytes that one takes in memory beside the data of its clients."""

Protocols = Sequence[tuple[str, bytes]]
"""Names with the member's metadata for each, the one it likes best first."""


class Phase(Enum):
    """Values are what DescribeGroups and ListGroups show."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"


class GroupTime(NamedTuple):
    steady_ms: int
    wall_ms: int


@dataclass(eq=False, slots=True)
class Member:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    assignment: bytes = b""
    joining: object | None = None
    """Its JoinGroup that waits for an answer."""
    syncing: object | None = None
    is_new: bool = False
    """Waits for the answer to its first JoinGroup: it cannot send heartbeats yet."""
    session_due_ms: int = NO_DEADLINE
    """When it is taken for dead; never while a request of it waits here, unless it is new."""

    def metadata(self, protocol: str | None) -> bytes:
        return next((data for name, data in self.protocols if name == protocol), b"")

    @property
    def byte_count(self) -> int:
        """Approximate bytes that it holds in memory."""
        return (
            MEMBER_BYTES
            + len(self.assignment)
            + sum(len(n) + len(data) for n, data in self.protocols)
        )


@dataclass(eq=False, slots=True)
class Group:
    group_id: str
    generation: int = 0
    protocol_type: str = ""
    protocol: str | None = None
    leader: str | None = None
    state_ms: int = -1
    phase: Phase = Phase.EMPTY
    members: dict[str, Member] = field(default_factory=dict)
    offsets: dict[tuple[str, int], CommittedOffset] = field(default_factory=dict)
    recorded: GroupValue | None = None
    """The last record of the group, not of its offsets, in the log."""

    pending: dict[str, int] = field(default_factory=dict)
    """Member ids that were given out and have not come back (KIP-394), with their deadlines."""
    pending_sync: set[str] = field(default_factory=set)
    join_due_ms: int = NO_DEADLINE
    sync_due_ms: int = NO_DEADLINE
    initial_left_ms: int = 0
    """How much longer the first rebalance may be put off while members keep arriving."""
    is_initial: bool = False
    has_new_member: bool = False
    wake_ms: int = NO_DEADLINE
    """Nothing is due before."""

    # Members

    def by_instance(self, instance_id: str) -> Member | None:
        return next((m for m in self.members.values() if m.instance_id == instance_id), None)

    def is_leader(self, member_id: str) -> bool:
        return self.leader == member_id

    @property
    def type_now(self) -> str:
        """The protocol type of the members, else of the last ones."""
        return next((m.protocol_type for m in self.members.values()), self.protocol_type)

    @property
    def joining_count(self) -> int:
        return sum(1 for member in self.members.values() if member.joining is not None)

    @property
    def has_all_joined(self) -> bool:
        return not self.pending and self.joining_count == len(self.members)

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest that any member asks for."""
        return max((m.rebalance_timeout_ms for m in self.members.values()), default=0)

    @property
    def byte_count(self) -> int:
        return sum(member.byte_count for member in self.members.values())

    @property
    def held_bytes(self) -> int:
        """About what all of it but its offsets holds in memory, the last record too."""
        recorded = () if self.recorded is None else self.recorded.members
        return (
            GROUP_BYTES
            + PENDING_BYTES * len(self.pending)
            + self.byte_count
            + sum(MEMBER_BYTES + len(one.subscription) + len(one.assignment) for one in recorded)
        )

    # Deadlines

    def touch(self, member: Member, now: GroupTime) -> None:
        """The member was heard from: its session time-out begins again."""
        member.session_due_ms = now.steady_ms + member.session_timeout_ms
        self.wake_at(member.session_due_ms)

    def wake_at(self, due_ms: int) -> None:
        self.wake_ms = min(self.wake_ms, due_ms)

    def deadlines(self) -> Iterator[int]:
        yield self.join_due_ms
        yield self.sync_due_ms
        yield from self.pending.values()
        for member in self.members.values():
            yield member.session_due_ms

    @property
    def is_forgettable(self) -> bool:
        """A group that is not there would answer the same."""
        return not (self.members or self.pending or self.offsets or self.recorded)

    # Records

    def value(self, state_ms: int) -> GroupValue:
        """Its record as things stand."""
        members = [member_value(member, self.protocol) for member in self.members.values()]
        return GroupValue(
            self.protocol_type, self.generation, self.protocol, self.leader, state_ms, members
        )


def offset_bytes(place: tuple[str, int], value: CommittedOffset) -> int:
    """Approximate bytes that it takes in memory."""
    return OFFSET_BYTES + len(place[0]) + len(value.metadata)


def member_value(
    member: Member, protocol: str | None, assignment: bytes | None = None
) -> MemberValue:
    return MemberValue(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.session_timeout_ms,
        member.metadata(protocol),
        member.assignment if assignment is None else assignment,
    )


def member_of(value: MemberValue, protocol_type: str, protocol: str | None) -> Member:
    """A member as a restart finds it: of its protocols only the chosen one is known."""
    return Member(
        value.member_id,
        value.instance_id,
        value.client_id,
        value.client_host,
        value.rebalance_timeout_ms,
        value.session_timeout_ms,
        protocol_type,
        ((protocol or "", value.subscription),),
        value.assignment,
    )
