"""Batches of a topic made from its table, for looking at what chains no longer hold."""

from collections.abc import Iterator

from logstore.formats.topic_partition import TopicPartition
from logstore.history.batches import BATCH_COLUMNS, batches_of
from logstore.history.forms.snapshot import Snapshot
from logstore.history.read import read_rows
from logstore.history.table_log import TableLog
from logstore.reading.direct.reader import LogReader
from logstore.runners.retrying import RetryingStore
from logstore.wiring.open import ReadableLog


def table_of(log: ReadableLog, reader: LogReader, topic_id: bytes) -> Snapshot | None:
    """The topic's table as it is now; None where nothing has moved yet."""
    if topic_id not in reader.table_rows():
        return None
    return TableLog(RetryingStore(log.runner.store), topic_id).snapshot(None)


def table_batches(
    log: ReadableLog, table: Snapshot, key: TopicPartition, start: int, end: int
) -> Iterator[bytes]:
    """Batches, one after the other, that hold offsets [start, end) and may hold more."""
    rows = read_rows(
        log.runner.store,
        table.topic_id,
        table.files_for(key.partition, start, end, whole_batches=True),
        key.partition,
        start,
        end,
        BATCH_COLUMNS,
        whole_batches=True,
    )
    yield from batches_of(rows, "none")
