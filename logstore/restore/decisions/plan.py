"""Which rows a registry must have for the chains that are there: the decision of restore. Pure.

Leadership, epoch ranges, starts and ends come from leadership-begin entries; trim points, seals and
the next epoch from what is stored; topics from their rows and records (`restore.decisions.topics`);
log starts from all that holds offsets, chains and tables (`disposal`).
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from logstore.config.topics import TOPIC_SETTINGS
from logstore.errors import Corrupt
from logstore.formats.acl_row import AclRow
from logstore.formats.chain_row import ChainRow, ChainStatus
from logstore.formats.cluster_row import ClusterRow
from logstore.formats.levels import OLDEST_LEVEL
from logstore.formats.partition_row import NO_BROKER, EpochEntry, PartitionRow, StartReason
from logstore.formats.table_row import TableRow
from logstore.formats.topic_partition import TopicPartition
from logstore.formats.topic_record import TopicRecord, deletion_in
from logstore.formats.topic_row import TopicRow, TopicStatus
from logstore.history.forms.snapshot import Snapshot
from logstore.protocol.rules.disposal import (
    ON_DELETE,
    InTable,
    Span,
    confirmed_start,
    restored_log_start,
)
from logstore.restore.decisions.evidence import Evidence, torn_chain
from logstore.restore.decisions.leaderships import Lead, Settled, settle
from logstore.restore.decisions.missing import MissingChains, prefixes_of_chain
from logstore.restore.decisions.topics import ChainTopic, Records, plan_topics


class LeftOut(NamedTuple):
    """A leadership that does not count, since it contradicts others that do."""

    topic_id: bytes
    partition: int
    leader_epoch: int
    chain: int
    start: int
    end: int
    table_end: int
    """End of the partition in its topic's table: above `start`, rows may be of this leadership."""

    @property
    def in_table(self) -> tuple[int, int] | None:
        """Offsets that it wrote and that the table holds, of this leadership or of another."""
        end = min(self.end, self.table_end)
        return (self.start, end) if self.start < end else None


@dataclass(slots=True)
class RegistryRows:
    """The rows that restore reads and writes. Topics by name, all others by their key."""

    cluster: ClusterRow | None = None
    chains: dict[int, ChainRow] = field(default_factory=dict)
    topics: dict[str, TopicRow] = field(default_factory=dict)
    partitions: dict[TopicPartition, PartitionRow] = field(default_factory=dict)
    tables: dict[bytes, TableRow] = field(default_factory=dict)
    """Table pointers, by topic id."""
    acls: dict[str, AclRow] = field(default_factory=dict)
    records: list[TopicRecord] = field(default_factory=list)
    """Of topics whose rows are planned and have none: to be written before them."""
    left_out: list[LeftOut] = field(default_factory=list)


Snapshots = Mapping[bytes, Snapshot]
"""Of every table there is, the newest, by topic id."""


def plan_rows(
    cluster_id: bytes,
    chains: Sequence[Evidence],
    old: RegistryRows,
    snapshots: Snapshots,
    names: Mapping[bytes, str] | None = None,
    records: Records | None = None,
    *,
    chains_left_out: Collection[int] = (),
    holes_deleted: bool = False,
    known_level: int = OLDEST_LEVEL,
) -> RegistryRows:
    """The rows to write, of `known_level` or above. Raises `Refused` or `Corrupt`.

    `names` are of topics whose rows are lost, by id; `records` of all topics that have any. Where
    chains contradict each other, `chains_left_out` do not count; with `holes_deleted`, offsets that
    no chain holds between two leaderships are below log start.
    """
    _check_same_moment(chains, old)
    broker_of_chain = {chain.epoch: chain.broker for chain in chains}
    leads_of, noted = _leads(chains), _noted(chains)
    over = _deleted(leads_of, old, records or {})
    settled = {
        partition: Settled(sorted(leads), ())
        if partition[0] in over
        else settle(
            str(partition),
            leads,
            chains_left_out,
            _confirmed_start(partition, old),
            noted=noted.get(partition, {}),
            table_end=_table_end(partition, snapshots),
            holes_deleted=holes_deleted,
        )
        for partition, leads in leads_of.items()
    }
    all_leads = {key: leads.kept for key, leads in settled.items()}
    starts = {
        key: _log_start(key, leads, old, snapshots.get(key[0])) for key, leads in settled.items()
    }
    topics = plan_topics(old.topics, _led(all_leads, starts), records or {}, names or {})
    planned = RegistryRows(
        cluster=_cluster(cluster_id, chains, old.cluster, known_level),
        chains={chain.epoch: _chain(chain, old.chains.get(chain.epoch)) for chain in chains},
        topics=topics.rows,
        partitions=_of_topics(old.partitions, topics.rows, records or {}),
        tables=_tables(topics.rows, old.tables, snapshots),
        records=topics.records,
    )
    wanted = {topic.topic_id for topic in topics.rows.values() if topic.status is TopicStatus.LIVE}
    for chain in chains:
        _check_torn(chain, old, snapshots, wanted, noted)
    for partition in (one for one in all_leads if one[0] in wanted):
        row = _partition(partition, settled[partition], starts[partition], old, broker_of_chain)
        left_out = _left_out(partition, settled[partition], snapshots)
        edited = _edited_end(partition, old, snapshots, left_out)
        planned.partitions[partition] = replace(row, edited_end=edited)
        planned.left_out += left_out
    _fill_up(planned, broker_of_chain)
    return planned


