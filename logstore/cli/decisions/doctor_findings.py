"""Faults of a log, from facts: one diagnosis a line, the worst first. Pure.

broken   clients are refused, or data is damaged: act now
risk     works, and the next failure would hurt, or something grows: act today
fine     looked at, and in order
"""

from collections import Counter
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from logstore.cli.decisions.doctor_facts import BrokerFacts, Facts
from logstore.errors import DISK_IS_FULL, FREE_SPACE
from logstore.formats.broker_row import BrokerStatus
from logstore.formats.chain_row import ChainStatus

CLOCK_AHEAD_MS_MAX, CLOCK_BEHIND_MS_MAX = 2_000, 30_000
"""Clocks further apart: records get wrong times, and retention is early or late. A segment is begun
before it is stored, by as long as the store takes: so a clock that is behind is seen late."""

PUT_AGE_MS_MAX = 5_000
BEHIND_FACTOR = 20
"""A table is behind when records wait for so many times its freshness."""

HELD_MS_MAX = 24 * 3_600_000
"""A chain that ended and is held for longer is worth a look."""

DAY_MS = 86_400_000
CERTIFICATE_DAYS_MIN = 14

LAG_SHOWN = 3
NAMED_MAX = 5


_NEED_ROOM = ("brokers", "controller", "partitions")


class Severity(StrEnum):
    BROKEN = "broken"
    RISK = "risk"
    FINE = "fine"


class Diagnosis(NamedTuple):
    severity: Severity
    about: str
    text: str
    action: str
    """The cure; empty where all is well."""


def findings_of(facts: Facts) -> list[Diagnosis]:
    """The worst first; those of equal severity in the order of the checks."""
    found = [
        finding
        for check in _CHECKS
        for finding in check(facts)
        if finding.severity is not Severity.FINE or finding.about not in facts.unreadable
    ]
    if facts.no_room:
        found = [_waiting_for_room(one) for one in found]
    return sorted(found, key=lambda one: list(Severity).index(one.severity))


def _waiting_for_room(one: Diagnosis) -> Diagnosis:
    """Brokers cannot renew their leases on a full disk: starting them again is of no use."""
    is_effect = one.severity is Severity.BROKEN and one.about in _NEED_ROOM
    return one._replace(action=FREE_SPACE) if is_effect else one


def is_healthy(findings: list[Diagnosis]) -> bool:
    return all(one.severity is Severity.FINE for one in findings)


def _broken(about: str, text: str, action: str) -> Diagnosis:
    return Diagnosis(Severity.BROKEN, about, text, action)


def _risk(about: str, text: str, action: str) -> Diagnosis:
    return Diagnosis(Severity.RISK, about, text, action)


def _fine(about: str, text: str) -> Diagnosis:
    return Diagnosis(Severity.FINE, about, text, "")


def _damage(facts: Facts) -> Iterator[Diagnosis]:
    if facts.damage is None:
        yield _fine("objects", "not looked at, the log is large; run: logstore fsck")
        return
    for one in facts.damage:
        yield _broken("objects", f"{one.kind}: {one.where}: {one.detail}", one.cure)
    if not facts.damage:
        yield _fine("objects", "headers and indexes of all segments can be read")


def _unreadable(facts: Facts) -> Iterator[Diagnosis]:
    for part, why in facts.unreadable.items():
        yield _broken(part, f"cannot be looked at: {why}", "follow the error, then run this again")


def _full_disk(facts: Facts) -> Iterator[Diagnosis]:
    if facts.no_room:
        yield _broken("disk", f"{DISK_IS_FULL}: {facts.no_room}", FREE_SPACE)


def _probe(facts: Facts) -> Iterator[Diagnosis]:
    if facts.probe_faults is None:
        why = DISK_IS_FULL if facts.no_room else "--read-only"
        yield _fine("rights", f"not tried: {why}")
        return
    for fault in facts.probe_faults:
        action = "allow it to this identity" if "not allowed" in fault else "use another store"
        yield _broken("rights", fault, action)
    if not facts.probe_faults:
        yield _fine("rights", "store and registry do all that a broker needs, and keep conditions")


