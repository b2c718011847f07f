"""One topic as it is stored: its partitions, and records decoded for people to look at."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from logstore.cli.inspect.log_overview import TopicLine
from logstore.cli.inspect.table_records import table_batches, table_of
from logstore.compaction.decisions.clean_rules import CleanRules, clean_range, is_due
from logstore.compaction.decisions.file_times import file_times
from logstore.errors import Invalid, Refused
from logstore.formats.partition_row import EpochEntry
from logstore.formats.segment_ranges import SegmentRange
from logstore.formats.topic_partition import TopicPartition
from logstore.history.forms.snapshot import Snapshot
from logstore.reading.direct.reader import LogReader, PartitionView, inherited_configs
from logstore.reading.direct.segment_fetch import FoundBatch, read_batches
from logstore.records.batch import read_header
from logstore.records.decode import decode_records
from logstore.wiring.open import ReadableLog

DECOMPRESSED_BYTES_MAX = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class PartitionLine:
    """Committed offsets [start, end), and the leaderships that wrote them."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: Sequence[int]
    start: int
    end: int
    stretches: Sequence[EpochEntry]


@dataclass(frozen=True, slots=True)
class CleanLine:
    """Key compaction of one partition. `table_rows`: in its table, -1 where files do not say it.

    `settled_end`: tombstones below it go `delete.retention.ms` after the table said so. `trouble`:
    why it cannot be cleaned.
    """

    partition: int
    table_end: int
    table_rows: int
    clean_end: int
    settled_end: int
    dirty_ratio: float
    is_due: bool
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class StoredRecordLine:
    """`is_control`: a transaction's marker, which consumers do not see."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    is_control: bool


@dataclass(frozen=True, slots=True)
class RecordSelection:
    """Which records: `count` of each partition, from `offset` on, or the last ones if None."""

    count: int
    partition: int | None = None
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class TopicView:
    topic: TopicLine
    partitions: Sequence[PartitionLine]
    records: Sequence[StoredRecordLine]
    cleaning: Sequence[CleanLine] = ()
    """Of a compacted topic, the partitions that its table has."""


def view_topic(log: ReadableLog, name: str, wanted: RecordSelection, *, now_ms: int) -> TopicView:
    """Raises `Invalid` for an unknown topic or partition, `Corrupt` for damage on the way."""
    reader = LogReader(log)
    topics = reader.topics()
    if name not in topics:
        raise Invalid(f"no such topic: name={name}; see the topics there are with: inspect")
    row = topics[name]
    views = sorted(reader.partitions({name: row}).items())
    known = [key.partition for key, _ in views]
    if wanted.partition is not None and wanted.partition not in known:
        raise Invalid(
            f"no such partition: topic={name} partition={wanted.partition} partitions={len(known)}"
        )
    records: list[StoredRecordLine] = []
    rules = CleanRules.of(row.configs, inherited_configs(view for _, view in views))
    table = table_of(log, reader, row.topic_id) if wanted.count or rules.is_compacted else None
    for key, view in views:
        if wanted.count and wanted.partition in (None, key.partition):
            records += _records(log, reader, table, key, view, wanted)
    return TopicView(
        TopicLine(name, row.topic_id, row.status.value, row.partitions, row.configs),
        [_partition_line(key, view) for key, view in views],
        records,
        _clean_lines(log, table, rules, now_ms) if rules.is_compacted and table is not None else (),
    )


def _clean_lines(
    log: ReadableLog, table: Snapshot, rules: CleanRules, now_ms: int
) -> list[CleanLine]:
    lines = []
    for partition, end in sorted(table.ends.items()):
        before, files = table.cleaned.get(partition, 0), table.files.get(partition, ())
        settled = table.settled.get(partition, 0)
        try:
            times = log.runner.run(file_times(table, partition, rules, now_ms))
            one = clean_range(partition, files, end, before, rules, now_ms, times)
        except Refused as error:
            lines.append(CleanLine(partition, end, -1, before, settled, 1.0, False, str(error)))
            continue
        rows = sum(file.rows for file in files)
        ratio, due = round(one.dirty_ratio, 3), is_due(one, rules, now_ms)
        lines.append(CleanLine(partition, end, rows, before, settled, ratio, due))
    return lines


def _partition_line(key: TopicPartition, view: PartitionView) -> PartitionLine:
    row = view.row
    return PartitionLine(
        key.partition,
        row.broker,
        row.leader_epoch,
        row.replicas,
        view.log_start,
        view.end,
        row.epoch_ranges,
    )


def _records(
    log: ReadableLog,
    reader: LogReader,
    table: Snapshot | None,
    key: TopicPartition,
    view: PartitionView,
    wanted: RecordSelection,
) -> list[StoredRecordLine]:
    """Below table end from the table, which holds them for good; the rest from segments."""
    start = view.end - wanted.count if wanted.offset is None else wanted.offset
    start = max(start, view.log_start)
    end = min(start + wanted.count, view.end)
    seam = min((table.end(key.partition) or 0) if table is not None else 0, end)
    lines: list[StoredRecordLine] = []
    if table is not None and start < seam:
        for made in table_batches(log, table, key, start, seam):
            lines += _decoded(key.partition, memoryview(made), start, seam)
    low = max(start, seam)
    for segments in reader.segment_ranges(key, view.row, low, end) if low < end else []:
        for batch in _batches(log, reader, segments):
            lines += _decoded(
                key.partition, batch.data, segments.offsets.start, segments.offsets.end
            )
    return lines


def _batches(log: ReadableLog, reader: LogReader, segments: SegmentRange) -> Iterator[FoundBatch]:
    store, chain = log.runner.store, segments.chain
    places = reader.layout_of(chain, [segments]).places
    seqs = segments.first_seq, segments.last_seq
    return read_batches(store, chain, *seqs, [segments], places=places)


def _decoded(partition: int, batch: memoryview, start: int, end: int) -> Iterator[StoredRecordLine]:
    """Records of `batch` with offsets [start, end)."""
    header = read_header(batch, 0, len(batch))
    for record in decode_records(batch, max_bytes=DECOMPRESSED_BYTES_MAX):
        offset = header.base_offset + record.offset_delta
        if start <= offset < end:
            yield StoredRecordLine(
                partition,
                offset,
                record.timestamp,
                None if record.key is None else bytes(record.key),
                None if record.value is None else bytes(record.value),
                [(n, None if v is None else bytes(v)) for n, v in record.headers],
                header.is_control,
            )
