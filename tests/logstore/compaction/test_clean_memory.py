"""What a task of key compaction holds does not grow with the files that it reads.

Held bytes are those that Arrow has allocated: rows of a part, of buckets, of dead offsets. They are
counted by Arrow's own pool, so the figures are the same on any machine.
"""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.compaction import clean_task
from logstore.compaction.clean_task import run_clean_task
from logstore.compaction.dead_offsets import DeadOffsets
from logstore.compaction.decisions.clean_objects import COMPACTION, Piece, PieceWriter, offsets_of
from logstore.compaction.decisions.clean_plan import CleanFound, CleanPlace, RewriteTask, ScanTask
from logstore.compaction.decisions.clean_rules import Unit, units_of
from logstore.history import parquet_file, write
from logstore.history.forms import names
from logstore.history.forms.columns import file_schema
from logstore.history.forms.snapshot import DataFile
from logstore.history.write import TableWriter
from logstore.objects.directory import DirectoryStore
from tests.logstore.history.tables import NOW_MS, TOPIC_ID

pytestmark = pytest.mark.slow

PLACE: CleanPlace = {
    "run": "run",
    "number": 1,
    "topic_id": TOPIC_ID,
    "topic": "state",
    "partition": 0,
    "within_bytes": 0,
}
MiB = 1 << 20
GROUP_ROWS = 5_000
ROWS_MAX = 20_000
FEW, MANY = 100_000, 400_000
SLACK = 1.3
"""Of four times the rows: several times less than four."""


@contextmanager
def counted() -> Iterator[pa.MemoryPool]:
    before = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(before)
    pa.set_memory_pool(pool)
    try:
        yield pool
    finally:
        pa.set_memory_pool(before)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write, "ROW_GROUP_ROWS", GROUP_ROWS)
    monkeypatch.setattr(parquet_file, "PART_ROWS", GROUP_ROWS)
    monkeypatch.setattr(clean_task, "OBJECT_BYTES", 100_000)


def rows_of(start: int, end: int, keys: int) -> pa.RecordBatch:
    """Tiny ones; a key comes again after `keys` rows."""
    count = end - start
    columns = {
        "offset": range(start, end),
        "timestamp": [NOW_MS * 1000] * count,
        "timestamp_ms": [NOW_MS] * count,
        "timestampType": [0] * count,
        "key": [b"%d" % (offset % keys) for offset in range(start, end)],
        "value": [b""] * count,
        "headers": [[]] * count,
        "leader_epoch": [1] * count,
        "raw_batch": [None] * count,
    }
    schema = file_schema()
    return pa.record_batch([pa.array(columns[one.name], one.type) for one in schema], schema=schema)


def of_ours(store: DirectoryStore, rows: int, keys: int) -> Sequence[DataFile]:
    writer = TableWriter(store, TOPIC_ID, 0, "fill", rows, counts_null_values=True)
    for start in range(0, rows, 50_000):
        writer.write(rows_of(start, start + 50_000, keys))
    return writer.close()


def of_its_owner(store: DirectoryStore, rows: int, keys: int) -> Sequence[DataFile]:
    """One row group, as an OPTIMIZE leaves it."""
    sink = io.BytesIO()
    parts = [rows_of(start, start + 50_000, keys) for start in range(0, rows, 50_000)]
    pq.write_table(pa.Table.from_batches(parts), sink, row_group_size=rows)
    path = f"partition=0/{rows}.parquet"
    store.create(f"{names.table_key(TOPIC_ID)}/{path}", [sink.getvalue()])
    return [DataFile(path, 0, rows, len(sink.getvalue()), 0, rows - 1)]


def scanned(store: DirectoryStore, unit: Unit) -> tuple[CleanFound, int]:
    """What a scan in buckets found, and the bytes that Arrow held at most."""
    task = ScanTask(
        **PLACE,
        units=[unit],
        bucket_count=4,
        horizon=0,
        rows_max=ROWS_MAX,
        at_once_bytes=0,
        dead_ratio_min=0,
    )
    with counted() as pool:
        result = run_clean_task(store, task, str(unit.rows))
        assert result.found is not None
        return result.found, pool.max_memory()


