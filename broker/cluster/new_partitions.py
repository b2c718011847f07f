"""Where new partitions are placed: on brokers that serve, by their racks and their load."""

from collections.abc import Sequence

from broker.cluster.decisions.placement import BrokerLoad, place
from logstore.epoch.log import Log
from logstore.errors import Retryable
from logstore.formats.broker_row import BrokerStatus

Assignments = Sequence[Sequence[int]]
"""Broker ids of each partition, its first leader first."""


def hosts(log: Log) -> dict[int, str]:
    """Brokers that new partitions may be placed on, with their racks."""
    return {
        broker: row.rack
        for broker, row in log.live_brokers().items()
        if row.status is BrokerStatus.SERVING
    }


def place_partitions(log: Log, count: int, replicas: int) -> Assignments:
    """Fewer replicas than asked for where there are fewer brokers. Raises `Retryable`."""
    racks = hosts(log)
    if not racks:
        raise Retryable("no broker takes partitions now: all are stopping; try again")
    load = BrokerLoad.of(row for topic in log.topics.values() for row in topic.rows)
    return place(count, replicas, racks, load)
