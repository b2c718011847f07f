"""A consumer without a group's assignment, which commits and fetches offsets by name."""

from logstore.wire.errors import ErrorCode
from logstore.wire.messages.find_coordinator import FindCoordinatorRequest
from logstore.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from logstore.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.simulation.group_member import (
    ANSWER_S,
    FIND_COORDINATOR,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    RETRIABLE,
)
from tests.simulation.kafka import Wire
from tests.simulation.name_client import PAUSE_S_MAX, NamingClient
from tests.simulation.name_ledger import Ledger
from tests.simulation.world import World

COMMIT_VERSIONS = (2, 5, 7, 9)
OFFSET_FETCH_VERSIONS = (2, 5, 7, 9)
GROUPS_FROM = 8


class NameCommitter(NamingClient):
    """Commits offsets of its group by name, without members, and fetches them."""

    def __init__(self, world: World, ledger: Ledger, client: str) -> None:
        super().__init__(world, ledger, client)
        self._coordinator: tuple[str, int] | None = None
        self._last = 0
        self._in_doubt: set[int] = set()

    async def run(self) -> None:
        rng = self.world.rng
        while not self.world.is_healed:
            await self.pause(PAUSE_S_MAX)
            name, number = self.choose()[0], 0
            if not await (self._commit if rng.random() < 0.5 else self._fetch)(name, number):
                self._coordinator = None
                await self.pause(2 * PAUSE_S_MAX)
        self.is_done = True

    async def _wire(self) -> Wire | None:
        if self._coordinator is None:
            wire = await self.any_wire()
            request = FindCoordinatorRequest("", 0, [self.client])
            answer = (
                None
                if wire is None
                else await self.ask(wire, FIND_COORDINATOR, 4, request, ANSWER_S)
            )
            if answer is None or answer.coordinators[0].error_code:
                return None
            self._coordinator = answer.coordinators[0].host, answer.coordinators[0].port
        return await self.wire_to(self._coordinator)

    async def _commit(self, name: str, number: int) -> bool:
        """Whether it was answered."""
        wire = await self._wire()
        if wire is None:
            return False
        # Of no other client, so that an offset says in which life it was committed.
        self._last += 1
        offset = self._last * 10 + int(self.client[-1])
        partition = OffsetCommitRequestPartition(number, offset, -1, "")
        topics = [OffsetCommitRequestTopic(name, partitions=[partition])]
        request = OffsetCommitRequest(self.client, topics=topics)
        sent_in = self._ledger.settled(name)
        self._in_doubt.add(offset)
        version = self.world.rng.choice(COMMIT_VERSIONS)
        answer = await self.ask(wire, OFFSET_COMMIT, version, request, ANSWER_S)
        if answer is None:
            return False
        code = answer.topics[0].partitions[0].error_code
        if code:
            self._judge(code, "offset commit")
            if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                self.judge_shown(sent_in, name, wire, None, "OffsetCommit")
            return bool(code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self._in_doubt.discard(offset)
        is_claimed = self._ledger.commit(sent_in, self.client, name, number, offset)
        self.world.seen["committed by name"] += is_claimed
        self.world.trace(f"{self.client} committed {offset} in {sent_in} claimed={is_claimed}")
        return True

    async def _fetch(self, name: str, number: int) -> bool:
        """Whether it was answered."""
        wire = await self._wire()
        if wire is None:
            return False
        version = self.world.rng.choice(OFFSET_FETCH_VERSIONS)
        sent_in = self._ledger.settled(name)
        wanted = -1 if sent_in is None else sent_in.offsets.get((self.client, number), -1)
        request = _offset_fetch(self.client, name, number, version)
        answer = await self.ask(wire, OFFSET_FETCH, version, request, ANSWER_S)
        if answer is None:
            return False
        of_group = answer.groups[0] if version >= GROUPS_FROM else answer
        code = of_group.error_code or of_group.topics[0].partitions[0].error_code
        if code:
            self._judge(code, "offset fetch")
            return False
        found = of_group.topics[0].partitions[0].committed_offset
        self.world.seen["offsets fetched by name"] += sent_in is not None and found >= 0
        self.world.trace(f"{self.client} has {found} in {sent_in}")
        self._ledger.fetch_offset(sent_in, self.client, name, number, found, wanted, self._in_doubt)
        return True

    def _judge(self, code: int, what: str) -> None:
        text = f"{what}: {ErrorCode(code).name}"
        self.world.seen[text] += 1
        if code not in RETRIABLE:
            self.world.violate(text)


def _offset_fetch(group: str, name: str, number: int, version: int) -> OffsetFetchRequest:
    if version < GROUPS_FROM:
        return OffsetFetchRequest(group, [OffsetFetchRequestTopic(name, [number])])
    topics = [OffsetFetchRequestTopics(name, partition_indexes=[number])]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, None, -1, topics)])
