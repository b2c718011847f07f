"""An administrator of one name: makes it, lets it live for some seconds, deletes it, all the time.

Any broker is asked for each change. Some changes get little time; a deletion is repeated until it
is answered, and a life that no creation was answered with is looked for and deleted.
"""

from typing import Any

from logstore.wire.errors import ErrorCode
from logstore.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from logstore.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from logstore.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from logstore.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.simulation.admins import ADMIN_CODES, CREATE_PARTITIONS, CREATE_TOPICS, DELETE_TOPICS
from tests.simulation.kafka import METADATA, METADATA_S, Client, judge_code
from tests.simulation.name_client import NAMES
from tests.simulation.name_ledger import Ledger, Life
from tests.simulation.name_traffic import NameReader
from tests.simulation.served import ServedBroker
from tests.simulation.world import World

TIMEOUTS_S = (0.5, 2.0, 10.0, 70.0)
"""The last is longer than a broker waits for others."""
WIRE_S = 1.0
"""For an answer on its way, beyond the time that was asked for."""
LIVES_S = (0.5, 2.0, 5.0)
"""At most, by what is drawn for each life."""
GROWS_SHARE = 0.3
ANSWERS_LOST = 0.5
READ_BEFORE_S = 5.0
READ_BEFORE_SHARE = 0.2
CODES_OF_CREATIONS = {*ADMIN_CODES, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
"""Also what a topic gets that is deleted as soon as it was made."""


class NameKeeper(Client):
    def __init__(self, world: World, ledger: Ledger, name: str) -> None:
        super().__init__(world)
        self.name = name
        self.is_done = False
        self._ledger = ledger

    async def run(self) -> None:
        while True:
            life = await self._make()
            if life is not None:
                is_settled = self._ledger.settled(self.name) is life
                if is_settled and await self._let_live(life):
                    break
                await self._delete(life)
            await self.pause(self.world.rng.choice((0.0, 0.0, 2.0)))
        self.is_done = True

    async def _let_live(self, life: Life) -> bool:
        """Whether all is healed: then it is the last life."""
        world = self.world
        if not world.is_healed:
            await self.pause(world.rng.choice(LIVES_S))
        if world.is_healed:
            return True
        if self._late_broker() is not None or world.rng.random() < GROWS_SHARE:
            await self._grow(life)
        elif world.rng.random() < READ_BEFORE_SHARE:
            await self._read_whole(life)
        return False

    async def _make(self) -> Life | None:
        """The life that there is then, settled or not; None: it is not known."""
        world, rng = self.world, self.world.rng
        partitions = rng.randint(1, 2)
        topic = CreatableTopic(self.name, partitions, rng.randint(1, world.plan.replicas))
        asked, timeout_s = self._ledger.now(), rng.choice(TIMEOUTS_S)
        request = CreateTopicsRequest([topic], int(timeout_s * 1000))
        answer = await self._ask(CREATE_TOPICS, 7, request, timeout_s)
        if answer is not None and not answer.topics[0].error_code:
            life = self._ledger.created(self.name, answer.topics[0].topic_id, partitions, asked)
            world.seen["names created"] += 1
            world.seen["names created again"] += life.number >= len(NAMES)
            world.trace(f"{life} is created topic={life.topic_id.hex()[:8]}")
            return life
        code = None if answer is None else ErrorCode(answer.topics[0].error_code)
        world.trace(f"{self.name} is in doubt: {'no answer' if code is None else code.name}")
        world.seen["names in doubt"] += 1
        if code in CODES_OF_CREATIONS:
            world.seen[f"create topics: {code.name}"] += 1
        elif code is not None:
            judge_code(world, code, "create topics")
        await self.pause(0.5)
        return await self._find()

    async def _find(self) -> Life | None:
        """A life that is there although no creation was answered with it."""
        request = MetadataRequest([MetadataRequestTopic(name=self.name)], False)
        answer = await self._ask(METADATA, 12, request, METADATA_S)
        if answer is None or answer.topics[0].error_code:
            return None
        topic = answer.topics[0]
        life = self._ledger.found(self.name, topic.topic_id, len(topic.partitions))
        self.world.seen["names found"] += 1
        self.world.trace(f"{life} is found topic={life.topic_id.hex()[:8]}")
        return life

    async def _grow(self, life: Life) -> None:
        """Ask for one more partition; the deletion may overtake it."""
        world, count = self.world, life.partitions + 1
        timeout_s = TIMEOUTS_S[0]
        request = CreatePartitionsRequest(
            [CreatePartitionsTopic(self.name, count)], int(timeout_s * 1000)
        )
        late = self._late_broker()
        answer = await self._ask(CREATE_PARTITIONS, 3, request, timeout_s, late)
        code = None if answer is None else answer.results[0].error_code
        world.trace(f"{life} growth answered: {code}")
        if code == ErrorCode.NONE:
            life.partitions = count
            world.seen["names grown"] += 1
        elif code is not None and code not in ADMIN_CODES:
            judge_code(world, code, "create partitions")

    def _late_broker(self) -> ServedBroker | None:
        """One that learns late what it wrote: the deletion and the next life may overtake it."""
        for broker, rows in self.world.registries.items():
            life = self.world.primaries[broker]
            if rows.faults.answer_lost >= ANSWERS_LOST and life is not None and life.is_serving:
                return life
        return None

    async def _delete(self, life: Life) -> None:
        """Ask until it is answered. By its id: a request that is late deletes no later life."""
        world = self.world
        self._ledger.end(life)
        late = self._late_broker()
        while True:
            timeout_s = world.rng.choice(TIMEOUTS_S) if late is None else TIMEOUTS_S[0]
            world.trace(f"{life} is to be deleted")
            request = DeleteTopicsRequest(
                [], [DeleteTopicState(None, life.topic_id)], int(timeout_s * 1000)
            )
            answer = await self._ask(DELETE_TOPICS, 6, request, timeout_s, late)
            late = None
            code = None if answer is None else answer.responses[0].error_code
            world.trace(f"{life} deletion answered: {code}")
            if code == ErrorCode.NONE:
                world.seen["names deleted"] += 1
                return
            if code is not None:
                judge_code(world, code, "delete topics")
            if code == ErrorCode.UNKNOWN_TOPIC_ID:
                return  # or its creation is not known there: then it is found again
            await self.pause(1.0)

    async def _read_whole(self, life: Life) -> None:
        """What is acknowledged is readable a moment before the deletion."""
        reader = NameReader(self.world, self._ledger, f"reader of {life}")
        number = self.world.rng.randrange(life.partitions)
        until_s = self.world.clock.monotonic_s() + READ_BEFORE_S
        await read_whole(self.world, self._ledger, reader, life, number, until_s)

    async def _ask(
        self,
        key: int,
        version: int,
        request: object,
        timeout_s: float,
        broker: ServedBroker | None = None,
    ) -> Any:
        """The answer of `broker`, or of any; None: there is none."""
        wire = await (self.any_wire() if broker is None else self.wire_to(broker.address))
        return (
            None
            if wire is None
            else await self.ask(wire, key, version, request, timeout_s + WIRE_S)
        )


async def read_whole(
    world: World, ledger: Ledger, reader: NameReader, life: Life, number: int, until_s: float
) -> bool:
    """Whether all of a partition could be read by name in time; judges it."""
    acked = ledger.acked_of(life, number)
    read = await reader.read_whole(life.name, number, until_s)
    if read is None:
        return False
    world.seen["names read whole"] += 1
    ledger.read_whole(life, number, acked, read)
    return True
