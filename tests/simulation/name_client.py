"""A client that knows topics by name alone, and believes the metadata of one broker for a while.

A request goes to the leader that the cached metadata names, also when the name has another life by
then: as librdkafka and older Java clients do.
"""

from logstore.formats.chain_row import CHAIN, ChainRow, ChainStatus, chain_sk
from logstore.testing.simulated_rows import at_once
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.simulation.kafka import METADATA, METADATA_S, Client, Place, Wire
from tests.simulation.name_ledger import Ledger, Life
from tests.simulation.served import ServedBroker
from tests.simulation.world import World

NAMES = ("orders", "clicks", "audit")
METADATA_VERSIONS = (4, 7, 9, 12)
IDS_FROM = 10
"""Ids are judged, and not used."""
STAYS_S_MAX = 15.0
"""For so long at most a client asks the same broker for metadata."""
PAUSE_S_MAX = 0.2


class NamingClient(Client):
    def __init__(self, world: World, ledger: Ledger, client: str) -> None:
        super().__init__(world)
        self.client = client
        self.is_done = False
        self._ledger = ledger
        self._source: ServedBroker | None = None
        """The broker whose metadata is believed."""
        self._stays_until_s = 0.0
        self._led: dict[str, dict[int, Place]] = {}

    async def any_wire(self) -> Wire | None:
        now_s = self.world.clock.monotonic_s()
        if self._source is None or not self._source.is_serving or now_s > self._stays_until_s:
            self._source = self.world.pick()
            self._stays_until_s = now_s + self.world.rng.uniform(0, STAYS_S_MAX)
        wire = None if self._source is None else await self.wire_to(self._source.address)
        if wire is None:
            self._source = None
        return wire

    async def refresh(self) -> bool:
        wire = await self.any_wire()
        if wire is None:
            return False
        request = MetadataRequest([MetadataRequestTopic(name=name) for name in NAMES], False)
        version = self.world.rng.choice(METADATA_VERSIONS)
        settled = {name: self._ledger.settled(name) for name in NAMES}
        answer = await self.ask(wire, METADATA, version, request, METADATA_S)
        if answer is None:
            self._source = None
            return False
        self._addresses = {one.node_id: (one.host, one.port) for one in answer.brokers}
        for topic in answer.topics:
            is_unknown = topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if is_unknown or (not topic.error_code and version >= IDS_FROM):
                shown = None if is_unknown else topic.topic_id
                self.judge_shown(settled[topic.name], topic.name, wire, shown, "Metadata")
        self._led = {
            topic.name: {
                one.partition_index: Place(one.leader_id, one.leader_epoch)
                for one in topic.partitions
            }
            for topic in answer.topics
            if not topic.error_code
        }
        return True

    async def leader(self, name: str, number: int) -> tuple[Wire, Place] | None:
        """A connection to the leader that the cached metadata names; None for now."""
        if number not in self._led.get(name, {}):
            await self.refresh()
        place = self._led.get(name, {}).get(number)
        wire = None if place is None else await self.wire_to_broker(place.leader)
        if place is None or wire is None:
            self._led.pop(name, None)
            return None
        return wire, place

    def forget_name(self, name: str) -> None:
        """Look at the metadata again before the next request."""
        self._led.pop(name, None)

    def judge_shown(
        self, sent_in: Life | None, name: str, wire: Wire, topic_id: bytes | None, api: str
    ) -> None:
        """A broker has shown a life, None: none. Is it one that changes wait for?"""
        row = at_once(self.world.rows.get(CHAIN, chain_sk(wire.broker_epoch)))
        if row is not None and ChainRow.of(row).status is ChainStatus.OPEN:
            self._ledger.show(sent_in, name, topic_id, f"{api} of epoch {wire.broker_epoch}")

    def choose(self) -> tuple[str, int]:
        """A name and one of its partitions: mostly of the name that was made last."""
        rng = self.world.rng
        newest = self._ledger.newest
        name = newest if newest is not None and rng.random() < 0.6 else rng.choice(NAMES)
        return name, self.world.rng.randrange(max(1, len(self._led.get(name, ()))))