@pytest.mark.parametrize("filled", [of_ours, of_its_owner])
@pytest.mark.parametrize("keys", [MANY, 1000], ids=["all differ", "few keys"])
def test_a_scan_holds_no_more_of_a_larger_file(tmp_path: Path, filled: type, keys: int) -> None:
    store, held = DirectoryStore(tmp_path), {}
    for rows in (FEW, MANY):
        (unit,) = units_of(filled(store, rows, keys))
        found, held[rows] = scanned(store, unit)

        assert found.units[0].rows == rows
        left = sum(piece.length for pieces in found.buckets.values() for piece in pieces)
        assert left > 0
    assert held[MANY] < SLACK * held[FEW], held


@pytest.mark.parametrize("filled", [of_ours, of_its_owner])
def test_a_rewrite_holds_no_more_of_a_larger_file(tmp_path: Path, filled: type) -> None:
    store, held = DirectoryStore(tmp_path), {}
    for rows in (FEW, MANY):
        (unit,) = units_of(filled(store, rows, ROWS_MAX // 20))
        found = scanned(store, unit)[0].units[0]
        task = RewriteTask(**PLACE, units=[unit], rows=rows, dead=found.dead_pieces, tombstones=[])
        with counted() as pool:
            result = run_clean_task(store, task, f"of {rows}")
            held[rows] = pool.max_memory()

        assert result.found is not None
        assert result.found.dropped == found.superseded > 0.9 * rows
        assert result.rows == rows - found.superseded
    assert held[MANY] < SLACK * held[FEW], held


def test_what_a_scan_leaves_is_stored_in_objects_of_bounded_size(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    (unit,) = units_of(of_ours(store, FEW, MANY))

    found, _ = scanned(store, unit)

    sizes = {info.key: info.size_bytes for info in store.list(COMPACTION)}
    assert len(sizes) > 3
    assert max(sizes.values()) < 3 * 100_000
    pieces = [piece for pieces in found.buckets.values() for piece in pieces]
    assert sum(piece.length for piece in pieces) == sum(sizes.values())
    assert all(piece.start + piece.length <= sizes[piece.key] for piece in pieces)


def test_a_small_file_that_inflates_is_not_read_at_once(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    writer = TableWriter(store, TOPIC_ID, 0, "fill", 1)
    at = rows_of(0, 1, 1).schema.get_field_index("value")
    value = pa.array([bytes(MiB)], pa.binary())
    for offset in range(100):
        rows = rows_of(offset, offset + 1, 1)
        writer.write(rows.set_column(at, rows.schema.field(at), value))
    (unit,) = units_of(writer.close())
    assert unit.size_bytes < MiB
    task = ScanTask(
        **PLACE,
        units=[unit],
        bucket_count=0,
        horizon=0,
        rows_max=ROWS_MAX,
        at_once_bytes=10 * MiB,
        dead_ratio_min=0,
    )

    with counted() as pool:
        result = run_clean_task(store, task, "0")
        held = pool.max_memory()

    assert result.found is not None
    assert result.found.units[0].superseded == 99
    assert result.found.rewritten is None
    assert held < 50 * MiB


@given(
    st.lists(st.lists(st.integers(0, 300), unique=True).map(sorted), max_size=5),
    st.lists(st.integers(0, 300)).map(sorted),
)
def test_dead_offsets_come_once_and_in_their_turn(
    series: list[list[int]], asked: list[int]
) -> None:
    writer = PieceWriter("key")
    pieces = [writer.add(pa.table({"offset": pa.array(one, pa.int64())})) for one in series]
    dead = DeadOffsets(partial(_read, writer, piece) for piece in pieces)
    left = [offset for one in series for offset in one]

    for last in asked:
        found = [offset for some in dead.up_to(last) for offset in some.to_pylist()]

        assert sorted(found) == sorted(offset for offset in left if offset <= last)
        left = [offset for offset in left if offset > last]
    assert dead.all_count() == sum(map(len, series))


def _read(writer: PieceWriter, piece: Piece) -> Iterator[pa.Array]:
    data = b"".join(writer.parts)[piece.start : piece.start + piece.length]
    return offsets_of(piece, data)
