"""Finalize a format level: who may read it, the mark in the store, the cluster row. Pure.

    read the cluster row → chains, then brokers → may every broker read the level?
    → mark `levels/<level>` in the store → raise the row, if next epoch and level are as read
    → the change feed begins again, so that brokers read the level now
    → two leases later, look again

Raising the row and drawing a broker epoch are conditional writes of the same row, each on what the
other changes (`protocol.chain.opening`). So a broker that starts concurrently has drawn its epoch
before the level was raised, which makes the raise fail and look again, where its chain and then its
row are seen; or it draws after it, and is refused there if it cannot read the level. 0.1.0 compares
the level once, before it draws: one that started in the few seconds between is found by the last
look. It loses nothing: it refuses segments of a format that it does not know, by name.

The mark is created before the row is raised, so that a lost registry is restored with a level that
is no lower than any form that is stored. Every step may be repeated, by several at once: killed
before the raise it has changed nothing that any reader goes by, after it only the hint is missing.
"""

import json
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from logstore.errors import (
    AlreadyExists,
    ConditionFailed,
    Invalid,
    NotFound,
    OutcomeUnknown,
    Refused,
    Retryable,
)
from logstore.formats.broker_row import BROKER, BrokerRow, BrokerStatus
from logstore.formats.chain_row import CHAIN, ChainRow, ChainStatus
from logstore.formats.cluster_row import CLUSTER, ClusterRow
from logstore.formats.keys import LEVELS, level_key, level_of_key
from logstore.formats.levels import NEWEST_LEVEL, check_known
from logstore.ports.registry import Comparison
from logstore.protocol.chain.opening import read_cluster
from logstore.protocol.chain.walk import get_retrying, list_retrying
from logstore.protocol.leading.start import LEASE_S
from logstore.protocol.rows.changes import begin_feed_again
from logstore.protocol.steps import BackOff, Create, QueryRows, Steps, UpdateRow, Wait
from logstore.version import VERSION

ATTEMPTS_MAX = 10
MARK_BYTES_MAX = 4096
ENDED = (BrokerStatus.STOPPED, BrokerStatus.FENCED)


class BrokersHinder(Refused):
    """Brokers cannot read the level, or have not said yet what they read."""


class Hindrance(NamedTuple):
    """A broker that keeps a level from being finalized."""

    broker: int
    why: str
    cure: str


@dataclass(frozen=True, slots=True)
class UpgradeView:
    """Rows as they were read, in this order."""

    cluster: ClusterRow
    chains: Mapping[int, ChainRow]
    brokers: Mapping[int, BrokerRow]


def read_view(cluster_id: bytes) -> Steps[UpgradeView]:
    """Raises `Refused` for a log of a newer level than this version knows."""
    cluster = yield from read_cluster(cluster_id)
    check_known(cluster.format_level, VERSION)
    chains = {int(sk): ChainRow.of(row) for sk, row in (yield QueryRows(CHAIN))}
    brokers = {int(sk): BrokerRow.of(row) for sk, row in (yield QueryRows(BROKER))}
    return UpgradeView(cluster, chains, brokers)


def find_hindrances(
    view: UpgradeView, level: int, passed_over: Collection[int] = ()
) -> list[Hindrance]:
    """Brokers that cannot read `level`, and starts whose broker has not said yet what it reads.

    Those `passed_over` are not waited for; one that serves cannot be passed over.
    """
    found = []
    for broker, row in sorted(view.brokers.items()):
        can = row.level_min <= level <= row.level_max
        if can or (row.status in ENDED and broker in passed_over):
            continue
        why = (
            f"broker {broker} ({row.status.value}) is of version {row.version or '0.1.0 or older'} "
            f"and reads levels {row.level_min} to {row.level_max}"
        )
        cure = "start it with this version"
        if row.status in ENDED:
            cure += (
                f", or remove it: unregister broker {broker} (kafka-cluster.sh); "
                f"or leave it behind: logstore upgrade --finalize --pass-over {broker}"
            )
        found.append(Hindrance(broker, why, cure))
    for epoch, chain in sorted(view.chains.items()):
        known = view.brokers.get(chain.broker)
        if chain.status is ChainStatus.OPEN and (known is None or known.epoch < epoch):
            why = f"broker {chain.broker} is starting, or died at it: chain={epoch}"
            found.append(Hindrance(chain.broker, why, "wait a minute, then run this again"))
    return found


def finalize(
    cluster_id: bytes, passed_over: Collection[int] = (), level: int = NEWEST_LEVEL
) -> Steps[UpgradeView]:
    """Raise the level; the answer is how all stands two leases later.

    Raises `BrokersHinder`, `Refused`, and as store and registry do.
    """
    for attempt in range(1, ATTEMPTS_MAX + 1):
        view = yield from read_view(cluster_id)
        if view.cluster.format_level >= level:
            yield from begin_feed_again()  # an earlier run may have died before it
            return view
        check_brokers(view, level, passed_over)
        yield from _mark(cluster_id, level)
        if (yield from _raise(view.cluster, level)):
            yield from begin_feed_again()
            yield Wait(2 * LEASE_S)
            return (yield from read_view(cluster_id))
        yield BackOff(attempt)
    raise Refused("brokers start all the time: the level was not raised; start none, and try again")


def read_marked_level(default: int) -> Steps[int]:
    """The highest level that a mark in the store says; `default` without any."""
    keys = yield from list_retrying(LEVELS)
    return max([default, *(level for key in keys if (level := level_of_key(key)))])


def check_brokers(view: UpgradeView, level: int, passed_over: Collection[int] = ()) -> None:
    """Raises `BrokersHinder` with every hindrance, `Invalid` for a broker that is not there."""
    unknown = sorted(set(passed_over) - view.brokers.keys())
    if unknown:
        raise Invalid(f"no such broker is registered: broker={unknown[0]}")
    hindrances = find_hindrances(view, level, passed_over)
    if hindrances:
        lines = "; ".join(f"{one.why}: {one.cure}" for one in hindrances)
        raise BrokersHinder(f"format level {level} cannot be finalized: {lines}")


def _mark(cluster_id: bytes, level: int) -> Steps[None]:
    fields = {"cluster_id": cluster_id.hex(), "format_level": level, "version": VERSION}
    data = json.dumps(fields, sort_keys=True).encode() + b"\n"
    for attempt in range(1, ATTEMPTS_MAX + 1):
        # There already: another's, mine if an answer was lost, or nothing at all: a 409.
        with suppress(AlreadyExists, Retryable, OutcomeUnknown):
            yield Create(level_key(level), [data])
            return
        with suppress(NotFound):
            yield from get_retrying(level_key(level), 0, MARK_BYTES_MAX)
            return
        yield BackOff(attempt)
    raise Refused(f"{level_key(level)} cannot be created; look at the store, and try again")


def _raise(seen: ClusterRow, level: int) -> Steps[bool]:
    """Whether it was raised; else a broker drew an epoch since, or another raised it."""
    unchanged = [
        Comparison("next_epoch", "=", seen.next_epoch),
        Comparison("format_level", "=", seen.format_level),
    ]
    try:
        yield UpdateRow(CLUSTER, CLUSTER, {"format_level": level}, unchanged)
    except ConditionFailed:
        return False
    return True
