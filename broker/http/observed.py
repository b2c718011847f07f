"""The parts of a broker, in one of its epochs, that metrics and health are read from."""

import asyncio
from dataclasses import dataclass, field

from broker.cluster.controller import Controller
from broker.cluster.peers import TcpPeers
from broker.handlers.broker import Broker
from broker.http.health import Patience, ServingStatus, State
from broker.upkeep.trim_task import Trimming
from logstore.epoch.log import Topic
from logstore.formats.topic_partition import TopicPartition
from logstore.objects.metered import StoreCounts
from logstore.wiring.open import PortTimes


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    broker: Broker
    controller: Controller
    peers: TcpPeers
    trimming: Trimming
    counts: StoreCounts
    times: PortTimes
    stop: asyncio.Event
    """Set when the process is to end."""
    patience: Patience = field(default_factory=Patience)


def serving_status_of(watched: Observed | None) -> ServingStatus:
    """None: no epoch has begun, or accepted, yet."""
    if watched is None:
        return ServingStatus(state=State.STARTING)
    log = watched.broker.log
    epoch, named, led = log.epoch, 0, 0
    unled: set[TopicPartition] = set()
    for topic in log.topics.values():  # one loop: it is run for each probe, over every partition
        serving = {
            number
            for number, leader in topic.leaders.items()
            if leader.has_begun and not leader.is_released
        }
        led += len(serving)
        for number, row in enumerate(topic.rows):
            if row.chain == epoch:
                named += 1
                if number not in serving:
                    unled.add(TopicPartition(topic.topic_id, number))
    return ServingStatus(
        state=_state_of(watched),
        named=named,
        led=led,
        unled=watched.patience.overdue(unled, log.runner.clock.monotonic_s()),
        has_read_lease=log.has_read_lease,
        put_age_s=log.writer.oldest_put_age_s,
    )


def _state_of(watched: Observed) -> State:
    if watched.broker.log.fenced.is_set():
        return State.FENCED
    if watched.stop.is_set() or watched.broker.clients.is_stopping:
        return State.STOPPING
    return State.SERVING


def end_of(topic: Topic, number: int) -> int | None:
    """The high watermark of a partition, where this broker knows it."""
    leader = topic.leaders.get(number)
    if leader is not None:
        return leader.high_watermark
    follower = topic.followers.get(number)
    return follower.high_watermark if follower is not None and follower.is_ready else None
