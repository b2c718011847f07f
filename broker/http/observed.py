"""The parts of a broker, in one of its epochs, that metrics and health are read from."""

import asyncio
from dataclasses import dataclass, field

from broker.answers.broker import Broker
from broker.cluster.controller import Controller
from broker.cluster.peers import TcpPeers
from broker.http.decisions.health import Patience, ServingStatus, State
from broker.upkeep.trim_task import Trimming
from logstore.epoch.log import Topic
from logstore.formats.topic_partition import TopicPartition
from logstore.objects.metered import StoreCounts
from logstore.slices import Slices
from logstore.wiring.open import PortTimes

AT_ONCE = 256
"""Partitions that are looked at without a pause: some 0.5 ms."""


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


def serving_status(watched: Observed | None) -> Slices[ServingStatus]:
    """A slice is `AT_ONCE` partitions; each is counted as it is in its slice.

    None: no epoch has begun, or accepted, yet.
    """
    if watched is None:
        return ServingStatus(state=State.STARTING)
    log = watched.broker.log
    epoch, named, led = log.epoch, 0, 0
    unled: set[TopicPartition] = set()
    rows = (
        (topic, number, row)
        for topic in tuple(log.topics.values())
        for number, row in enumerate(topic.rows)
    )
    for count, (topic, number, row) in enumerate(rows, 1):
        if not topic.is_deleted:  # since the first slice
            leader = topic.leaders.get(number)
            is_led = leader is not None and leader.has_begun and not leader.is_released
            is_named = row.chain == epoch
            led += is_led
            named += is_named
            if is_named and not is_led:
                unled.add(TopicPartition(topic.topic_id, number))
        if count % AT_ONCE == 0:
            yield
    overdue = yield from watched.patience.overdue(unled, log.runner.clock.monotonic_s())
    return ServingStatus(
        state=state_of(watched),
        named=named,
        led=led,
        unled=overdue,
        has_read_lease=log.has_read_lease,
        has_no_room=log.has_no_room,
        put_age_s=log.writer.oldest_put_age_s,
    )


def state_of(watched: Observed | None) -> State:
    if watched is None:
        return State.STARTING
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
