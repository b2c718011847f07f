"""Rows of a task: what tables hold, then segments, as Arrow batches of the columns asked for.

Batches of one partition are gathered until decoding them together pays, and small results are put
together, so that a segment of a thousand partitions does not become a thousand tiny Arrow batches.
Touches nothing but objects: Spark's executors run it as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import chain
from typing import TYPE_CHECKING

from logstore.errors import Corrupt, Invalid, Refused
from logstore.formats.segment_ranges import SegmentRange
from logstore.history.forms.columns import TABLE_COLUMNS as RECORD_COLUMNS
from logstore.ports.objects import BlockingObjectStore
from logstore.reading.direct.missing import Missing
from logstore.reading.direct.range_rows import table_rows
from logstore.reading.direct.segment_fetch import FoundBatch, batches_of
from logstore.reading.direct.seq_range_batches import seq_range_batches
from logstore.reading.direct.task_segments import TaskSegments, places_of
from logstore.reading.planning.table_ranges import TableRange
from logstore.reading.planning.tasks import ReadTask, SeqRange, Storage
from logstore.records.arrow import INFLATED_BYTES_MAX, arrow_schema, decode_to_arrow
from logstore.records.batch import CorruptBatch, Reason, read_header
from logstore.wiring.open import open_objects

if TYPE_CHECKING:
    import pyarrow as pa

MiB = 1024 * 1024
ROWS_MAX = 10_000
BYTES_MAX = 8 * MiB
GATHERED_BYTES_MAX = 32 * MiB
"""Stored bytes kept until they are decoded; bounds a task's memory, with a few segments more."""

RANGES_SHOWN = 5  # in one error
WHAT_TO_DO = "see what the log holds with: logstore inspect; begin above it to read the rest"

PLACE = ("topic", "partition")
DEFAULT_COLUMNS = ("key", "value", *PLACE, "offset", "timestamp", "timestampType")
"""Those of Spark's Kafka source."""

_OffsetSpan = tuple[bytes, int, int]
"""Topic id, partition, leader epoch."""


def read_rows(
    store: BlockingObjectStore,
    task: ReadTask,
    topics: Mapping[bytes, str],
    columns: Sequence[str],
    missing: Missing | None = None,
) -> Iterator[pa.RecordBatch]:
    """`topics` are names by id. Raises `Corrupt`, saying what is damaged and where.

    `missing` is asked when an object is gone; without it that is an error.
    """
    yield from _joined(_TaskRows(store, topics, columns, missing).of(task))


def rows_schema(columns: Sequence[str]) -> pa.Schema:
    """Schema of `read_rows`. Raises `Invalid` for a column that is unknown, or comes twice."""
    import pyarrow as pa

    places = {"topic": pa.string(), "partition": pa.int32()}
    repeated = [name for number, name in enumerate(columns) if name in columns[:number]]
    if repeated or not columns:
        raise Invalid(f"columns must be distinct, and at least one: asked={', '.join(columns)}")
    unknown = [name for name in columns if name not in (*PLACE, *RECORD_COLUMNS)]
    if unknown:
        known = ", ".join(dict.fromkeys((*DEFAULT_COLUMNS, *RECORD_COLUMNS)))
        raise Invalid(f"no such columns: {', '.join(unknown)}; choose among: {known}")
    return pa.schema(
        [
            (name, places[name] if name in places else arrow_schema([name]).field(0).type)
            for name in columns
        ]
    )


@lru_cache(maxsize=16)
def open_once(url: str, storage: Storage) -> BlockingObjectStore:
    """The log's objects. A worker runs many tasks: they share a client and its connections."""
    return open_objects(url, dict(storage))


class _TaskRows:
    def __init__(
        self,
        store: BlockingObjectStore,
        topics: Mapping[bytes, str],
        columns: Sequence[str],
        missing: Missing | None,
    ) -> None:
        self._store = store
        self._topics = topics
        self._columns = columns
        self._missing = missing

    def of(self, task: ReadTask) -> Iterator[pa.RecordBatch]:
        for part in task.history:
            yield from self._of_table(part)
        with TaskSegments(self._store, places_of(task.seq_ranges)) as segments:
            yield from self._of_segments(task.seq_ranges, segments)

    def _of_segments(
        self, seq_ranges: Sequence[SeqRange], segments: TaskSegments
    ) -> Iterator[pa.RecordBatch]:
        gathered: dict[_OffsetSpan, list[FoundBatch]] = {}
        gathered_bytes = 0
        read = partial(self._read, segments)
        resolve = None if self._missing is None else self._missing.segment
        found_in_order = chain.from_iterable(
            seq_range_batches(seq_range, read, resolve) for seq_range in seq_ranges
        )
        for part in found_in_order:
            if isinstance(part, TableRange):
                yield from _decode_all(gathered, self._topics, self._columns)
                gathered, gathered_bytes = {}, 0
                yield from self._of_table(part)
                continue
            wanted = part.segments
            epoch_range = (
                wanted.offsets.topic_id,
                wanted.offsets.number,
                wanted.leader_epoch,
            )
            gathered.setdefault(epoch_range, []).append(part)
            gathered_bytes += len(part.data)
            if gathered_bytes >= GATHERED_BYTES_MAX:
                yield from _decode_all(gathered, self._topics, self._columns)
                gathered, gathered_bytes = {}, 0
        yield from _decode_all(gathered, self._topics, self._columns)

    def _read(self, segments: TaskSegments, seq_range: SeqRange) -> Iterator[FoundBatch]:
        try:
            yield from batches_of(segments, seq_range)
        except Corrupt as fault:
            ranges = (
                _wanted(wanted, self._topics) for wanted in seq_range.segment_ranges[:RANGES_SHOWN]
            )
            raise Corrupt(
                f"{fault}; wanted from there: {'; '.join(ranges)}; {WHAT_TO_DO}"
            ) from fault

    def _of_table(self, part: TableRange) -> Iterator[pa.RecordBatch]:
        tables = table_rows(
            self._store,
            part,
            _stored(self._columns),
            None if self._missing is None else self._missing.file,
            rows_max=ROWS_MAX,
            bytes_max=BYTES_MAX,
        )
        topic = self._topics[part.offsets.topic_id]
        try:
            for rows in tables:
                yield _with_place(rows, topic, part.offsets.number, self._columns)
        except Corrupt as fault:
            raise Corrupt(f"{fault}; read from the table of topic={topic}; {WHAT_TO_DO}") from fault


