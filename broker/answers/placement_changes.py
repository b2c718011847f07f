"""Changes rows of partitions as requests about replicas ask for, many at once, and tells everybody.

A change that has begun goes on when its request's time is over.
"""

from collections.abc import Sequence
from typing import NamedTuple

from broker.answers.broker import Broker
from broker.answers.creation import begin_and_wait
from logstore.epoch.log import Topic
from logstore.errors import LogstoreError
from logstore.formats.feed_row import FeedChange
from logstore.formats.partition_row import PartitionRow
from logstore.protocol.topics.life import UnknownTopic
from logstore.protocol.topics.replica_changes import Decide, change_placements


class PlacementChange(NamedTuple):
    topic: Topic
    partition: int
    decide: Decide


def find_partition(broker: Broker, name: str, partition: int) -> Topic:
    """The topic, if it has that partition. Raises `UnknownTopic`."""
    topic = broker.log.topics.get(name)
    if topic is None or not 0 <= partition < topic.partition_count:
        raise UnknownTopic(f"no such partition: topic={name} partition={partition}")
    return topic


async def change_all(
    broker: Broker, wanted: Sequence[PlacementChange], timeout_s: float
) -> Sequence[PartitionRow | LogstoreError]:
    """For each the row it was decided from, or why it was not."""
    outcomes = await begin_and_wait(broker, _change(broker, wanted), timeout_s)
    return [outcomes] * len(wanted) if isinstance(outcomes, LogstoreError) else outcomes


async def _change(
    broker: Broker, wanted: Sequence[PlacementChange]
) -> Sequence[PartitionRow | LogstoreError]:
    outcomes = await broker.log.runner.run(
        change_placements([(one.topic.topic_id, one.partition, one.decide) for one in wanted])
    )
    changes = [
        FeedChange(one.topic.name, one.topic.topic_id, one.partition)
        async for one, outcome in broker.turns.share(zip(wanted, outcomes, strict=True))
        if isinstance(outcome, PartitionRow)
    ]
    await broker.log.publish(changes)
    return outcomes