def _left_out(partition: TopicPartition, settled: Settled, snapshots: Snapshots) -> list[LeftOut]:
    end = _table_end(partition, snapshots)
    return [LeftOut(*partition, *lead[:2], *lead.extent[:2], end) for lead in settled.left_out]


def _edited_end(
    partition: TopicPartition,
    old: RegistryRows,
    snapshots: Snapshots,
    left_out: Sequence[LeftOut],
) -> int:
    """Below it the table is read, and no segment.

    That is all that the table holds where its owner may have changed rows since, of which the old
    rows say nothing, and where its rows may be of a chain that is left out.
    """
    topic_id, number = partition
    row, copied = old.partitions.get(partition), old.tables.get(topic_id)
    known = 0 if row is None else row.edited_end
    snapshot = snapshots.get(topic_id)
    if snapshot is None:
        return known
    is_known = row is not None and copied is not None and copied.version >= snapshot.version
    if is_known and not any(one.in_table for one in left_out):
        return known
    return max(known, snapshot.end(number) or 0)


def _check_same_moment(chains: Sequence[Evidence], old: RegistryRows) -> None:
    check_known_chains([chain.epoch for chain in chains], old)
    for chain in chains:
        check_end(chain.epoch, chain.end, old)


def check_known_chains(there: Collection[int], old: RegistryRows) -> None:
    """Raises `MissingChains`."""
    lost = sorted(set(old.chains) - set(there))
    if lost:
        raise MissingChains(
            f"the registry knows chains that the store does not have: chains={lost[:10]}; the "
            "objects are older than the registry: put back those that are missing",
            [prefix for epoch in lost for prefix in prefixes_of_chain(epoch)],
        )


def check_end(epoch: int, end: int, old: RegistryRows) -> None:
    """To be asked before a seal takes the place of a missing segment. Raises `MissingChains`."""
    row = old.chains.get(epoch)
    if row is not None and max(row.seal, row.checkpoint) > end:
        raise MissingChains(
            f"chain {epoch} ends at {end}, the registry knows it up to "
            f"{max(row.seal, row.checkpoint)}: put back the objects that are missing",
            prefixes_of_chain(epoch),
        )


def _check_torn(
    chain: Evidence,
    old: RegistryRows,
    snapshots: Snapshots,
    wanted: Collection[bytes],
    noted: Mapping[TopicPartition, Mapping[int, int]],
) -> None:
    """A chain that lacks some segments below others: trimmed, if the missing ones are not needed.

    The old row may say so; else all offsets below the trim point must be below log start, in a
    table, of topics that are gone, or of epoch ranges that the chain forgot.
    """
    row = old.chains.get(chain.epoch)
    if not chain.torn or (row is not None and row.trim >= chain.trim):
        return
    for key, gone in chain.gone.items():
        if key not in chain.epoch_ranges:
            continue  # forgotten after the trim point
        partition = key.topic_partition
        deleted_below = noted.get(partition, {}).values()
        log_start = max(_confirmed_start(partition, old), *deleted_below, 0)
        table_end = _table_end(partition, snapshots)
        start = chain.epoch_ranges[key].start
        if key.topic_id in wanted and gone > max(start, log_start, table_end):
            raise torn_chain(chain.epoch, chain.torn)


def _cluster(
    cluster_id: bytes, chains: Sequence[Evidence], old: ClusterRow | None, known_level: int
) -> ClusterRow:
    """Its format level is never below a form that is stored: what is older could not read it."""
    above = 1 + max((chain.epoch for chain in chains), default=0)
    level = max([known_level, *(chain.format_level for chain in chains)])
    if old is None:
        return ClusterRow(cluster_id, above, level)
    return replace(
        old,
        next_epoch=max(old.next_epoch, above),
        format_level=max(old.format_level, level),
    )