def _decode_all(
    gathered: Mapping[_OffsetSpan, Sequence[FoundBatch]],
    topics: Mapping[bytes, str],
    columns: Sequence[str],
) -> Iterator[pa.RecordBatch]:
    for (topic_id, partition, _), batches in gathered.items():
        for rows in _decode(batches, columns, topics[topic_id]):
            yield _with_place(rows, topics[topic_id], partition, columns)


def _decode(
    batches: Sequence[FoundBatch], columns: Sequence[str], topic: str
) -> Iterator[pa.RecordBatch]:
    """Batches of one epoch range. Which one is damaged is looked for only once one is."""
    try:
        yield from _decode_together(batches, columns, topic)
    except CorruptBatch as error:
        for batch in batches:
            try:
                for _ in _decode_together([batch], columns, topic):
                    pass
            except CorruptBatch as fault:
                what = "batch is damaged"
                if fault.reason is Reason.TOO_LARGE:
                    what = f"batch inflates to more than {INFLATED_BYTES_MAX} bytes"
                raise Corrupt(
                    f"{what}: {_where(batch, topic)} cause={fault}; {WHAT_TO_DO}"
                ) from fault
        raise AssertionError("a batch is damaged, but none by itself") from error


def _decode_together(
    batches: Sequence[FoundBatch], columns: Sequence[str], topic: str
) -> Iterator[pa.RecordBatch]:
    segments = batches[0].segments
    yield from decode_to_arrow(
        (_without_transactions(batch, topic) for batch in batches),
        start=segments.offsets.start,
        end=segments.offsets.end,
        columns=_stored(columns),
        rows_max=ROWS_MAX,
        bytes_max=BYTES_MAX,
        payload_bytes_max=INFLATED_BYTES_MAX,
    )


def _stored(columns: Sequence[str]) -> list[str]:
    """Columns that a record has by itself; one at least, so that rows can be counted."""
    return [name for name in columns if name not in PLACE] or ["offset"]


def _without_transactions(batch: FoundBatch, topic: str) -> memoryview:
    """Whether a transaction was aborted is not known here yet; its records may be none."""
    header = read_header(batch.data, 0, len(batch.data))
    if header.is_transactional and not header.is_control:
        raise Refused(
            f"transactional batches need a newer version of logstore: {_where(batch, topic)}"
        )
    return batch.data


def _with_place(
    rows: pa.RecordBatch, topic: str, partition: int, columns: Sequence[str]
) -> pa.RecordBatch:
    import pyarrow as pa

    arrays = []
    for name in columns:
        match name:
            case "topic":
                arrays.append(pa.repeat(pa.scalar(topic, pa.string()), rows.num_rows))
            case "partition":
                arrays.append(pa.repeat(pa.scalar(partition, pa.int32()), rows.num_rows))
            case _:
                arrays.append(rows.column(name))
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _joined(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in as few batches as the limits allow, without copying large ones."""
    waiting: list[pa.RecordBatch] = []
    rows = size_bytes = 0
    for batch in batches:
        is_full = rows + batch.num_rows > ROWS_MAX or size_bytes + batch.nbytes > BYTES_MAX
        if waiting and is_full:
            yield _one_of(waiting)
            waiting, rows, size_bytes = [], 0, 0
        waiting.append(batch)
        rows += batch.num_rows
        size_bytes += batch.nbytes
    if waiting:
        yield _one_of(waiting)


def _one_of(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    import pyarrow as pa

    if len(batches) == 1:
        return batches[0]
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def _where(batch: FoundBatch, topic: str) -> str:
    segments = batch.segments
    return (
        f"chain={segments.chain} seq={batch.seq} topic={topic} "
        f"partition={segments.offsets.number} offset={batch.base_offset} to {batch.last_offset}"
    )


def _wanted(segments: SegmentRange, topics: Mapping[bytes, str]) -> str:
    return (
        f"topic={topics[segments.offsets.topic_id]} partition={segments.offsets.number} "
        f"offset={segments.offsets.start} to {segments.offsets.end - 1}"
    )
