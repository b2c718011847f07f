"""The controller's changes of rows: only on the terms of the row that was seen."""

import random
from dataclasses import replace

from broker.cluster.decisions.row_steps import (
    read_broker,
    read_chains,
    read_inventory,
    reassign,
)
from broker.cluster.decisions.view import PlacedPartition
from logstore.formats.broker_row import BROKER
from logstore.formats.chain_row import CHAIN, ChainRow, ChainStatus, chain_sk
from logstore.formats.partition_row import PartitionRow, partition_pk, partition_sk
from logstore.formats.topic_row import TOPIC, TopicRow, TopicStatus
from logstore.objects.memory import MemoryObjects, MemoryStore
from logstore.registry.memory import MemoryRows
from logstore.registry.retrying import RetryingRegistry
from logstore.runners.step_runner import StepRunner
from logstore.testing.virtual_loop import VirtualClock
from tests.broker.cluster.cluster_model import TOPIC_ID, broker_row, led_by

SEEN = led_by(1, 11, (1, 2))
PLACE = PlacedPartition("orders", TOPIC_ID, 0, 2, SEEN)
WANTED = replace(SEEN, target=2, reassigning=(2, 1))


class Registry:
    def __init__(self) -> None:
        self.rows, clock, rng = MemoryRows(), VirtualClock(), random.Random(0)
        registry = RetryingRegistry(self.rows, lambda: str(rng.random()), clock, rng)
        store = MemoryStore(MemoryObjects(clock))
        self.runner = StepRunner(store, registry, clock, rng, lambda: b"")

    async def put(self, row: PartitionRow) -> None:
        await self.rows.put_if(*key(), row.row(), [], "w")

    async def row(self) -> PartitionRow | None:
        row = await self.rows.get(*key())
        return None if row is None else PartitionRow.of(row)


def key() -> tuple[str, str]:
    return partition_pk(TOPIC_ID, 0), partition_sk(TOPIC_ID, 0)


async def test_a_row_that_is_as_it_was_seen_changes() -> None:
    registry = Registry()
    await registry.put(SEEN)

    assert await registry.runner.run(reassign(PLACE, WANTED))
    assert await registry.row() == WANTED


async def test_a_controller_that_decides_from_an_old_row_changes_nothing() -> None:
    registry = Registry()
    for now in (
        SEEN.taken_by(broker=2, chain=12, start=5),
        replace(SEEN, target=2),
        replace(SEEN, replicas=(1, 3)),
        replace(SEEN, reassigning=(3,)),
    ):
        await registry.put(now)

        assert not await registry.runner.run(reassign(PLACE, WANTED))
        assert await registry.row() == now


async def test_a_row_that_is_gone_is_not_made_again() -> None:
    registry = Registry()

    assert not await registry.runner.run(reassign(PLACE, WANTED))
    assert await registry.row() is None


async def test_rows_are_read_as_they_are() -> None:
    registry = Registry()
    chain = ChainRow(broker=1, status=ChainStatus.OPEN)
    topics = {
        "new": TopicRow(TOPIC_ID, TopicStatus.LIVE, 1, {}),
        "old": TopicRow(b"o" * 16, TopicStatus.DELETED, 1, {}),
    }
    await registry.put(SEEN)
    await registry.rows.put_if(CHAIN, chain_sk(11), chain.row(), [], "w")
    await registry.rows.put_if(BROKER, "1", broker_row(11).row(), [], "w")
    for name, topic in topics.items():
        await registry.rows.put_if(TOPIC, name, topic.row(), [], "w")

    assert await registry.runner.run(read_chains()) == {11: chain}
    assert await registry.runner.run(read_broker(1)) == broker_row(11)
    assert await registry.runner.run(read_broker(2)) is None
    inventory = await registry.runner.run(read_inventory())
    assert inventory.topics == {"new": topics["new"]}
    assert inventory.rows == {(TOPIC_ID, 0): SEEN}
