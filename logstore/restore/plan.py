"""Which rows a registry must have for the chains that are there: the decision of restore. Pure.

Leadership, stretches, starts and ends come from take entries; trim points, seals and the next epoch
from what is stored; topics from their rows and records (`restore.topics`).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

from logstore.chains.checks import Extent
from logstore.errors import Corrupt, Refused
from logstore.log.topic_record import TopicRecord
from logstore.restore.evidence import Evidence
from logstore.restore.topics import Led, Records, plan_topics
from logstore.rows import (
    FORMAT_LEVEL,
    NOBODY,
    ChainRow,
    ChainStatus,
    ClusterRow,
    PartitionRow,
    StretchRef,
    TopicRow,
    TopicStatus,
)

TopicPartition = tuple[bytes, int]


@dataclass(slots=True)
class Rows:
    """The rows that restore reads and writes. Topics by name, all others by their key."""

    cluster: ClusterRow | None = None
    chains: dict[int, ChainRow] = field(default_factory=dict)
    topics: dict[str, TopicRow] = field(default_factory=dict)
    partitions: dict[TopicPartition, PartitionRow] = field(default_factory=dict)
    records: list[TopicRecord] = field(default_factory=list)
    """Of topics whose rows are planned and have none: to be written before them."""


class Lead(NamedTuple):
    """One stretch as its chain holds it; offsets below `gone` are deleted."""

    leader_epoch: int
    chain: int
    extent: Extent
    gone: int


def plan_rows(
    cluster_id: bytes,
    chains: Sequence[Evidence],
    old: Rows,
    names: Mapping[bytes, str] | None = None,
    records: Records | None = None,
) -> Rows:
    """The rows as they are to be. Raises `Refused` or `Corrupt` where that cannot be told.

    `names` are of topics whose rows are lost, by id, where somebody knows them; `records` of all
    topics that have any.
    """
    _check_same_moment(chains, old)
    brokers = {chain.epoch: chain.broker for chain in chains}
    all_leads = _leads(chains)
    topics = plan_topics(old.topics, _led(all_leads, old), records or {}, names or {})
    planned = Rows(
        cluster=_cluster(cluster_id, chains, old.cluster),
        chains={chain.epoch: _chain(chain, old.chains.get(chain.epoch)) for chain in chains},
        topics=topics.rows,
        partitions=dict(old.partitions),
        records=topics.records,
    )
    wanted = {topic.topic_id for topic in topics.rows.values() if topic.status is TopicStatus.LIVE}
    for partition, leads in all_leads.items():
        if partition[0] in wanted:
            known = old.partitions.get(partition)
            planned.partitions[partition] = _partition(partition, leads, known, brokers)
    _fill_up(planned, brokers)
    return planned


def _check_same_moment(chains: Sequence[Evidence], old: Rows) -> None:
    there = {chain.epoch for chain in chains}
    lost = sorted(set(old.chains) - there)
    if lost:
        raise Refused(
            f"the registry knows chains that the store does not have: chains={lost[:10]}; the "
            "objects are older than the registry: put back those that are missing"
        )
    for chain in chains:
        row = old.chains.get(chain.epoch)
        if row is not None and max(row.seal, row.checkpoint) > chain.end:
            raise Refused(
                f"chain {chain.epoch} ends at {chain.end}, the registry knows it up to "
                f"{max(row.seal, row.checkpoint)}: put back the objects that are missing"
            )


def _cluster(cluster_id: bytes, chains: Sequence[Evidence], old: ClusterRow | None) -> ClusterRow:
    above = 1 + max((chain.epoch for chain in chains), default=0)
    if old is None:
        return ClusterRow(cluster_id, above, FORMAT_LEVEL)
    return replace(old, next_epoch=max(old.next_epoch, above))


def _chain(chain: Evidence, old: ChainRow | None) -> ChainRow:
    trim = max(chain.trim, 0 if old is None else old.trim)
    return ChainRow(
        broker=chain.broker,
        status=ChainStatus.SEALED,
        trim=trim,
        checkpoint=chain.end,
        seal=chain.end,
        trim_ms=old.trim_ms if old is not None and old.trim == trim else 0,
        deleted=max(chain.trim, 0 if old is None else old.deleted),
    )


def _leads(chains: Sequence[Evidence]) -> dict[TopicPartition, list[Lead]]:
    found: dict[TopicPartition, list[Lead]] = defaultdict(list)
    for chain in chains:
        for key, extent in chain.stretches.items():
            gone = chain.gone.get(key, extent.start)
            lead = Lead(key.leader_epoch, chain.epoch, extent, gone)
            found[key.topic_id, key.partition].append(lead)
    return {partition: sorted(leads) for partition, leads in found.items()}


def _partition(
    partition: TopicPartition,
    leads: Sequence[Lead],
    old: PartitionRow | None,
    brokers: Mapping[int, int],
) -> PartitionRow:
    _check_they_meet(partition, leads)
    end = leads[-1].extent.end
    log_start = _log_start(leads, old)
    taken = {lead.leader_epoch: lead for lead in leads}
    refs = {lead.leader_epoch: StretchRef(*lead[:2], lead.extent.start) for lead in leads}
    newest = leads[-1].leader_epoch
    for ref in () if old is None else old.stretches:
        known = refs.get(ref.leader_epoch)
        if known is not None and known.chain != ref.chain:
            raise Corrupt(
                f"the registry and the chains name different leaders: {_name(partition)} "
                f"leader_epoch={ref.leader_epoch} registry={ref.chain} chains={known.chain}"
            )
        if known is None and ref.leader_epoch > newest:
            refs[ref.leader_epoch] = ref._replace(start=end)  # its take entry never came: empty
    kept = [
        refs[number]
        for number in sorted(refs)
        if number >= newest or taken[number].extent.end > max(refs[number].start, log_start)
    ]
    return _row(tuple(kept), min(log_start, end), old, brokers)


def _log_start(leads: Sequence[Lead], old: PartitionRow | None) -> int:
    return max(
        leads[0].extent.start,
        *(lead.gone for lead in leads if lead.gone > lead.extent.start),
        0 if old is None else old.log_start,
    )


def _led(all_leads: Mapping[TopicPartition, Sequence[Lead]], old: Rows) -> dict[bytes, Led]:
    """By topic id."""
    found: dict[bytes, Led] = {}
    for (topic_id, number), leads in all_leads.items():
        log_start = _log_start(leads, old.partitions.get((topic_id, number)))
        known = found.get(topic_id, Led(0, is_empty=True))
        is_empty = known.is_empty and leads[-1].extent.end <= log_start
        found[topic_id] = Led(max(known.partitions, number + 1), is_empty)
    return found


def _row(
    stretches: tuple[StretchRef, ...],
    log_start: int,
    old: PartitionRow | None,
    brokers: Mapping[int, int],
) -> PartitionRow:
    last = stretches[-1]
    broker = brokers.get(last.chain, NOBODY)
    return PartitionRow(
        broker=broker,
        chain=last.chain,
        leader_epoch=last.leader_epoch,
        log_start=log_start,
        stretches=stretches,
        replicas=(broker,) if old is None else old.replicas,
        reassigning=() if old is None else old.reassigning,
        target=NOBODY,
    )


def _check_they_meet(partition: TopicPartition, leads: Sequence[Lead]) -> None:
    for earlier, later in pairwise(leads):
        if earlier.leader_epoch == later.leader_epoch:
            raise Corrupt(
                f"two chains hold one leadership: {_name(partition)} "
                f"leader_epoch={later.leader_epoch} chains={earlier.chain},{later.chain}"
            )
        if earlier.extent.end != later.extent.start:
            raise Corrupt(
                f"stretches do not meet: {_name(partition)} leader_epoch={earlier.leader_epoch} "
                f"end={earlier.extent.end} next={later.extent.start}; objects are missing"
            )


def _fill_up(planned: Rows, brokers: Mapping[int, int]) -> None:
    """A partition of a live topic that no chain has led: its creation died; it is empty."""
    if not brokers:
        return
    newest = max(brokers)
    for topic in planned.topics.values():
        for number in range(topic.partitions if topic.status is TopicStatus.LIVE else 0):
            if (topic.topic_id, number) not in planned.partitions:
                row = PartitionRow.new(brokers[newest], newest)
                planned.partitions[topic.topic_id, number] = row


def _name(partition: TopicPartition) -> str:
    return f"topic={partition[0].hex()} partition={partition[1]}"
