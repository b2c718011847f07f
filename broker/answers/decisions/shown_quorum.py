"""The controller's lease and the change feed as Kafka's metadata quorum. Pure.

Kafka's metadata is a log that its controllers replicate: the leader writes it, voters may become
the leader, observers read it. Here the registry's change feed takes the place of that log and the
controller's lease that of its leader: the holder is shown as the only voter, since a voter is what
tools take a lag of for a fault, and the other live brokers as observers. How far each of them has
read the feed is known to itself alone, so theirs is -1, Kafka's number for an unknown end.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from logstore.formats.broker_row import Address, BrokerRow

METADATA_TOPIC, METADATA_PARTITION = "__cluster_metadata", 0
UNKNOWN = -1


class ShownReplica(NamedTuple):
    broker: int
    log_end_offset: int
    """-1: not known here."""
    seen_ms: int
    """When it was last up to date, ms; -1: not known here."""


class ShownQuorum(NamedTuple):
    leader: int
    leader_epoch: int
    high_watermark: int
    voters: Sequence[ShownReplica]
    observers: Sequence[ShownReplica]
    listeners: Mapping[str, Address]
    """Where the leader is reached."""


def show_quorum(
    holder: int,
    term: int,
    feed_version: int,
    brokers: Mapping[int, BrokerRow],
    live: Collection[int],
    *,
    me: int,
    now_ms: int,
) -> ShownQuorum:
    """`holder` has the lease for the `term`-th time that it changed hands; it is in `brokers`."""
    row = brokers[holder]
    observers = [
        ShownReplica(one, feed_version, now_ms)
        if one == me
        else ShownReplica(one, UNKNOWN, UNKNOWN)
        for one in sorted(live)
        if one != holder
    ]
    return ShownQuorum(
        holder,
        term,
        feed_version,
        [ShownReplica(holder, feed_version, now_ms)],
        observers,
        row.listeners or {"": Address(row.host, row.port)},
    )
