"""Moves records of a log on disk to topics' tables, and takes away what they came from: for tests.

What compaction does, in the smallest steps: a file of rows, a commit, a table pointer, trimming.
Between any two a reader may look.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from logstore.formats.chain_row import CHAIN, NO_SEAL, ChainRow, chain_sk
from logstore.formats.keys import checkpoint_key, segment_key
from logstore.formats.partition_row import PartitionRow, partition_pk, partition_sk
from logstore.formats.table_row import TABLE, TableRow
from logstore.formats.topic_partition import TopicPartition
from logstore.history.delta import Tables
from logstore.history.forms.columns import TABLE_COLUMNS
from logstore.history.forms.names import table_key
from logstore.history.forms.snapshot import DataFile, Snapshot, TableCommit
from logstore.history.read import read_rows
from logstore.history.write import TableWriter
from logstore.ports.registry import BlockingRowStore
from logstore.reading.direct.reader import LogReader, PartitionView
from logstore.reading.direct.segment_fetch import read_batches
from logstore.records.arrow import decode_to_arrow
from logstore.stores.backends import Backends
from logstore.stores.location import parse_location
from logstore.wiring.open import ReadableLog, identity_in, open_objects, open_readable

FILE_BYTES_MAX = 16 * 1024
ROW_GROUP_BYTES = 4 * 1024


class Mover:
    """Of one topic. Every call sees the log as it is then."""

    def __init__(
        self,
        directory: Path | str,
        topic_id: bytes,
        topic: str = "orders",
        storage: Mapping[str, str] | None = None,
    ) -> None:
        """A bucket's URL will do as well, with `storage` settings, but for trimming."""
        self.url = str(directory)
        self.topic_id = topic_id
        self.topic = topic
        self.storage = storage or {}
        self.tables = Tables(self.url, self.storage)
        self._runs = 0

    def move(self, ends: Mapping[int, int] | None = None) -> Snapshot:
        """One run: everything committed, or up to `ends` by partition; then the table pointer."""
        snapshot = self.commit(ends)
        self.tell(snapshot)
        return snapshot

    def commit(self, ends: Mapping[int, int] | None = None) -> Snapshot:
        snapshot = self.tables.create(self.topic_id, self.topic)
        self._runs += 1
        log = open_readable(self.url, self.storage)
        try:
            reader = LogReader(log)
            starts: dict[int, int] = {}
            reached: dict[int, int] = {}
            adds: list[DataFile] = []
            for key, view in self._views(reader).items():
                end = view.end if ends is None else ends.get(key.partition, 0)
                start = snapshot.end(key.partition)
                start = view.log_start if start is None else start
                if start < end:
                    starts[key.partition], reached[key.partition] = start, end
                    kept = max(start, view.log_start)
                    adds += self._write(log, reader, key, view, kept, end)
        finally:
            log.close()
        if not starts:
            return snapshot
        run = f"run{self._runs}"
        return self.tables.commit(snapshot, TableCommit(starts, reached, adds, (), run))

    def tell(self, snapshot: Snapshot) -> None:
        """The table pointer."""
        row = TableRow(version=snapshot.version, ends=snapshot.ends, topic=self.topic)
        place = (TABLE, self.topic_id.hex())
        with self._rows() as rows:
            write = rows.put_if if rows.get(*place) is None else rows.update_if
            write(*place, row.row(), [], f"copy {snapshot.version}")

    def merge(self, partition: int) -> None:
        """The owner's OPTIMIZE and VACUUM: one file of all those of a partition, which go."""
        snapshot = self.tables.snapshot(self.topic_id)
        assert snapshot is not None
        old = list(snapshot.files.get(partition, ()))
        if not old:
            return
        store = open_objects(self.url, self.storage)
        self._runs += 1
        run = f"merge{self._runs}"
        writer = TableWriter(store, self.topic_id, partition, run, 99)
        end = snapshot.ends[partition]
        for rows in read_rows(store, self.topic_id, old, partition, 0, end, TABLE_COLUMNS):
            writer.write(rows)
        self.tables.commit(snapshot, TableCommit({}, {}, writer.close(), old, run))
        for file in old:
            (Path(self.url) / table_key(self.topic_id) / file.path).unlink()

    def trim(self) -> int:
        """Deletes segments that the table holds all of, without a grace; says how many. With them
        go checkpoints below the trim point.

        Of a log in which this topic is the only one. Lets go of epoch ranges in partitions' rows.
        """
        snapshot = self.tables.snapshot(self.topic_id)
        assert snapshot is not None
        first_needed: dict[int, int] = {}
        log = open_readable(self.url, self.storage)
        try:
            reader = LogReader(log)
            views = self._views(reader)
            for key, view in views.items():
                end = max(snapshot.end(key.partition) or 0, view.log_start)
                for segments in (
                    reader.segment_ranges(key, view.row, end, view.end) if end < view.end else ()
                ):
                    seqs = (
                        segments.first_seq,
                        first_needed.get(segments.chain, segments.first_seq),
                    )
                    first_needed[segments.chain] = min(seqs)
        finally:
            log.close()
        chains = {ref.chain for view in views.values() for ref in view.row.epoch_ranges}
        with self._rows() as rows:
            for key, view in views.items():
                self._let_go(rows, key, view.row, snapshot.end(key.partition) or 0)
            return sum(self._trim_chain(rows, chain, first_needed.get(chain)) for chain in chains)

    def _trim_chain(self, rows: BlockingRowStore, chain: int, first_needed: int | None) -> int:
        """Up to the last checkpoint at most; opening and seal stay, as they do for ever."""
        found = rows.get(CHAIN, chain_sk(chain))
        assert found is not None
        row = ChainRow.of(found)
        limits = (row.checkpoint, row.seal, first_needed)
        trim = min(limit for limit in limits if limit is not None and limit != NO_SEAL)
        if trim <= max(row.trim, 1):
            return 0
        rows.update_if(
            CHAIN, chain_sk(chain), {"trim": trim, "deleted": trim}, [], f"trim {chain} {trim}"
        )
        for seq in range(max(row.deleted, 1), trim):
            (Path(self.url) / segment_key(chain, seq)).unlink()
        for checkpoint in (Path(self.url) / checkpoint_key(chain, 0)).parent.iterdir():
            if int(checkpoint.name) < trim:
                checkpoint.unlink()
        return trim - max(row.deleted, 1)

    def _let_go(
        self, rows: BlockingRowStore, key: TopicPartition, row: PartitionRow, end: int
    ) -> None:
        """Of epoch ranges that end where the table goes on, but never of the newest."""
        below = [n for n in range(len(row.epoch_ranges)) if (row.end_of(n) or end + 1) <= end]
        if below:
            left = replace(row, epoch_ranges=row.epoch_ranges[len(below) :]).row()["stretches"]
            place = partition_pk(*key), partition_sk(*key)
            rows.update_if(*place, {"stretches": left}, [], f"let go {key.partition} {end}")

    @contextmanager
    def _rows(self) -> Iterator[BlockingRowStore]:
        backends = Backends(parse_location(self.url), self.storage)
        identity = identity_in(backends.blocking_store())
        assert identity is not None
        rows = backends.rows(identity.registry, "create").blocking()
        try:
            yield rows
        finally:
            rows.close()

    def _views(self, reader: LogReader) -> dict[TopicPartition, PartitionView]:
        topics = {name: row for name, row in reader.topics().items() if name == self.topic}
        return reader.partitions(topics)

    def _write(
        self,
        log: ReadableLog,
        reader: LogReader,
        key: TopicPartition,
        view: PartitionView,
        start: int,
        end: int,
    ) -> Sequence[DataFile]:
        store = log.runner.store
        writer = TableWriter(
            store,
            key.topic_id,
            key.partition,
            f"run{self._runs}",
            key.partition,
            file_bytes_max=FILE_BYTES_MAX,
            row_group_bytes=ROW_GROUP_BYTES,
        )
        for segments in reader.segment_ranges(key, view.row, start, end):
            found = read_batches(
                store, segments.chain, segments.first_seq, segments.last_seq, [segments]
            )
            for rows in decoded(
                (one.data for one in found), segments.offsets.start, segments.offsets.end
            ):
                writer.write(rows)
        return writer.close()


def decoded(batches: Iterator[memoryview], start: int, end: int) -> Iterator[pa.RecordBatch]:
    return decode_to_arrow(
        batches,
        start=start,
        end=end,
        columns=TABLE_COLUMNS,
        rows_max=1000,
        bytes_max=1 << 20,
        payload_bytes_max=1 << 28,
    )