def _brokers(facts: Facts) -> Iterator[Diagnosis]:
    live = [one for one in facts.brokers if _is_live(one)]
    if not live:
        yield _broken("brokers", "no broker is alive", "start one: logstore serve")
    for one in facts.brokers:
        name = f"broker {one.broker} at {one.address}"
        if one.status is BrokerStatus.SERVING and not one.is_advancing:
            text = f"{name} is silent: partitions={one.led_count}"
            yield _finding_of_silent(one, text, has_live=bool(live))
        elif one.status is BrokerStatus.FENCED and one.led_count:
            text = f"{name} is fenced and rows name it: partitions={one.led_count}"
            yield _broken("brokers", text, "a live controller hands them on within seconds")
        elif one.status is BrokerStatus.FENCED:
            text = f"{name} was taken for dead, and has not come back"
            action = (
                "is its process frozen, or gone? Start it again, or remove it: "
                f"unregister broker {one.broker} (kafka-cluster.sh)"
            )
            yield _risk("brokers", text, action)
        elif one.unreachable is not None and _is_live(one):
            text = f"{name} renews its lease and is not reached: {one.unreachable}"
            yield _broken("brokers", text, "check --advertise, and the network to this address")
        elif one.put_age_ms > PUT_AGE_MS_MAX and _is_live(one):
            text = f"{name} waits for the store: oldest_put_ms={one.put_age_ms}"
            yield _broken("brokers", text, "see that broker's log, and the store's status")
    if live:
        names = ", ".join(f"{one.broker} (leads {one.led_count})" for one in live)
        yield _fine("brokers", f"alive: {names}")


def _finding_of_silent(one: BrokerFacts, text: str, *, has_live: bool) -> Diagnosis:
    if one.led_count:
        action = "start it again" if not has_live else "wait for the takeover, then look at its log"
        return _broken("brokers", text, action)
    action = f"start it again, or remove it: unregister broker {one.broker} (kafka-cluster.sh)"
    return _risk("brokers", text, action)


def _is_live(one: BrokerFacts) -> bool:
    return one.status in (BrokerStatus.SERVING, BrokerStatus.DRAINING) and one.is_advancing


def _controller(facts: Facts) -> Iterator[Diagnosis]:
    if not any(map(_is_live, facts.brokers)):
        return
    if facts.controller is None or not facts.controller.is_advancing:
        action = "look for `the controller cannot read the cluster` in the brokers' logs"
        yield _broken("controller", "no broker acts as the controller", action)
    else:
        yield _fine("controller", f"broker {facts.controller.owner}")


def _partitions(facts: Facts) -> Iterator[Diagnosis]:
    if facts.leaderless:
        named = _named([f"{topic}-{number}" for topic, number in facts.leaderless])
        yield _broken(
            "partitions",
            f"without a live leader: {len(facts.leaderless)}: {named}",
            "start a broker, or see why the controller does not take over",
        )
    if facts.orphans:
        named = _named([f"{topic_id}-{number}" for topic_id, number in facts.orphans])
        yield _risk(
            "partitions",
            f"rows without a topic: {len(facts.orphans)}: {named}",
            "the controller removes those of creations that died; if they stay: logstore fsck",
        )
    if not facts.leaderless and not facts.orphans and facts.brokers:
        yield _fine("partitions", "each has a live leader and a topic")


def _clocks(facts: Facts) -> Iterator[Diagnosis]:
    action = "let the host's clock be set by NTP or chrony"
    is_right = True
    for chain in facts.chains:
        ahead_ms = chain.clock_ahead_ms
        if ahead_ms is None or -CLOCK_BEHIND_MS_MAX <= ahead_ms <= CLOCK_AHEAD_MS_MAX:
            continue
        is_right = False
        where = "ahead of" if ahead_ms > 0 else "behind"
        text = f"broker {chain.broker} is {where} the store: ms={abs(ahead_ms)}"
        yield _risk("clocks", f"{text} chain={chain.epoch}", action)
    if is_right:
        yield _fine("clocks", "of brokers, as far as their newest segments show: like the store's")


