"""All brokers are down for a night: who was away for a day is forgotten, others are not.

Producers expire by a day of chain time, which the other simulations, a minute long, never reach. A
sequence that leaves a gap tells the two apart: of a producer that is known it is refused, of one
that has expired it is taken for a beginning (KIP-360).
"""

import random
from dataclasses import replace

import pytest

from logstore.records.encode import encode_batch, records_of
from logstore.testing.history import Partition
from logstore.testing.process_loop import simulate
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.simulation.admins import Admin
from tests.simulation.clients import BY_ID_VERSION, PRODUCE, TIMEOUT_MS, crowd_in
from tests.simulation.harms import start_all
from tests.simulation.kafka import Client
from tests.simulation.plan import draw_plan
from tests.simulation.story import create_main, heal, read_everything
from tests.simulation.world import World

DAY_S = 86_400.0
"""After so long Kafka forgets an idle producer, by its default."""
OFF_S = 7_200.0
"""More than the chain's time may differ from the store's."""
CROWD = 30
PRODUCER_ID = 1 << 50
GAP = 5
ANSWER_S = 20.0


@pytest.mark.seeds(4, fast=0)
@pytest.mark.parametrize("is_long", [False, True])
def test_a_producer_is_forgotten_after_a_day_and_not_before(seed: int, is_long: bool) -> None:
    world = World(seed, replace(draw_plan(random.Random(seed)), flips_bits=False, odd_clients=0.0))
    away_s = DAY_S + OFF_S if is_long else DAY_S - OFF_S
    code = simulate(_play(world, away_s), limit_s=3 * DAY_S)
    holes = [one for one in world.violations if one.startswith("H17")]
    assert world.violations == holes
    assert len(holes) == is_long, "the gap that was sent is the one hole, where it was stored"
    assert code == (ErrorCode.NONE if is_long else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)


async def _play(world: World, away_s: float) -> int:
    """What a batch is answered that its producer sends after so long, and after a gap."""
    try:
        await world.create()
        await start_all(world)
        await create_main(world, Admin(world))
        partition = Partition(next(iter(world.live_topics)), 0)
        client = Client(world)
        assert await _send(client, partition, 0) == ErrorCode.NONE
        await crowd_in(client, partition, CROWD)
        for life in world.lives:
            life.process.kill()
        await world.clock.sleep_s(away_s)
        world.history.begin_anywhere(PRODUCER_ID)
        await start_all(world)
        code = await _send(client, partition, GAP)
        await heal(world, [])
        await read_everything(world)
        world.check(all_was_read=True)
        return code
    finally:
        world.end()


async def _send(client: Client, partition: Partition, sequence: int) -> int:
    """One record, sent until it is stored or refused for its sequence."""
    world = client.world
    value, now_ms = b"night-%d" % sequence, world.clock.now_ms()
    records = records_of([(None, value)], timestamp=now_ms)
    batch = encode_batch(records, producer_id=PRODUCER_ID, producer_epoch=0, base_sequence=sequence)
    sent = world.history.send(partition, (value,), idempotent=True)
    world.timestamps[value] = now_ms
    is_stale = False
    while True:
        found = await client.leader_of(partition, is_stale=is_stale)
        is_stale = True
        if found is not None:
            data = [PartitionProduceData(partition.number, batch)]
            topics = [TopicProduceData("", partition.topic_id, data)]
            request = ProduceRequest(None, -1, TIMEOUT_MS, topics)
            answer = await client.ask(found[0], PRODUCE, BY_ID_VERSION, request, ANSWER_S)
            if answer is not None:
                one = answer.responses[0].partition_responses[0]
                if one.error_code == ErrorCode.NONE:
                    world.history.ack(sent, one.base_offset)
                    return ErrorCode.NONE
                if one.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                    return int(one.error_code)
        await client.pause(0.5)
