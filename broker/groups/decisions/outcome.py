"""The result of a decision: records to append, and answers that wait for them. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from broker.groups.decisions.formats import CommittedOffset, GroupKey, GroupValue, OffsetKey
from logstore.wire.errors import ErrorCode

Change = tuple[OffsetKey, CommittedOffset | None] | tuple[GroupKey, GroupValue | None]
"""One record; None deletes the key."""

NO_GENERATION = -1


class JoinedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class Joined:
    """Answer to a JoinGroup; only the leader's has `members`."""

    code: ErrorCode
    member_id: str = ""
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    skips_assignment: bool = False
    members: Sequence[JoinedMember] = ()


@dataclass(frozen=True, slots=True)
class Synced:
    code: ErrorCode
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


Answer = Joined | Synced


@dataclass(slots=True)
class Decision:
    """`answers` are sent when `records`, and all before them, are committed."""

    records: list[Change] = field(default_factory=list)
    answers: list[tuple[object, Answer]] = field(default_factory=list)
    begins_rebalance: bool = False

    def answer(self, token: object | None, answer: Answer) -> None:
        if token is not None:
            self.answers.append((token, answer))