def _levels(facts: Facts) -> Iterator[Diagnosis]:
    levels = f"log={facts.log_level} this version={facts.known_level}"
    live = [one for one in facts.brokers if _is_live(one)]
    for one in live:
        if one.level_max < facts.log_level:
            text = f"broker {one.broker} reads levels up to {one.level_max} alone: {levels}"
            yield _broken("format", text, f"stop it, and start it with version {facts.version}")
    if facts.log_level > facts.known_level:
        yield _broken("format", f"the log is newer: {levels}", "use a newer version")
        return
    brokers = ", ".join(sorted({one.version or "0.1.0 or older" for one in live}))
    text = f"level {levels} version={facts.version} brokers={brokers or 'none'}"
    if facts.log_level < facts.known_level:
        text += "; to finalize the next level: logstore upgrade"
    yield _fine("format", text)


def _trimming(facts: Facts) -> Iterator[Diagnosis]:
    held = [one for one in facts.chains if one.hold is not None]
    for one in held:
        if one.status is not ChainStatus.OPEN and one.age_ms > HELD_MS_MAX:
            hours = one.age_ms // 3_600_000
            text = f"chain {one.epoch} ended {hours} h ago and is held by topic {one.topic}"
            action = (
                "give the topic retention, or a table and compaction; "
                "this chain stays as long as those records"
            )
            yield _risk("trimming", f"{text}: {one.hold}", action)
    reasons = Counter(one.hold for one in held if one.hold is not None)
    summed = "; ".join(f"{count} by {reason}" for reason, count in reasons.most_common())
    yield _fine("trimming", f"chains={len(facts.chains)} held={len(held)} {summed}".rstrip())


def _tables(facts: Facts) -> Iterator[Diagnosis]:
    behind = [one for one in facts.tables if one.waiting_ms > BEHIND_FACTOR * one.freshness_ms]
    for one in sorted(behind, key=lambda one: -one.waiting_ms):
        text = (
            f"table of {one.topic} is behind: records={one.waiting_records} "
            f"oldest_s={one.waiting_ms // 1000}"
        )
        yield _risk("tables", text, "run: logstore compact, and schedule it")
    runs = facts.compaction
    if runs is not None and runs.failed_since:
        text = f"runs of compaction failed since the last good one: {runs.failed_since}"
        yield _risk(
            "tables", f"{text}: {runs.last_error}", "follow the error; run: logstore compact"
        )
    if not behind and facts.tables:
        waiting = sum(one.waiting_records for one in facts.tables)
        yield _fine("tables", f"enabled={len(facts.tables)} waiting_records={waiting}")


def _lag(facts: Facts) -> Iterator[Diagnosis]:
    lagging = sorted((one for one in facts.groups if one.lag), key=lambda one: -one.lag)
    if lagging:
        shown = ", ".join(f"{one.group}={one.lag} ({one.state})" for one in lagging[:LAG_SHOWN])
        yield _fine("lag", f"groups with lag: {len(lagging)}: {shown}")
    elif facts.groups:
        yield _fine("lag", f"groups: {len(facts.groups)}, all at the end")


def _certificates(facts: Facts) -> Iterator[Diagnosis]:
    for one in sorted(facts.certificates, key=lambda one: one.left_ms):
        name, days = f"certificate of {one.url}", abs(one.left_ms) // DAY_MS
        if one.left_ms <= 0:
            text = f"{name} has ended: days_ago={days}"
            yield _broken("certs", text, "renew it on that server: brokers refuse it")
        elif days < CERTIFICATE_DAYS_MIN:
            text = f"{name} ends soon: days={days}"
            yield _risk("certs", text, "renew it on that server: brokers will refuse it")
        else:
            yield _fine("certs", f"{name} ends in {days} days")


def _quotas(facts: Facts) -> Iterator[Diagnosis]:
    if facts.quotas:
        shown = _named(sorted(facts.quotas))
        yield _fine("quotas", f"clients are held to limits: {len(facts.quotas)}: {shown}")


def _named(names: list[str]) -> str:
    more = len(names) - NAMED_MAX
    return ", ".join(names[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


_CHECKS = (
    *(_full_disk, _damage, _unreadable, _probe, _brokers, _controller, _partitions),
    *(_clocks, _levels, _trimming, _tables, _lag, _quotas, _certificates),
)