def _chain(chain: Evidence, old: ChainRow | None) -> ChainRow:
    """A trim point of the old row whose segments are still there is taken back.

    The rows that allowed it may be lost: then log starts are planned by those segments. Trimming
    publishes it again once it has asked them all.
    """
    return ChainRow(
        broker=chain.broker,
        status=ChainStatus.SEALED,
        trim=chain.trim,
        checkpoint=chain.end,
        seal=chain.end,
        trim_ms=old.trim_ms if old is not None and old.trim == chain.trim else 0,
        deleted=chain.trim,
        topic_defaults={} if old is None else old.topic_defaults,
    )


def _confirmed_start(partition: TopicPartition, old: RegistryRows) -> int:
    row = old.partitions.get(partition)
    return 0 if row is None else confirmed_start(row)


def _table_end(partition: TopicPartition, snapshots: Snapshots) -> int:
    snapshot = snapshots.get(partition[0])
    return 0 if snapshot is None else snapshot.end(partition[1]) or 0


def _leads(chains: Sequence[Evidence]) -> dict[TopicPartition, list[Lead]]:
    all_leads: dict[TopicPartition, list[Lead]] = defaultdict(list)
    for chain in chains:
        for key, extent in chain.epoch_ranges.items():
            gone = chain.gone.get(key, extent.start)
            lead = Lead(key.leader_epoch, chain.epoch, extent, gone)
            all_leads[key.topic_partition].append(lead)
    return {partition: sorted(leads) for partition, leads in all_leads.items()}


def _noted(chains: Sequence[Evidence]) -> dict[TopicPartition, dict[int, int]]:
    """By partition and chain, the offset below which the chain says that records were deleted."""
    noted: dict[TopicPartition, dict[int, int]] = defaultdict(dict)
    for chain in chains:
        for partition, offset in chain.deleted_below.items():
            noted[TopicPartition(*partition[:2])][chain.epoch] = offset
    return noted


def _deleted(
    partitions: Collection[TopicPartition], old: RegistryRows, records: Records
) -> set[bytes]:
    """Deleted topics, whose data is not needed, whatever their chains hold."""
    ends = {TopicStatus.DELETING, TopicStatus.DELETED}
    by_rows = {topic.topic_id for topic in old.topics.values() if topic.status in ends}
    by_records = {
        topic_id
        for topic_id in {topic_id for topic_id, _ in partitions}
        if deletion_in(records.get(topic_id, ())) is not None
    }
    return by_rows | by_records


def _partition(
    partition: TopicPartition,
    settled: Settled,
    log_start: int,
    rows: RegistryRows,
    broker_of_chain: Mapping[int, int],
) -> PartitionRow:
    old = rows.partitions.get(partition)
    leads, left_out = settled.kept, settled.left_out
    end = leads[-1].extent.end
    taken = {lead.leader_epoch: lead for lead in leads}
    refs = {lead.leader_epoch: EpochEntry(*lead[:2], lead.extent.start) for lead in leads}
    newest = leads[-1].leader_epoch
    others = {lead[:2] for lead in left_out}
    for ref in () if old is None else old.epoch_ranges:
        # Where a chain took a leadership that the row gives to another, a broker was started on an
        # old copy: it changed the row and took nothing, or its leadership is left out.
        if ref.leader_epoch not in refs and ref.leader_epoch > newest and ref[:2] not in others:
            # its leadership-begin entry never came: empty
            refs[ref.leader_epoch] = ref._replace(start=end)
    highest = max((lead.leader_epoch for lead in left_out), default=-1)
    if highest >= max(refs):
        # The next leadership must not have the number of one that is left out.
        refs[highest + 1] = EpochEntry(highest + 1, max(broker_of_chain), end)
    kept = [
        refs[number]
        for number in sorted(refs)
        if number >= newest
        or taken[number].extent.end > max(refs[number].start, log_start, settled.listed_from)
    ]
    return _row(tuple(kept), log_start, old, broker_of_chain)


def _log_start(
    partition: TopicPartition, settled: Settled, old: RegistryRows, snapshot: Snapshot | None
) -> int:
    leads = settled.kept
    end = leads[-1].extent.end
    segments = [Span(max(lead.gone, lead.extent.start), lead.extent.end) for lead in leads]
    return restored_log_start(
        max(leads[0].extent.start, settled.log_start, _confirmed_start(partition, old)),
        end,
        segments,
        _in_table(partition, end, old.tables.get(partition[0]), snapshot),
    )


