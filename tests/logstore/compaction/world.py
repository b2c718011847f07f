"""A log in a directory with what was written to it, compacted in this process: for tests."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from logstore.compaction.commit import CommitTables
from logstore.compaction.compactor import Compactor
from logstore.compaction.decisions.summary import Summary
from logstore.compaction.leased_rows import LeasedRows
from logstore.compaction.local import LocalCarrier
from logstore.compaction.session import RunOptions, Watch
from logstore.formats.compaction_row import COMPACTION, CompactionRow
from logstore.formats.table_row import TableRow
from logstore.history.delta import Tables
from logstore.history.forms.names import table_key
from logstore.history.forms.snapshot import Snapshot
from logstore.ports.clock import Clock
from logstore.reading.direct.reader import LogReader
from logstore.records.crc32c import crc32c
from logstore.records.encode import encode_batch
from logstore.records.record import Record
from logstore.wiring.open import open_readable
from tests.spark_source.log_on_disk import LogOnDisk

TIME_MS = 1_700_000_000_000
LEASE_S = 15.0
"""A run ends after half of it without a renewal: not because a machine does much else."""
NOW = RunOptions(now=True)

Row = tuple[int, bytes | None]
"""Offset and value."""


class World:
    """`written` are the values of each partition, by offset from 0 on."""

    def __init__(self, log: LogOnDisk, directory: Path) -> None:
        self.log = log
        self.directory = directory
        self.tables = Tables(str(directory))
        self.topic_ids: dict[str, bytes] = {}
        self.written: dict[tuple[str, int], list[bytes]] = {}

    def create(self, name: str, partitions: int, configs: Mapping[str, str] | None = None) -> bytes:
        self.topic_ids[name] = self.log.create_topic(name, partitions, configs)
        for partition in range(partitions):
            self.written[name, partition] = []
        return self.topic_ids[name]

    def write(self, topic: str, partition: int, count: int = 10, size: int = 10) -> None:
        """One batch."""
        mine = self.written[topic, partition]
        values = [b"%d" % (len(mine) + n) + b"." * size for n in range(count)]
        records = [Record(n, TIME_MS + n, b"key", value) for n, value in enumerate(values)]
        self.log.append(topic, partition, encode_batch(records, compression="lz4"))
        mine += values

    def fill(self, batches: int = 12) -> None:
        """A batch after the other to each partition in turn."""
        places = sorted(self.written)
        for number in range(batches):
            self.write(*places[number % len(places)])

    def compactor(self, tables: CommitTables | None = None, *, workers: int = 1) -> Compactor:
        url = str(self.directory)
        carrier = LocalCarrier(url, {}, workers)
        return Compactor(url, {}, carrier, lease_s=LEASE_S, tables=tables or self.tables)

    def compact(
        self,
        options: RunOptions = NOW,
        *,
        tables: CommitTables | None = None,
        watch: Watch = lambda step: None,
        wait_s: float = 0.0,
    ) -> Summary:
        compactor = self.compactor(tables)
        try:
            return compactor.run(options, wait_s, watch)
        finally:
            compactor.close()

    def snapshot(self, topic: str) -> Snapshot | None:
        return self.tables.snapshot(self.topic_ids[topic])

    def rows(self, topic: str, partition: int, columns: Sequence[str] = ("value",)) -> list[Any]:
        """(offset, …) of what the table holds, file by file in the order of its snapshot."""
        snapshot = self.snapshot(topic)
        found: list[Any] = []
        for file in () if snapshot is None else snapshot.files.get(partition, ()):
            path = self.directory / table_key(self.topic_ids[topic]) / file.path
            table = pq.ParquetFile(path).read(columns=["offset", *columns])
            found += zip(*(column.to_pylist() for column in table.columns), strict=True)
        return found

    def check(
        self, *, is_complete: bool = True, skip: Sequence[str] = (), is_ordered: bool = True
    ) -> None:
        """Each table holds what was written, once and in order, up to the end that it tells.

        OPTIMIZE of another engine puts rows in an order of its own.
        """
        for (topic, partition), values in self.written.items():
            if topic in skip:
                continue
            snapshot = self.snapshot(topic)
            end = 0 if snapshot is None else snapshot.end(partition) or 0
            assert end == len(values) if is_complete else end <= len(values)
            found = self.rows(topic, partition)
            assert (found if is_ordered else sorted(found)) == list(enumerate(values[:end]))
        self.check_commits(skip)
        self.check_table_pointers(skip)

    def check_table_pointers(self, skip: Sequence[str] = ()) -> None:
        """No table pointer says more than its table does."""
        rows = self.table_pointers()
        for topic, topic_id in self.topic_ids.items():
            if topic not in skip and topic_id in rows:
                snapshot, row = self.snapshot(topic), rows[topic_id]
                assert snapshot is not None
                assert row.version <= snapshot.version
                assert all(end <= (snapshot.end(p) or 0) for p, end in row.ends.items())

    def check_commits(self, skip: Sequence[str] = ()) -> None:
        """Every commit that moves names starts equal to the ends of the version before it."""
        for topic, topic_id in self.topic_ids.items():
            if topic in skip or self.snapshot(topic) is None:
                continue
            ends: dict[int, int] = {}
            for facts in self.tables.commits(topic_id, 0):
                for partition, start in (facts.starts or {}).items():
                    assert ends.get(partition, start) == start
                ends |= facts.ends or {}

    def leased_rows(self, owner: int = 1, *, clock: Clock | None = None) -> LeasedRows:
        """The registry, and the lease if it is asked for."""
        url = str(self.directory)
        return LeasedRows(url, {}, owner=owner, owner_epoch=1, lease_s=LEASE_S, clock=clock)

    def table_pointers(self) -> dict[bytes, TableRow]:
        log = open_readable(str(self.directory))
        try:
            return LogReader(log).table_rows()
        finally:
            log.close()

    def run_rows(self) -> list[CompactionRow]:
        log = open_readable(str(self.directory))
        try:
            return [CompactionRow.of(row) for _, row in log.rows.query(COMPACTION)]
        finally:
            log.close()


def undecodable_batch() -> bytes:
    """Two records whose lz4 payload is none, under a checksum that is right."""
    batch = bytearray(encode_batch([Record(n, TIME_MS, None, b"value" * 20) for n in range(2)]))
    batch[22] |= 3  # says lz4
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4)
    return bytes(batch)
