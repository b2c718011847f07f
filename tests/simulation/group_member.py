"""A member of a consumer group: joins, is assigned partitions, commits offsets, fetches them.

It obeys error codes as clients of the classic protocol do: it finds the coordinator again, joins
again, takes a new member id. A later fetch returns an acknowledged offset or a greater one, and one
generation has one leader.
"""

from typing import Any

from logstore.errors import Retryable
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.find_coordinator import FindCoordinatorRequest
from logstore.wire.messages.heartbeat import HeartbeatRequest
from logstore.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from logstore.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from logstore.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from logstore.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from logstore.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.simulation.kafka import MAIN, Client, Wire
from tests.simulation.world import World

OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 8, 9, 10
JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP = 11, 12, 13, 14
GROUP = "group"
SESSION_MS = 6_000
ANSWER_S = 15.0
TURNS_MAX = 12
STEP_MAX = 5

RETRIABLE = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}
JOIN_AGAIN = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION}


class Refused(Retryable):
    """The member has to begin again: at the coordinator, or as another member."""


class GroupMember(Client):
    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._member_id = ""
        self._generation = -1
        self._mine: list[int] = []

    async def run(self) -> None:
        while not self.world.is_healed:
            await self.pause(self.world.plan.pause_s_max)
            try:
                await self._belong()
            except Refused:
                await self.pause(1.0)

    async def _belong(self) -> None:
        """From joining to whatever ends it."""
        rng = self.world.rng
        wire = await self._coordinator()
        await self._join(wire)
        positions = await self.fetch_offsets(wire, self._mine)
        for _ in range(rng.randint(1, TURNS_MAX)):
            await self.pause(self.world.plan.pause_s_max)
            beat = HeartbeatRequest(GROUP, self._generation, self._member_id)
            self._check((await self._ask(wire, HEARTBEAT, 4, beat)).error_code, "heartbeat")
            if self._mine and not self.world.is_healed:
                number = rng.choice(self._mine)
                offset = max(positions.get(number, 0), 0) + rng.randint(1, STEP_MAX)
                await self._commit(wire, number, offset)
                positions[number] = offset
        if rng.random() < 0.3:
            leave = LeaveGroupRequest(GROUP, "", [MemberIdentity(self._member_id)])
            self._check((await self._ask(wire, LEAVE_GROUP, 5, leave)).error_code, "leave group")
            self._member_id = ""

    async def _coordinator(self) -> Wire:
        wire = await self.any_wire()
        if wire is None:
            raise Refused("no broker")
        answer = await self._ask(wire, FIND_COORDINATOR, 4, FindCoordinatorRequest("", 0, [GROUP]))
        one = answer.coordinators[0]
        self._check(one.error_code, "find coordinator")
        found = await self.wire_to((one.host, one.port))
        if found is None:
            raise Refused("no connection to the coordinator")
        return found

    async def _join(self, wire: Wire) -> None:
        protocols = [JoinGroupRequestProtocol("range", b"")]
        answer: Any = None
        for _ in range(2):
            request = JoinGroupRequest(
                GROUP, SESSION_MS, SESSION_MS, self._member_id, None, "consumer", protocols
            )
            answer = await self._ask(wire, JOIN_GROUP, 9, request)
            if answer.error_code != ErrorCode.MEMBER_ID_REQUIRED:
                break
            self._member_id = answer.member_id
        self._check(answer.error_code, "join group")
        self._member_id, self._generation = answer.member_id, answer.generation_id
        leader = self.world.group_leaders.setdefault(self._generation, answer.leader)
        if leader != answer.leader and self.world.leases_hold:
            self.world.violate(f"two leaders of generation {self._generation} of a group")
        assignments = []
        if answer.leader == self._member_id:
            assignments = self._assign(sorted(one.member_id for one in answer.members))
        sync = SyncGroupRequest(
            GROUP, self._generation, self._member_id, None, "consumer", "range", assignments
        )
        synced = await self._ask(wire, SYNC_GROUP, 5, sync)
        self._check(synced.error_code, "sync group")
        self._mine = [int(number) for number in bytes(synced.assignment).split(b",") if number]
        self.world.seen["generations joined"] += 1

    def _assign(self, members: list[str]) -> list[SyncGroupRequestAssignment]:
        count = next(n for name, n in self.world.live_topics.values() if name == MAIN)
        return [
            SyncGroupRequestAssignment(
                member, b",".join(b"%d" % n for n in range(place, count, len(members)))
            )
            for place, member in enumerate(members)
        ]

    async def _commit(self, wire: Wire, number: int, offset: int) -> None:
        partition = OffsetCommitRequestPartition(number, offset, -1, "")
        topics = [OffsetCommitRequestTopic(MAIN, partitions=[partition])]
        request = OffsetCommitRequest(GROUP, self._generation, self._member_id, topics=topics)
        answer = await self._ask(wire, OFFSET_COMMIT, 9, request)
        self._check(answer.topics[0].partitions[0].error_code, "offset commit")
        committed = self.world.group_offsets
        committed[number] = max(offset, committed.get(number, 0))
        self.world.seen["group offsets committed"] += 1

    async def fetch_offsets(self, wire: Wire, numbers: list[int]) -> dict[int, int]:
        """By partition; -1 where none is committed. Raises `Refused`."""
        before = dict(self.world.group_offsets)
        asked = OffsetFetchRequestGroup(
            GROUP, None, -1, [OffsetFetchRequestTopics(MAIN, partition_indexes=numbers)]
        )
        answer = await self._ask(wire, OFFSET_FETCH, 9, OffsetFetchRequest(groups=[asked]))
        group = answer.groups[0]
        self._check(group.error_code, "offset fetch")
        found = {}
        for topic in group.topics:
            for one in topic.partitions:
                self._check(one.error_code, "offset fetch")
                found[one.partition_index] = one.committed_offset
        for number in numbers:
            if found.get(number, -1) < before.get(number, -1) and self.world.leases_hold:
                text = f"{before[number]} acknowledged, {found.get(number)} found"
                self.world.violate(f"a group's offset went back partition={number} {text}")
        return found

    async def judge_offsets(self) -> bool:
        """Whether everything that was committed could be asked for, once all is healed."""
        try:
            await self.fetch_offsets(await self._coordinator(), list(self.world.group_offsets))
        except Refused:
            return False
        return True

    async def _ask(self, wire: Wire, key: int, version: int, request: object) -> Any:
        answer = await self.ask(wire, key, version, request, ANSWER_S)
        if answer is None:
            raise Refused("no answer")
        return answer

    def _check(self, code: int, what: str) -> None:
        """Raises `Refused` for what a member has to begin again after."""
        if not code:
            return
        name = ErrorCode(code).name
        self.world.seen[f"{what}: {name}"] += 1
        if code in JOIN_AGAIN:
            self._member_id = ""
        elif code not in RETRIABLE and not self.world.plan.flips_bits:
            self.world.violate(f"{what} was answered {name}")
        raise Refused(name)
