"""The story of a consumer group: it forms, grows by a member, and its coordinator moves."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from broker.groups.coordinator import Coordinator
from broker.groups.coordinators import Coordinators
from broker.groups.decisions.batches import decode_changes
from broker.groups.decisions.formats import CommittedOffset, GroupValue, OffsetKey
from broker.groups.decisions.group_partition import OFFSETS_TOPIC
from broker.groups.decisions.join import JoinAsk
from broker.groups.decisions.newer_records import NewerRecord
from broker.groups.decisions.offsets import OffsetCommit
from broker.groups.decisions.outcome import Answer, Change, Joined
from broker.groups.decisions.sync import SyncAsk
from broker.groups.log_port import LedPartition
from broker.network.timers import Timers
from logstore.config.broker import BrokerSettings
from logstore.epoch.log import Log
from logstore.formats.feed_row import FeedChange as ChangedRow
from logstore.protocol.topics.replica_changes import Placement, change_placement
from logstore.testing.virtual_loop import VirtualClock
from logstore.wire.errors import ErrorCode
from logstore.wire.primitives import ZERO_UUID
from tests.internals.recording import Transcript
from tests.logstore.waits import until
from tests.logstore.written import WrittenLog

GROUP = "billing"
SETTINGS = {"group.initial.rebalance.delay.ms": "0"}
SESSION_MS, REBALANCE_MS = 30_000, 60_000
READ_BYTES = 1 << 20


async def groups(transcript: Transcript, written: WrittenLog) -> None:
    transcript.say("brokers 1 and 2 start; __consumer_offsets with one partition, led by 1")
    async with (
        written.life(clean=False, broker=1, runner=transcript.runner) as one,
        written.life(clean=False, broker=2, runner=transcript.runner) as two,
        _groups(one) as first,
        _groups(two) as second,
    ):
        await until(lambda: all(len(log.live_brokers()) == 2 for log in (one, two)))
        await one.create_topic(OFFSETS_TOPIC, 1, {}, assignments=[(1, 2)], replicas=2)
        await until(
            lambda: OFFSETS_TOPIC in two.topics and two.topics[OFFSETS_TOPIC].followers[0].is_ready
        )
        story = _Story(transcript, one, await _loaded(first))
        await story.forms()
        await story.grows()
        await story.commits()
        transcript.say("the partition moves to broker 2, and with it the group")
        topic = two.topics[OFFSETS_TOPIC]
        await transcript.runner.run(
            change_placement(topic.topic_id, 0, lambda row: Placement((1, 2), (), target=2))
        )
        await one.publish([ChangedRow(OFFSETS_TOPIC, topic.topic_id)])
        await until(lambda: 0 in topic.leaders)
        await _loaded(second)
        story.continues(first, second)


@asynccontextmanager
async def _groups(log: Log) -> AsyncIterator[Coordinators]:
    """The groups' coordinators of one broker."""
    async with asyncio.TaskGroup() as tasks:
        timers = Timers(asyncio.get_running_loop())
        settings = BrokerSettings(SETTINGS)
        yield Coordinators(log, settings, timers=timers, clock=VirtualClock(), tasks=tasks)


async def _loaded(coordinators: Coordinators) -> Coordinator:
    await until(lambda: bool(coordinators.loaded()))
    return coordinators.loaded()[0]


