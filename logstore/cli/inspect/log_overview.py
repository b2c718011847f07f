"""A whole log looked over, without a broker and also beside running ones: `logstore inspect`.

Damage is noted and passed by. Only what makes every answer meaningless stops it: no log, a newer
format of the whole, a registry that belongs to another cluster.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from logstore.cli.decisions.findings import Finding
from logstore.cli.inspect.chain_overview import ChainOverview, read_chain_overview
from logstore.cli.inspect.chain_view import ChainLine, chain_line, parsed_key
from logstore.cli.inspect.registry_view import query_all
from logstore.cli.output import progress
from logstore.errors import LogstoreError
from logstore.formats.acl_record import ACL_RECORDS
from logstore.formats.broker_row import BROKER, BrokerRow
from logstore.formats.chain_row import CHAIN, ChainRow
from logstore.formats.chain_state import EpochKey
from logstore.formats.keys import (
    CHAINS,
    CHECKPOINTS,
    CLUSTER_KEY,
    LEVELS,
    checkpoint_key,
    segment_key,
)
from logstore.formats.partition_row import PartitionRow
from logstore.formats.topic_partition import TopicPartition
from logstore.formats.topic_record import TOPICS
from logstore.formats.topic_row import TopicRow
from logstore.history.forms.names import TABLES
from logstore.history.table_log import TableLog
from logstore.ports.objects import ObjectInfo
from logstore.prices import Requests, cost_of, cost_of_storage
from logstore.protocol.chain.opening import OLD_REGISTRY, read_cluster
from logstore.protocol.chain.walk import read_checkpoint
from logstore.protocol.rows.metadata import read_partition_rows, read_topics
from logstore.runners.retrying import RetryingStore
from logstore.wiring.open import ReadableLog

FOLDERS = (CLUSTER_KEY, LEVELS, CHAINS, CHECKPOINTS, TOPICS, ACL_RECORDS, "staging/", f"{TABLES}/")


@dataclass(frozen=True, slots=True)
class BrokerLine:
    broker: int
    epoch: int
    address: str
    rack: str
    heartbeat: int


@dataclass(frozen=True, slots=True)
class PartitionOverview:
    """Offsets [start, end). `is_complete`: nothing of its chain that may hold more is damaged."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    chain: int
    stretches: int
    start: int
    end: int | None
    is_complete: bool


@dataclass(frozen=True, slots=True)
class TopicLine:
    name: str
    topic_id: bytes
    status: str
    partition_count: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TableLine:
    """A topic's table at its newest version; of a topic that is gone, by its id."""

    topic: str
    topic_id: bytes
    version: int
    files: int
    size_bytes: int
    ends: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class FolderLine:
    folder: str
    objects: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Cost:
    """List prices of S3 for the stored objects: their storage, and the PUTs that created them."""

    storage_dollars_month: float
    put_dollars: float


@dataclass(frozen=True, slots=True)
class LogOverview:
    cluster_id: bytes
    registry: str
    format_level: int
    next_epoch: int
    brokers: Sequence[BrokerLine]
    topics: Sequence[TopicLine]
    partitions: Sequence[PartitionOverview]
    tables: Sequence[TableLine]
    chains: Sequence[ChainLine]
    stored: Sequence[FolderLine]
    cost: Cost
    findings: Sequence[Finding]


def read_log_overview(log: ReadableLog) -> LogOverview:
    """Raises `Refused` when the registry is not this log's."""
    cluster = log.runner.run(read_cluster(log.identity.cluster_id))
    topics = log.runner.run(read_topics())
    partitions = log.runner.run(read_partition_rows())
    # Rows before objects: a chain begun in between has no row here, and only an opening.
    rows = {int(sk): ChainRow.of(row) for sk, row in query_all(log, CHAIN)}
    objects = {folder: list(log.runner.store.list(folder)) for folder in FOLDERS}
    segments, findings = _by_chain(objects[CHAINS])
    overviews = _chain_overviews(log, rows, segments)
    findings += [finding for overview in overviews.values() for finding in overview.findings]
    findings += _unknown_chains(overviews.values())
    findings += _checkpoint_overviews(log, objects[CHECKPOINTS], rows)
    tables, unreadable = _table_overviews(log, topics, objects[f"{TABLES}/"])
    findings += unreadable
    stored = [FolderLine(name, len(o), sum(i.size_bytes for i in o)) for name, o in objects.items()]
    return LogOverview(
        log.identity.cluster_id,
        log.identity.registry,
        cluster.format_level,
        cluster.next_epoch,
        _brokers(log),
        [_topic_line(name, row) for name, row in sorted(topics.items())],
        _partition_lines(topics, partitions, overviews),
        tables,
        [chain_line(overview) for overview in overviews.values()],
        stored,
        _cost(stored),
        findings,
    )