def _in_table(
    partition: TopicPartition, end: int, copy: TableRow | None, snapshot: Snapshot | None
) -> InTable | None:
    """None: neither the store nor the old registry knows that any offset was moved to a table."""
    number = partition[1]
    table_end = None if snapshot is None else snapshot.end(number)
    if snapshot is None or table_end is None:
        moved = 0 if copy is None else copy.ends.get(number, 0)
        return InTable(None, moved) if moved else None
    if table_end > end:
        raise Corrupt(
            f"the table holds offsets that no chain has: {partition} table_end={table_end} "
            f"chains_end={end}; objects are missing: put the files back from a copy; if "
            "there is none, move the folder of the table away to go on without what it holds"
        )
    # Below a clean end the first rows may have been replaced: log start is below them. One that was
    # raised since is given up, and what retention deletes is deleted again.
    is_cleaned = snapshot.cleaned.get(number, 0) > 0
    return InTable(0 if is_cleaned else snapshot.first(number), table_end)


def _tables(
    topics: Mapping[str, TopicRow], old: Mapping[bytes, TableRow], snapshots: Snapshots
) -> dict[bytes, TableRow]:
    """Table pointers: without one a table is not read to trim by it, or to drop its old files."""
    planned = dict(old)
    for name, topic in topics.items():
        snapshot = snapshots.get(topic.topic_id)
        if snapshot is None or topic.status is not TopicStatus.LIVE:
            continue
        row = replace(planned.get(topic.topic_id, TableRow(version=-1)), gone_ms=0)
        if row.version < snapshot.version:
            on_delete = topic.configs.get(ON_DELETE, str(TOPIC_SETTINGS[ON_DELETE].default))
            row = replace(
                row,
                version=snapshot.version,
                ends=snapshot.ends,
                topic=name,
                on_delete=on_delete,
            )
        planned[topic.topic_id] = row
    return planned


def _led(
    all_leads: Mapping[TopicPartition, Sequence[Lead]], starts: Mapping[TopicPartition, int]
) -> dict[bytes, ChainTopic]:
    """By topic id."""
    topics: dict[bytes, ChainTopic] = {}
    for partition, leads in all_leads.items():
        topic_id, number = partition
        known = topics.get(topic_id, ChainTopic(0, is_empty=True))
        is_empty = known.is_empty and leads[-1].extent.end <= starts[partition]
        topics[topic_id] = ChainTopic(max(known.partitions, number + 1), is_empty)
    return topics


def _row(
    epoch_ranges: tuple[EpochEntry, ...],
    log_start: int,
    old: PartitionRow | None,
    broker_of_chain: Mapping[int, int],
) -> PartitionRow:
    last = epoch_ranges[-1]
    broker = broker_of_chain.get(last.chain, NO_BROKER)
    return PartitionRow(
        broker=broker,
        chain=last.chain,
        leader_epoch=last.leader_epoch,
        log_start=log_start,
        epoch_ranges=epoch_ranges,
        replicas=(broker,) if old is None else old.replicas,
        reassigning=() if old is None else old.reassigning,
        target=NO_BROKER,
        start_reason=_start_reason(log_start, old),
    )


def _start_reason(log_start: int, old: PartitionRow | None) -> str:
    if old is not None and log_start <= confirmed_start(old):
        return old.start_reason
    return StartReason.RESTORED.to(log_start) if log_start else ""


def _of_topics(
    rows: Mapping[TopicPartition, PartitionRow],
    topics: Mapping[str, TopicRow],
    records: Records,
) -> dict[TopicPartition, PartitionRow]:
    """Without those of topics that have no row and whose deletion is recorded."""
    known = {topic.topic_id for topic in topics.values()}
    return {
        TopicPartition(topic_id, number): row
        for (topic_id, number), row in rows.items()
        if topic_id in known or deletion_in(records.get(topic_id, ())) is None
    }


def _fill_up(planned: RegistryRows, broker_of_chain: Mapping[int, int]) -> None:
    """A partition of a live topic that no chain has led: its creation died; it is empty."""
    if not broker_of_chain:
        return
    newest = max(broker_of_chain)
    for topic in planned.topics.values():
        for number in range(topic.partitions if topic.status is TopicStatus.LIVE else 0):
            if TopicPartition(topic.topic_id, number) not in planned.partitions:
                row = PartitionRow.new(broker_of_chain[newest], newest)
                planned.partitions[TopicPartition(topic.topic_id, number)] = row
