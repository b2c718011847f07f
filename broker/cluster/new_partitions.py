"""Where new partitions are placed: on brokers that serve, by their racks and their load."""

from collections.abc import Iterable, Sequence

from broker.cluster.decisions.placement import BrokerLoad, place
from logstore.epoch.log import Log, Topic
from logstore.errors import Retryable
from logstore.formats.broker_row import BrokerStatus
from logstore.formats.partition_row import PartitionRow

Assignments = Sequence[Sequence[int]]
"""Broker ids of each partition, its first leader first."""


def hosts(log: Log) -> dict[int, str]:
    """Brokers that new partitions may be placed on, with their racks."""
    return {
        broker: row.rack
        for broker, row in log.live_brokers().items()
        if row.status is BrokerStatus.SERVING
    }


class RunningLoad:
    """The brokers' load, counted again for topics that changed alone.

    A request may place partitions of thousands of topics, beside thousands that exist.
    """

    def __init__(self, topics: Iterable[Topic]) -> None:
        self.counted_rows = 0
        """Rows of partitions that were looked at so far."""
        self._load = BrokerLoad()
        self._counted: dict[bytes, Sequence[PartitionRow]] = {}
        self._changed = {topic.topic_id: topic for topic in topics}

    def changed(self, topic: Topic) -> None:
        self._changed[topic.topic_id] = topic

    def now(self) -> BrokerLoad:
        """Good until the next change."""
        changed, self._changed = self._changed, {}
        for topic_id, topic in changed.items():
            before = self._counted.pop(topic_id, ())
            rows = () if topic.is_deleted else tuple(topic.rows)
            self._load.add(rows)
            self._load.subtract(before)
            self.counted_rows += len(rows) + len(before)
            if rows:
                self._counted[topic_id] = rows
        return self._load


def place_partitions(log: Log, count: int, replicas: int, load: RunningLoad) -> Assignments:
    """Fewer replicas than asked for where there are fewer brokers. Raises `Retryable`."""
    racks = hosts(log)
    if not racks:
        raise Retryable("no broker takes partitions now: all are stopping; try again")
    return place(count, replicas, racks, load.now())
