"""Plays a group's life step by step on the pure decisions, as a coordinator would."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from broker.groups.decisions.batches import decode_changes, encode_changes
from broker.groups.decisions.group import Group, GroupTime
from broker.groups.decisions.heartbeat import heartbeat
from broker.groups.decisions.join import JoinAsk, join
from broker.groups.decisions.leave import Who, leave
from broker.groups.decisions.limits import GroupLimits
from broker.groups.decisions.member_timeouts import expire
from broker.groups.decisions.newer_records import NewerRecord
from broker.groups.decisions.outcome import Answer, Change, Decision, Joined, Synced
from broker.groups.decisions.state import GroupStates
from broker.groups.decisions.sync import SyncAsk, sync
from logstore.wire.errors import ErrorCode

GROUP = "g"
SESSION_MS, REBALANCE_MS = 10_000, 60_000
RANGE = (("range", b"topics"),)
WALL_MS = 1_700_000_000_000


@dataclass(eq=False)
class Token:
    name: str = ""


@dataclass
class Play:
    """`log` holds every record; a restart applies them all again, as bytes."""

    limits: GroupLimits = field(default_factory=lambda: GroupLimits(initial_delay_ms=0))
    steady_ms: int = 1_000_000
    states: GroupStates = field(default_factory=GroupStates)
    log: list[Change] = field(default_factory=list)
    answers: dict[Token, Answer] = field(default_factory=dict)
    numbers: "count[int]" = field(default_factory=lambda: count(1))

    @property
    def now(self) -> GroupTime:
        return GroupTime(self.steady_ms, WALL_MS + self.steady_ms)

    @property
    def group(self) -> Group:
        return self.states.get_or_new(GROUP)

    def carry_out(self, outcome: Decision) -> None:
        self.append(outcome.records)
        for token, answer in outcome.answers:
            assert isinstance(token, Token)
            assert token not in self.answers, "answered twice"
            self.answers[token] = answer

    def append(self, changes: Sequence[Change]) -> None:
        for change in changes:
            self.log.append(change)
            self.states.apply(change)

    # Requests

    def ask_join(
        self,
        member_id: str = "",
        *,
        instance_id: str | None = None,
        protocols: Sequence[tuple[str, bytes]] = RANGE,
        protocol_type: str = "consumer",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        needs_id: bool = False,
        can_skip: bool = True,
    ) -> Token:
        token = Token(f"join {member_id or instance_id}")
        ask = JoinAsk(
            token=token,
            member_id=member_id,
            instance_id=instance_id,
            client_id="client",
            client_host="/host",
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            protocol_type=protocol_type,
            protocols=protocols,
            new_member_id=f"{instance_id or 'm'}-{next(self.numbers)}",
            needs_member_id=needs_id,
            can_skip_assignment=can_skip,
        )
        self.carry_out(join(self.group, ask, self.limits, self.now))
        return token

    def ask_sync(
        self,
        member_id: str,
        generation: int,
        parts: Mapping[str, bytes] | None = None,
        *,
        instance_id: str | None = None,
        protocol: str | None = None,
    ) -> Token:
        token = Token(f"sync {member_id}")
        ask = SyncAsk(
            token=token,
            member_id=member_id,
            generation=generation,
            instance_id=instance_id,
            protocol=protocol,
            assignments=parts or {},
        )
        self.carry_out(sync(self.group, ask, self.limits, self.now))
        return token

    def beat(self, member_id: str, generation: int, instance_id: str | None = None) -> ErrorCode:
        return heartbeat(self.group, member_id, instance_id, generation, self.now)

    def leave(self, *asked: Who) -> list[ErrorCode]:
        outcome, codes = leave(self.group, asked, self.limits, self.now)
        self.carry_out(outcome)
        return codes

    # Time

    def wait(self, ms: int) -> None:
        """Let time pass; the group wakes whenever it wanted to."""
        end_ms = self.steady_ms + ms
        while self.group.wake_ms <= end_ms:
            self.steady_ms = max(self.steady_ms, self.group.wake_ms)
            self.carry_out(expire(self.group, self.limits, self.now))
        self.steady_ms = end_ms

    def restart(self) -> None:
        """All but the records is forgotten; requests that wait are never answered."""
        self.states = GroupStates()
        for change in self.log:
            for read in decode_changes(encode_changes([change], now_ms=WALL_MS)):
                assert read is not None
                assert not isinstance(read, NewerRecord)
                self.states.apply(read)
        self.states.resume(self.now)

    # Answers

    def joined(self, token: Token) -> Joined:
        answer = self.answers[token]
        assert isinstance(answer, Joined)
        return answer

    def synced(self, token: Token) -> Synced:
        answer = self.answers[token]
        assert isinstance(answer, Synced)
        return answer

    def form(self, *names: str | None) -> list[Joined]:
        """A stable group of as many members; a name makes a static one. The first one leads."""
        tokens = [self.ask_join(instance_id=name) for name in names]
        while not all(token in self.answers for token in tokens):
            members = list(self.group.members.values())
            waiting = [m for m in members if m.joining is None]
            assert waiting, "no member is missing, and none is answered"
            for member in waiting:
                self.ask_join(member.member_id, instance_id=member.instance_id)
        generation = self.group.generation
        parts = {m: f"part of {m}".encode() for m in self.group.members}
        for member in list(self.group.members.values()):
            self.ask_sync(member.member_id, generation, parts, instance_id=member.instance_id)
        return [self.last_joined(member_id) for member_id in self.group.members]

    def last_joined(self, member_id: str) -> Joined:
        found = [
            a
            for a in self.answers.values()
            if isinstance(a, Joined) and a.member_id == member_id and not a.code
        ]
        return found[-1]
