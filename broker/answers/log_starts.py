"""Raise the log starts of partitions that are led here: in rows, here, then in the change feed."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from logstore.epoch.leader import Leader
from logstore.epoch.log import Log, Topic
from logstore.errors import LogstoreError
from logstore.formats.feed_row import FeedChange
from logstore.formats.partition_row import StartReason
from logstore.protocol.deletion.records_deletion import Raise, raise_log_starts


class NewStart(NamedTuple):
    """Where the log of a partition is to start."""

    topic: Topic
    leader: Leader
    offset: int


async def raise_led(
    log: Log, wanted: Sequence[NewStart], reason: StartReason = StartReason.RECORDS_DELETED
) -> Sequence[int | LogstoreError | None]:
    """For each, log start as it is afterwards, or what went wrong; None: another broker leads."""
    outcomes = await log.runner.run(raise_log_starts([_raise_of(one, reason) for one in wanted]))
    changes = []
    for (topic, leader, _), outcome in zip(wanted, outcomes, strict=True):
        if isinstance(outcome, int):
            # Its row, too: the next leader must start from this log start.
            log_start = max(outcome, leader.row.log_start)
            leader.follow_row(replace(leader.row, log_start=log_start))
            changes.append(FeedChange(topic.name, topic.topic_id, leader.partition))
    await log.publish(changes)
    return outcomes


def _raise_of(one: NewStart, reason: StartReason) -> Raise:
    leader = one.leader
    chain = leader.epoch_ranges[-1].chain
    leads = chain, leader.leader_epoch
    return Raise(leader.topic_id, leader.partition, *leads, one.offset, reason)