class _Story:
    def __init__(self, transcript: Transcript, log: Log, coordinator: Coordinator) -> None:
        self._transcript = transcript
        self._log = log
        self._coordinator = coordinator
        self._shown_end = 0

    async def forms(self) -> None:
        self._transcript.say("a consumer joins; as the leader it assigns both partitions to itself")
        await self._answers(self._join("anna"))
        await self._answers(self._sync("anna", 1, {"anna": b"orders-0, orders-1"}))
        await self._show_records()

    async def grows(self) -> None:
        self._transcript.say(
            "another one joins: the first learns of it by a heartbeat, and joins again"
        )
        ben = self._join("ben")
        code = self._coordinator.heartbeat(GROUP, "anna", None, 1)
        self._transcript.lines.append(f"answer  anna  Heartbeat  {code.name}")
        await self._answers(self._join("anna"), ben)
        parts = {"anna": b"orders-0", "ben": b"orders-1"}
        await self._answers(self._sync("ben", 2, {}), self._sync("anna", 2, parts))
        await self._show_records()

    async def commits(self) -> None:
        self._transcript.say("the first member commits an offset")
        codes: list[ErrorCode] = []
        self._coordinator.commit(GROUP, [OffsetCommit(("orders", 0), ZERO_UUID, 42, -1, "")], -1)
        self._coordinator.when_safe(codes.append)
        await until(lambda: bool(codes))
        self._transcript.lines.append(f"answer  anna  OffsetCommit  {codes[0].name}")
        await self._show_records()

    def continues(self, old: Coordinators, new: Coordinators) -> None:
        code, coordinator = old.find(GROUP), new.find(GROUP)
        assert isinstance(code, ErrorCode) and isinstance(coordinator, Coordinator)
        self._transcript.lines.append(f"answer  anna  Heartbeat  {code.name}")
        self._transcript.say("the members find the new coordinator, and go on in their generation")
        for member in ("anna", "ben"):
            code = coordinator.heartbeat(GROUP, member, None, 2)
            self._transcript.lines.append(f"answer  {member}  Heartbeat  {code.name}")
        group = coordinator.states.get(GROUP)
        assert group is not None
        offset = group.offsets["orders", 0].offset
        self._transcript.lines.append(f"answer  anna  OffsetFetch  orders-0 = {offset}")
        assert self._coordinator.is_retired, old

    def _join(self, name: str) -> "_Member":
        member = _Member(name, self._transcript)
        ask = JoinAsk(
            token=member,
            member_id=name if self._knows(name) else "",
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            protocol_type="consumer",
            protocols=(("range", b"orders"),),
            new_member_id=name,
            needs_member_id=False,
        )
        self._coordinator.join(GROUP, ask)
        return member

    def _knows(self, name: str) -> bool:
        group = self._coordinator.states.get(GROUP)
        return group is not None and name in group.members

    def _sync(self, name: str, generation: int, parts: Mapping[str, bytes]) -> "_Member":
        member = _Member(name, self._transcript)
        ask = SyncAsk(token=member, member_id=name, generation=generation, assignments=parts)
        self._coordinator.sync(GROUP, ask)
        return member

    async def _answers(self, *members: "_Member") -> None:
        await until(lambda: all(member.answer is not None for member in members))

    async def _show_records(self) -> None:
        """Writes the records since the last time into the transcript."""
        leader = self._log.topics[OFFSETS_TOPIC].leaders[0]
        found = await LedPartition(self._log, leader).read(self._shown_end, READ_BYTES)
        for batch in found.batches:
            self._transcript.lines += [f"record  {_shown(one)}" for one in decode_changes(batch)]
        self._shown_end = found.end_offset


class _Member:
    """Waits for one answer, and writes it into the transcript."""

    def __init__(self, name: str, transcript: Transcript) -> None:
        self.answer: Answer | None = None
        self._name = name
        self._transcript = transcript

    def send(self, answer: Answer) -> None:
        self.answer = answer
        if isinstance(answer, Joined):
            text = f"JoinGroup  generation={answer.generation}  leader={answer.leader}"
            if answer.members:
                text += f"  members={','.join(one.member_id for one in answer.members)}"
        else:
            text = f"SyncGroup  assignment={answer.assignment.decode()}"
        self._transcript.lines.append(f"answer  {self._name}  {text}")


def _shown(record: Change | NewerRecord | None) -> str:
    assert record is not None
    assert not isinstance(record, NewerRecord)
    key, value = record
    if isinstance(key, OffsetKey):
        assert isinstance(value, CommittedOffset)
        return f"group {key.group}  offset of {key.topic}-{key.partition} = {value.offset}"
    assert isinstance(value, GroupValue)
    parts = (f"{one.member_id}: {one.assignment.decode() or '-'}" for one in value.members)
    return f"group {key.group}  generation={value.generation}  {';  '.join(parts)}"