def _by_chain(
    infos: Sequence[ObjectInfo],
) -> tuple[dict[int, dict[int, ObjectInfo]], list[Finding]]:
    """Segments by epoch and seq, and what lies there under no segment's key."""
    chains: dict[int, dict[int, ObjectInfo]] = defaultdict(dict)
    strange = []
    for info in infos:
        place = parsed_key(info.key)
        if place is None or segment_key(*place) != info.key:
            strange.append(Finding(info.key, None, "no segment has this key"))
        else:
            chains[place[0]][place[1]] = info
    return chains, strange


def _chain_overviews(
    log: ReadableLog,
    rows: Mapping[int, ChainRow],
    segments: Mapping[int, Mapping[int, ObjectInfo]],
) -> dict[int, ChainOverview]:
    with progress("reading segments", sum(map(len, segments.values()))) as advance:
        return {
            epoch: read_chain_overview(
                log, epoch, rows.get(epoch), segments.get(epoch, {}), advance
            )
            for epoch in sorted({*rows, *segments})
        }


def _unknown_chains(overviews: Iterable[ChainOverview]) -> list[Finding]:
    """One opening without a row is a broker that starts now, or died so; more is damage."""
    findings = []
    for overview in overviews:
        if overview.row is None and overview.objects > 1:
            cause = f"the registry has no row of chain {overview.epoch}: {OLD_REGISTRY}"
            findings.append(Finding(segment_key(overview.epoch, 0), None, cause))
    return findings


def _checkpoint_overviews(
    log: ReadableLog, infos: Sequence[ObjectInfo], rows: Mapping[int, ChainRow]
) -> list[Finding]:
    findings, present = [], set()
    for info in infos:
        place = parsed_key(info.key)
        if place is None or checkpoint_key(*place) != info.key:
            findings.append(Finding(info.key, None, "no checkpoint has this key"))
            continue
        present.add(place)
        try:
            log.runner.run(read_checkpoint(*place))
        except LogstoreError as error:
            findings.append(Finding(info.key, None, str(error)))
    for epoch, row in rows.items():
        if row.checkpoint and (epoch, row.checkpoint) not in present:
            cause = "checkpoint is missing: the chain's row names it"
            findings.append(Finding(checkpoint_key(epoch, row.checkpoint), None, cause))
    return findings


def _table_overviews(
    log: ReadableLog, topics: Mapping[str, TopicRow], infos: Sequence[ObjectInfo]
) -> tuple[list[TableLine], list[Finding]]:
    """`infos` are the objects below the prefix of tables."""
    names = {row.topic_id.hex(): name for name, row in topics.items()}
    lines, findings = [], []
    for folder in sorted({info.key.split("/")[1] for info in infos}):
        key = f"{TABLES}/{folder}"
        try:
            topic_id = bytes.fromhex(folder)
            snapshot = TableLog(RetryingStore(log.runner.store), topic_id).snapshot(None)
        except (LogstoreError, ValueError) as error:
            findings.append(Finding(key, None, f"no table that can be read: {error}"))
            continue
        if snapshot is not None:
            files = [file for some in snapshot.files.values() for file in some]
            size_bytes = sum(file.size_bytes for file in files)
            name = names.get(folder, folder)
            line = (name, topic_id, snapshot.version, len(files), size_bytes, snapshot.ends)
            lines.append(TableLine(*line))
    return sorted(lines, key=lambda line: line.topic), findings


def _brokers(log: ReadableLog) -> list[BrokerLine]:
    lines = []
    for sk, row in query_all(log, BROKER):
        broker = BrokerRow.of(row)
        address = f"{broker.host}:{broker.port}"
        lines.append(BrokerLine(int(sk), broker.epoch, address, broker.rack, broker.heartbeat))
    return lines


def _topic_line(name: str, row: TopicRow) -> TopicLine:
    return TopicLine(name, row.topic_id, row.status.value, row.partitions, row.configs)


def _partition_lines(
    topics: Mapping[str, TopicRow],
    rows: Mapping[TopicPartition, PartitionRow],
    overviews: Mapping[int, ChainOverview],
) -> list[PartitionOverview]:
    names = {row.topic_id: name for name, row in topics.items()}
    lines = []
    for (topic_id, number), row in rows.items():
        end, is_complete = _end(overviews.get(row.chain), topic_id, number, row)
        lines.append(
            PartitionOverview(
                names.get(topic_id, topic_id.hex()),
                number,
                row.broker,
                row.leader_epoch,
                row.chain,
                len(row.epoch_ranges),
                row.log_start,
                end,
                is_complete,
            )
        )
    return sorted(lines, key=lambda line: (line.topic, line.partition))


def _end(
    overview: ChainOverview | None, topic_id: bytes, number: int, row: PartitionRow
) -> tuple[int | None, bool]:
    if overview is None or overview.state is None:
        return None, False
    epoch_range = overview.state.epoch_ranges.get(EpochKey(topic_id, number, row.leader_epoch))
    return row.epoch_ranges[
        -1
    ].start if epoch_range is None else epoch_range.end, overview.is_replayed


def _cost(stored: Sequence[FolderLine]) -> Cost:
    size_bytes = sum(line.size_bytes for line in stored)
    objects = sum(line.objects for line in stored)
    return Cost(cost_of_storage(size_bytes, 1), cost_of(Requests(creates=objects)))
