"""Coordinates the groups of one partition of `__consumer_offsets` while this broker leads it.

    load      read the partition from log start to its end; until then no request is answered
    request   a pure module decides → records are applied and appended → committed → answers leave
    time      one alarm per group, at the first thing that may be due
    rewrite   live keys are appended again and log start is raised: loading stays short

Everything between two awaits is one step, so decisions never interleave. An answer about recorded
state waits until every append before it is committed; refusals do not.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from enum import StrEnum
from typing import Protocol

from broker.groups.decisions import (
    deleted_topics,
    deletion,
    member_timeouts,
    offset_expiry,
    offsets,
)
from broker.groups.decisions.deleted_topics import Deletions, IdOf
from broker.groups.decisions.group import MEMBER_BYTES, NO_DEADLINE, Group, GroupTime
from broker.groups.decisions.heartbeat import heartbeat
from broker.groups.decisions.join import JoinAsk, join
from broker.groups.decisions.key_compaction import LogShape
from broker.groups.decisions.leave import Who, leave
from broker.groups.decisions.limits import GroupLimits
from broker.groups.decisions.membership import lost
from broker.groups.decisions.offsets import Committer, OffsetCommit, Place
from broker.groups.decisions.outcome import Answer, Change, Decision, Joined, Synced
from broker.groups.decisions.state import GroupStates
from broker.groups.decisions.sync import SyncAsk, sync
from broker.groups.journal import Journal
from broker.groups.loading import load_states
from broker.groups.log_port import PartitionLog
from broker.groups.promises import Done, Promises
from broker.network.timers import Timers
from logstore.errors import LogstoreError
from logstore.ports.clock import Clock
from logstore.slices import Slices, parts_of
from logstore.wire.errors import ErrorCode

GROUPS_MAX = 200_000
"""Groups of one partition; more may commit offsets, none may get its first member."""

LATE_MS = 1_000
"""An alarm that rings so much too late was not heard because the whole process stood still."""

LOAD_AGAIN_S = 1.0
GROUPS_AT_ONCE = 200
OFFSETS_AT_ONCE = 500
"""Offsets that are looked at, and deleted, in one step: some 2 ms."""

logger = logging.getLogger(__name__)


class RebalanceReason(StrEnum):
    JOINED = "joined"
    """A member came, or came back under a new id."""
    LEFT = "left"
    SILENT = "silent"
    """A member did not answer in time: its session ended, or it did not sync."""
    CHANGED = "changed"
    """A member's subscription changed, or the leader asked for another assignment."""


class Token(Protocol):
    """A request that waits for the group."""

    def send(self, answer: Answer) -> None: ...


