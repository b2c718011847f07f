"""Who gets the partitions of a broker that is about to stop: live replicas first, spread evenly."""

from collections import Counter
from collections.abc import Callable

from broker.cluster.log_port import ClusterLog, ClusterTopic
from broker.cluster.placement import Heirs
from logstore.rows import BrokerStatus


def choose_targets(log: ClusterLog) -> Callable[[ClusterTopic, int], int | None]:
    """For `Log.drain`: the next leader of each partition led here; None when nobody else is there.

    Each answer counts for the next one, so ask once per partition.
    """
    others = [
        broker
        for broker, row in log.brokers.items()
        if broker != log.me.broker
        and row.status is BrokerStatus.SERVING
        and log.liveness.is_alive(broker)
    ]
    led = Counter(row.broker for topic in log.topics.values() for row in topic.rows)
    heirs = Heirs(others, led)
    return lambda topic, partition: heirs.choose(topic.rows[partition])
