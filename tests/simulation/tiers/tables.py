"""What the tables of a simulated log hold, read from its objects alone."""

import random
from dataclasses import dataclass, field

from logstore.errors import LogstoreError
from logstore.history.delta import Tables
from logstore.history.forms.columns import TABLE_COLUMNS
from logstore.history.forms.names import TABLES
from logstore.history.forms.snapshot import Snapshot
from logstore.history.read import read_rows
from logstore.objects.memory import MemoryObjects
from logstore.ports.objects import BlockingObjectStore
from logstore.runners.retrying import RetryingStore
from logstore.testing.history import Partition, StoredRecord

URL = "/simulated"
"""Of every simulated log."""


def open_tables(store: BlockingObjectStore) -> Tables:
    return Tables(URL, {}, store=RetryingStore(store, random.Random(0)))


@dataclass(slots=True)
class TableContents:
    """By partition: every row below log start too, and where the table ends."""

    records: dict[Partition, list[StoredRecord]] = field(default_factory=dict)
    ends: dict[Partition, int] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)


def read_tables(objects: MemoryObjects) -> TableContents:
    """Of all tables that there are."""
    found = TableContents()
    topic_ids = {bytes.fromhex(info.key.split("/")[1]) for info in objects.list(f"{TABLES}/")}
    tables = Tables("/simulated", {}, store=RetryingStore(objects))
    for topic_id in sorted(topic_ids):
        try:
            snapshot = tables.snapshot(topic_id)
            if snapshot is not None:
                _read(found, objects, snapshot)
        except LogstoreError as error:
            found.violations.append(f"a table cannot be read: {topic_id.hex()[:8]} {error!r}")
    return found


def _read(found: TableContents, objects: MemoryObjects, snapshot: Snapshot) -> None:
    for number, end in snapshot.ends.items():
        partition = Partition(snapshot.topic_id, number)
        files = snapshot.files_for(number, 0, end)
        records: list[StoredRecord] = []
        for rows in read_rows(objects, snapshot.topic_id, files, number, 0, end, TABLE_COLUMNS):
            for row in rows.to_pylist():
                records.append(
                    StoredRecord(row["offset"], row["value"], row["leader_epoch"], -1, -1, -1)
                )
                if row["raw_batch"] is not None:
                    found.violations.append(f"a batch was not decoded: offset={row['offset']}")
        offsets = [record.offset for record in records]
        if offsets != sorted(set(offsets)):
            found.violations.append(f"offsets twice in a table: partition={number}")
        found.records[partition] = records
        found.ends[partition] = end