class Coordinator:
    def __init__(
        self,
        log: PartitionLog,
        limits: GroupLimits,
        *,
        timers: Timers,
        clock: Clock,
        start: Callable[..., object],
        commit_timeout_s: float,
        used_bytes: Callable[[], int] | None = None,
        rebalances: "Counter[RebalanceReason] | None" = None,
    ) -> None:
        """`start` runs a coroutine in the background.

        `used_bytes` says what all groups of this broker take in memory; None: there are no others.
        `rebalances` counts those that begin.
        """
        self.log = log
        self.states = GroupStates()
        self.is_loaded = False
        self.is_retired = False
        self.limits = limits
        self._used_bytes = used_bytes or (lambda: self.states.byte_count)
        self._rebalances = Counter[RebalanceReason]() if rebalances is None else rebalances
        self._timers = timers
        self._clock = clock
        self._start = start
        self._journal = Journal(log, self.states, LogShape(), clock=clock, start=start)
        self._promises = Promises(log, timers, commit_timeout_s)
        self._alarms: dict[str, _Alarm] = {}
        self._unwatch = log.watch(self._on_registry_change)

    # Coming and going

    async def load(self) -> None:
        """Until all of the partition is known, or it is another's."""
        while not (self.is_loaded or self.is_retired) and self.log.is_led:
            try:
                await self._load()
            except (LogstoreError, TimeoutError) as error:
                why = str(error) or "no answer in time"
                logger.warning(
                    "groups cannot be loaded yet: partition=%d %s", self.log.partition, why
                )
                await self._clock.sleep_s(LOAD_AGAIN_S)

    async def _load(self) -> None:
        states, shape = await load_states(self.log, self._clock)
        if self.is_retired or not self.log.is_led:
            return
        self.states = states
        self._journal = Journal(self.log, states, shape, clock=self._clock, start=self._start)
        states.resume(self._now())
        for group in states.groups.values():
            if not states.newer.holds(group.group_id):
                self._arm(group)
        self.is_loaded = True

    def understands(self, group_id: str) -> bool:
        """False: a newer version wrote records of the group; only that one may go on with it."""
        return not self.states.newer.holds(group_id)

    def retire(self) -> None:
        """Another broker leads the partition: waiting requests are sent to look for it."""
        if self.is_retired:
            return
        self.is_retired = True
        self._unwatch()
        for alarm in self._alarms.values():
            self._timers.unset(alarm)
        self._alarms.clear()
        self._promises.close()
        for group in self.states.groups.values():
            for member in group.members.values():
                _send(member.joining, Joined(ErrorCode.NOT_COORDINATOR, member.member_id))
                _send(member.syncing, Synced(ErrorCode.NOT_COORDINATOR))

    def _on_registry_change(self) -> None:
        if not self.log.is_led:
            self.retire()

    # Requests about members

    def join(self, group_id: str, ask: JoinAsk) -> None:
        group = self.states.get(group_id)
        if group is None and ask.member_id:
            _send(ask.token, Joined(ErrorCode.UNKNOWN_MEMBER_ID, ask.member_id))
            return
        if group is None and len(self.states.groups) >= GROUPS_MAX:
            _send(ask.token, Joined(ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return
        if not self._has_room_for(group, ask):
            _send(ask.token, Joined(ErrorCode.GROUP_MAX_SIZE_REACHED, ask.member_id))
            return
        group = self.states.get_or_new(group_id)
        is_back = ask.member_id in group.members
        reason = RebalanceReason.CHANGED if is_back else RebalanceReason.JOINED
        self._carry_out(group, join(group, ask, self.limits, self._now()), reason)
        self.states.forget(group)

    def sync(self, group_id: str, ask: SyncAsk) -> None:
        group = self.states.get(group_id)
        if group is None:
            _send(ask.token, Synced(ErrorCode.UNKNOWN_MEMBER_ID))
            return
        assigned_bytes = sum(map(len, ask.assignments.values()))  # in members and in the record
        if not self._has_room(2 * assigned_bytes - group.held_bytes, is_known=True):
            _send(ask.token, Synced(ErrorCode.GROUP_MAX_SIZE_REACHED))
            return
        self._carry_out(group, sync(group, ask, self.limits, self._now()), RebalanceReason.CHANGED)

    def heartbeat(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int
    ) -> ErrorCode:
        group = self.states.get(group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return heartbeat(group, member_id, instance_id, generation, self._now())

    def leave(self, group_id: str, asked: Sequence[Who]) -> list[ErrorCode]:
        group = self.states.get(group_id)
        if group is None:
            return [ErrorCode.UNKNOWN_MEMBER_ID for _ in asked]
        outcome, codes = leave(group, asked, self.limits, self._now())
        self._carry_out(group, outcome, RebalanceReason.LEFT)
        return codes

    def lost(self, group_id: str, token: Token) -> None:
        """The answer to `token` will not be read: its connection is closed."""
        group = self.states.get(group_id)
        if group is not None:
            lost(group, token, self._now())
            self._arm(group)

    # Requests about offsets and groups

    def check_commit(self, group_id: str, who: Committer) -> ErrorCode:
        return offsets.check_commit(self.states.get(group_id), who, self._now())

    def check_room(self, group_id: str, wanted: Sequence[OffsetCommit]) -> ErrorCode:
        """Whether the broker has memory for these offsets. What does not grow is always taken."""
        group = self.states.get(group_id)
        known = {} if group is None else group.offsets
        growth = offsets.growth_bytes(known, wanted)
        is_known = all(one.place in known for one in wanted)
        if self._has_room(growth, is_known=is_known):
            return ErrorCode.NONE
        return ErrorCode.GROUP_MAX_SIZE_REACHED

    def set_back(self, group_id: str, wanted: Sequence[OffsetCommit]) -> list[OffsetCommit]:
        """Those of `wanted` that are below the offsets that are committed now."""
        group = self.states.get(group_id)
        if group is None:
            return []
        lower = []
        for one in wanted:
            known = offsets.find(group, one.place, one.topic_id)
            if known is not None and one.offset < known.offset:
                lower.append(one)
        return lower

    def commit(self, group_id: str, wanted: Sequence[OffsetCommit], keep_ms: int) -> None:
        """Of a committer that was checked. `when_safe` tells when it is done."""
        self._append(offsets.commit(group_id, wanted, keep_ms, self._now()))

    def delete_offsets(
        self, group_id: str, places: Sequence[Place]
    ) -> tuple[ErrorCode, list[tuple[Place, ErrorCode]]]:
        code, codes, changes = offsets.delete(self.states.get(group_id), places)
        self._append(changes)
        return code, codes

    def delete_group(self, group_id: str) -> Slices[ErrorCode]:
        """A group that gets a member between two slices stays, without the offsets that went."""
        group = self.states.get(group_id)
        while True:
            code, changes = deletion.delete_group(group)
            if group is None or code:
                return code
            is_last = len(changes) >= len(group.offsets)
            self._append(changes)
            if self.is_retired:
                return ErrorCode.NOT_COORDINATOR
            if is_last:
                break
            yield
            group = self.states.get(group_id)
        group.pending.clear()
        self.states.forget(group)
        return code

    def when_safe(self, done: Done) -> None:
        """Call `done` when all that was appended so far is committed, or cannot be."""
        if self.is_retired:
            done(ErrorCode.NOT_COORDINATOR)
        else:
            self._promises.when_committed(self._journal.last_seq, done)

    def safe(self) -> "asyncio.Future[ErrorCode]":
        """NONE once all that was appended so far is committed, or the error to answer."""
        safe: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()

        def done(code: ErrorCode) -> None:
            if not safe.done():  # its client may be gone
                safe.set_result(code)

        self.when_safe(done)
        return safe

    # Time

    async def sweep(self, now_ms: int) -> None:
        """Drop offsets that are too old at `now_ms`, and groups of which nothing is left.

        What stays is appended again if the chain cannot be trimmed for it.
        """
        for number, group in enumerate(list(self.states.groups.values())):
            if self.is_retired:
                return
            if not self.understands(group.group_id):
                continue
            self._append(offset_expiry.expired(group, self.limits.retention_ms, now_ms))
            if number % GROUPS_AT_ONCE == GROUPS_AT_ONCE - 1:
                await self._clock.sleep_s(0)
        if not self.is_retired:
            self._journal.let_chain_be_trimmed()

    async def suspects(self, id_of: IdOf) -> set[bytes]:
        """Returns the ids of topics with offsets here that do not bear their name now."""
        suspected: set[bytes] = set()
        async for group, places in self._offsets():
            suspected |= deleted_topics.suspects(group, places, id_of)
        return suspected

    async def drop_offsets(self, deletions: Deletions) -> None:
        """Delete the offsets of topics that were deleted."""
        async for group, places in self._offsets():
            self._append(deleted_topics.voided(group, places, deletions))

    async def _offsets(self) -> AsyncIterator[tuple[Group, Sequence[Place]]]:
        """Yields all groups that are understood, and places of their offsets, some at a time."""
        count = 0
        for group in list(self.states.groups.values()):
            for places in parts_of(list(group.offsets), OFFSETS_AT_ONCE):
                if self.is_retired:
                    return
                if not self.understands(group.group_id):
                    break
                yield group, places
                count += 1 + len(places)
                if count > OFFSETS_AT_ONCE:
                    count = 0
                    await self._clock.sleep_s(0)

    def wake(self, group_id: str) -> None:
        group = self.states.get(group_id)
        if group is None or self.is_retired:
            return
        outcome = member_timeouts.expire(group, self.limits, self._now())
        self._carry_out(group, outcome, RebalanceReason.SILENT)
        self.states.forget(group)

    def _arm(self, group: Group) -> None:
        """Be woken when something may be due."""
        if group.wake_ms == NO_DEADLINE:
            return
        alarm = self._alarms.get(group.group_id)
        if alarm is None:
            alarm = self._alarms[group.group_id] = _Alarm(self, group.group_id)
        elif alarm.due_ms <= group.wake_ms:
            return
        self._timers.unset(alarm)
        alarm.due_ms = group.wake_ms
        self._timers.set(alarm, max(group.wake_ms - self._now().steady_ms, 0) / 1000)

    def alarm_rang(self, alarm: "_Alarm") -> None:
        self._alarms.pop(alarm.group_id, None)
        group = self.states.get(alarm.group_id)
        late_ms = self._now().steady_ms - alarm.due_ms
        if group is not None and late_ms > LATE_MS:
            member_timeouts.forgive(group, late_ms)
        self.wake(alarm.group_id)

    def _has_room_for(self, group: Group | None, ask: JoinAsk) -> bool:
        member = None if group is None else group.members.get(ask.member_id)
        if member is None and group is not None and ask.instance_id is not None:
            member = group.by_instance(ask.instance_id)
        asked_bytes = MEMBER_BYTES + sum(len(name) + len(data) for name, data in ask.protocols)
        known_bytes = 0 if member is None else member.byte_count
        return self._has_room(asked_bytes - known_bytes, is_known=member is not None)

    def _has_room(self, growth_bytes: int, *, is_known: bool) -> bool:
        return self.limits.has_room(self._used_bytes(), growth_bytes, is_known=is_known)

    def _now(self) -> GroupTime:
        return GroupTime(int(self._clock.monotonic_s() * 1000), self._clock.now_ms())

    # Carrying out

    def _carry_out(self, group: Group, outcome: Decision, reason: RebalanceReason) -> None:
        """`reason` is that of a rebalance, if `outcome` begins one."""
        if outcome.begins_rebalance:
            self._rebalances[reason] += 1
        self._append(outcome.records)
        self.states.weigh(group)
        self._arm(group)
        for token, answer in outcome.answers:
            if answer.code:
                _send(token, answer)
            else:
                self._promise(token, answer)

    def _promise(self, token: object, answer: Answer) -> None:
        def done(code: ErrorCode) -> None:
            _send(token, _refused(answer, code) if code else answer)

        self.when_safe(done)

    def _append(self, changes: Sequence[Change]) -> None:
        """From here on it is so, unless this broker is fenced."""
        if not changes:
            return
        try:
            self._journal.append(changes)
        except LogstoreError as error:
            logger.warning(
                "records of groups cannot be appended: partition=%d %s", self.log.partition, error
            )
            self.retire()


class _Alarm:
    """Wakes one group."""

    __slots__ = ("_coordinator", "due_ms", "group_id", "timer_bucket")

    def __init__(self, coordinator: Coordinator, group_id: str) -> None:
        self._coordinator = coordinator
        self.group_id = group_id
        self.due_ms = NO_DEADLINE
        self.timer_bucket = 0

    def time_out(self) -> None:
        self._coordinator.alarm_rang(self)


def _send(token: object | None, answer: Answer) -> None:
    if token is not None:
        sender: Token = token  # type: ignore[assignment]
        sender.send(answer)


def _refused(answer: Answer, code: ErrorCode) -> Answer:
    return Joined(code, answer.member_id) if isinstance(answer, Joined) else Synced(code)
