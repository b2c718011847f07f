"""Whatever the files of a table look like, its rows come in order and once."""

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from logstore.errors import Corrupt, Invalid, NotFound
from logstore.history import parquet_file, read
from logstore.history.forms import names
from logstore.history.forms.columns import TABLE_COLUMNS
from logstore.history.forms.snapshot import OFFSET_MAX, DataFile
from logstore.history.parquet_file import SMALL_BYTES
from logstore.history.read import read_rows
from logstore.objects.directory import DirectoryStore
from logstore.objects.metered import MeteredBlockingStore, StoreCounts
from logstore.records.encode import encode_batch, records_of
from tests.logstore.history.tables import TOPIC_ID, row, rows_of, some_rows, written


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    return DirectoryStore(tmp_path)


def offsets_of(batches: Iterator[pa.RecordBatch]) -> list[int]:
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


def reading(
    store: Any,
    files: Sequence[DataFile],
    start: int,
    end: int,
    columns: Sequence[str] = TABLE_COLUMNS,
    **options: Any,
) -> Iterator[pa.RecordBatch]:
    return read_rows(store, TOPIC_ID, files, 0, start, end, columns, **options)


def foreign(
    store: DirectoryStore,
    rows: pa.RecordBatch,
    name: str,
    *,
    statistics: bool = True,
    group_rows: int = 1000,
    bounds: tuple[int, int] | None = None,
) -> DataFile:
    """A file as other engines write it: any order, perhaps no statistics."""
    sink = io.BytesIO()
    table = pa.Table.from_batches([rows])
    pq.write_table(table, sink, write_statistics=statistics, row_group_size=group_rows)
    path = f"partition=0/{name}.parquet"
    store.create(f"{names.table_key(TOPIC_ID)}/{path}", [sink.getvalue()])
    offsets = rows.column("offset").to_pylist()
    low, high = bounds or ((min(offsets), max(offsets)) if statistics else (0, OFFSET_MAX))
    return DataFile(path, 0, rows.num_rows, len(sink.getvalue()), low, high)


def test_what_was_written_is_read(store: DirectoryStore) -> None:
    rows = some_rows(10, 500)
    files = written(store, rows)
    (found,) = reading(store, files, 0, 1000)

    assert found.equals(rows)
    assert (files[0].rows, files[0].min_offset, files[0].max_offset) == (490, 10, 499)


def test_many_files_and_row_groups_read_as_one(store: DirectoryStore) -> None:
    rows = some_rows(0, 5000)
    files = written(store, rows, row_group_bytes=20_000, file_bytes_max=10_000)

    assert len(files) > 3
    found = list(reading(store, files, 0, 5000))
    assert pa.Table.from_batches(found).combine_chunks().to_batches() == [rows]
    for start, end in ((0, 1), (999, 1003), (17, 4711), (4999, 9000), (5000, 9000), (5, 5)):
        assert offsets_of(reading(store, files, start, end)) == list(range(start, min(end, 5000)))


def test_only_wanted_row_groups_and_columns_are_fetched(tmp_path: Path) -> None:
    rng = Random(1)
    rows = rows_of([row(offset, value=rng.randbytes(100_000)) for offset in range(200)])
    counts = StoreCounts()
    store = MeteredBlockingStore(DirectoryStore(tmp_path), counts)
    (file,) = written(store, rows, row_group_bytes=2_000_000)
    assert file.size_bytes > 2 * SMALL_BYTES

    before = bytes_read(counts)
    assert offsets_of(reading(store, [file], 100, 101)) == [100]
    assert bytes_read(counts) - before < 3_000_000
    before = bytes_read(counts)
    found = list(reading(store, [file], 0, 200, ["timestamp_ms"]))
    assert [batch.schema.names for batch in found] == [["timestamp_ms"]] * len(found)
    assert sum(batch.num_rows for batch in found) == 200
    assert bytes_read(counts) - before < 500_000


def bytes_read(counts: StoreCounts) -> int:
    found = counts.snapshot()
    return found["get"].bytes + found["get_range"].bytes


@pytest.mark.parametrize("columns", [["value"], ["headers", "offset"], ["timestampType", "key"]])
def test_columns_come_as_they_are_asked_for(store: DirectoryStore, columns: list[str]) -> None:
    rows = some_rows(0, 100, headers=[{"key": "a", "value": b"1"}, {"key": "a", "value": None}])
    found = list(reading(store, written(store, rows), 20, 30, columns))

    assert found == [rows.slice(20, 10).select(columns)]


def test_batches_stay_within_their_limits(store: DirectoryStore) -> None:
    files = written(store, some_rows(0, 1000))
    by_rows = list(reading(store, files, 0, 1000, rows_max=64))
    assert max(batch.num_rows for batch in by_rows) == 64
    by_bytes = list(reading(store, files, 0, 1000, bytes_max=5_000))
    assert max(batch.nbytes for batch in by_bytes) <= 5_000
    assert offsets_of(iter(by_rows)) == offsets_of(iter(by_bytes)) == list(range(1000))


def test_a_row_above_the_limit_comes_alone(store: DirectoryStore) -> None:
    rows = rows_of([row(0), row(1, value=bytes(20_000_000)), row(2)])
    found = list(reading(store, written(store, rows), 0, 3))
    assert [batch.num_rows for batch in found] == [1, 1, 1]
    assert found[1].column("value")[0].as_py() == bytes(20_000_000)


@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.parametrize("shuffle", range(5))
def test_files_in_any_order_that_overlap_give_every_offset_once(
    store: DirectoryStore, statistics: bool, shuffle: int
) -> None:
    rng = Random(shuffle)
    offsets = sorted(rng.sample(range(10_000), 3000))
    shuffled = rng.sample(offsets, len(offsets))
    files = []
    for number, first in enumerate(range(0, 3000, 600)):
        rows = rows_of([row(offset) for offset in shuffled[first : first + 600]])
        files.append(
            foreign(
                store, rows, f"z-{number}", statistics=statistics, group_rows=rng.choice([50, 700])
            )
        )
    start, end = sorted(rng.sample(range(10_000), 2))
    found = list(reading(store, files, start, end))

    assert offsets_of(iter(found)) == [one for one in offsets if start <= one < end]
    for batch in found:
        for one in batch.to_pylist():
            assert one["key"] == f"key-{one['offset']}".encode()


def test_files_of_engines_with_other_ways_are_read(store: DirectoryStore) -> None:
    """Spark's timestamps of 96 bits; a column that the file lacks, and one that it has besides."""
    rows = some_rows(0, 5).set_column(
        1, "timestamp", pa.array([0, -(10**16), 10**16, None, 1], pa.timestamp("us", "UTC"))
    )
    table = pa.Table.from_batches([rows]).drop_columns(["raw_batch", "key"])
    table = table.append_column("note", pa.array(["x"] * 5))
    sink = io.BytesIO()
    pq.write_table(table, sink, use_deprecated_int96_timestamps=True)
    path = "partition=0/part-0.parquet"
    store.create(f"{names.table_key(TOPIC_ID)}/{path}", [sink.getvalue()])
    file = DataFile(path, 0, 5, len(sink.getvalue()), 0, 4)
    (found,) = reading(store, [file], 0, 5)

    at = rows.schema.get_field_index("key")
    assert found == rows.set_column(at, "key", pa.nulls(5, pa.binary()))


def test_what_overlaps_is_read_a_window_at_a_time(
    store: DirectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [
        foreign(store, rows_of([row(one) for one in range(rest, 4000, 4)]), f"w-{rest}")
        for rest in range(4)
    ]
    monkeypatch.setattr(read, "_TOGETHER_BYTES", 20_000)
    found = list(reading(store, files, 0, 4000))

    assert len(found) > 5
    assert offsets_of(iter(found)) == list(range(4000))


@pytest.mark.parametrize("order", ["rising", "halves swapped", "none"])
@pytest.mark.parametrize("statistics", [False, True])
def test_a_large_row_group_comes_in_parts(
    store: DirectoryStore, monkeypatch: pytest.MonkeyPatch, order: str, statistics: bool
) -> None:
    """As an OPTIMIZE by the table's owner leaves it, or a Z-order."""
    monkeypatch.setattr(parquet_file, "PART_ROWS", 100)
    monkeypatch.setattr(read, "_TOGETHER_ROWS", 500)
    rows = [row(offset) for offset in range(0, 6000, 3)]
    if order == "halves swapped":
        rows = [*rows[1000:], *rows[:1000]]
    elif order == "none":
        Random(1).shuffle(rows)
    file = foreign(store, rows_of(rows), "large", statistics=statistics, group_rows=10_000)

    found = list(reading(store, [file], 30, 5000))

    assert len(found) > 3
    wanted = rows_of([row(offset) for offset in range(30, 5000, 3)])
    assert pa.Table.from_batches(found).to_pylist() == wanted.to_pylist()


def test_a_large_row_group_that_overlaps_others_comes_in_parts(
    store: DirectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_file, "PART_ROWS", 100)
    files = [
        foreign(store, rows_of([row(one) for one in range(rest, 4000, 4)]), f"o-{rest}")
        for rest in range(4)
    ]

    assert offsets_of(reading(store, files, 0, 4000)) == list(range(4000))


def test_a_row_that_is_there_twice_comes_once(store: DirectoryStore) -> None:
    files = [foreign(store, some_rows(0, 100), "a"), foreign(store, some_rows(50, 150), "b")]
    assert offsets_of(reading(store, files, 0, 200)) == list(range(150))


def test_files_of_other_partitions_are_left_out(store: DirectoryStore) -> None:
    files = [*written(store, some_rows(0, 10)), *written(store, some_rows(0, 10), partition=1)]
    assert offsets_of(reading(store, files, 0, 10)) == list(range(10))


def test_a_file_that_was_deleted_is_named(store: DirectoryStore) -> None:
    (file,) = written(store, some_rows(0, 10))
    store.delete(f"{names.table_key(TOPIC_ID)}/{file.path}")
    with pytest.raises(NotFound, match=file.path):
        list(reading(store, [file], 0, 10))


def test_what_is_not_parquet_is_corrupt(store: DirectoryStore) -> None:
    for name, data in (("short", b"PAR1"), ("other", bytes(2000)), ("large", bytes(5 << 20))):
        path = f"partition=0/{name}.parquet"
        store.create(f"{names.table_key(TOPIC_ID)}/{path}", [data])
        with pytest.raises(Corrupt, match=name):
            list(reading(store, [DataFile(path, 0, 1, len(data), 0, 9)], 0, 10))


@pytest.mark.parametrize(
    "damaged",
    [
        pa.table({"other": pa.array([1, 2])}),
        pa.table({"offset": pa.array([1, None], pa.int64())}),
        pa.table({"offset": pa.array(["1", "2"])}),
        pa.table({"offset": pa.array([1, 2]), "value": pa.array([1.5, 2.5])}),
    ],
    ids=["none", "null", "text", "a value of another type"],
)
def test_rows_that_are_not_ours_are_corrupt(store: DirectoryStore, damaged: pa.Table) -> None:
    out = pa.BufferOutputStream()
    pq.write_table(damaged, out)
    data = out.getvalue().to_pybytes()
    store.create(f"{names.table_key(TOPIC_ID)}/partition=0/damaged.parquet", [data])

    with pytest.raises(Corrupt):
        file = DataFile("partition=0/damaged.parquet", 0, 2, len(data), 1, 2)
        list(reading(store, [file], 0, 10, ["offset", "value"]))


def test_what_cannot_be_asked_for_is_invalid(store: DirectoryStore) -> None:
    with pytest.raises(Invalid):
        list(reading(store, [], 0, 1, ["topic"]))
    with pytest.raises(Invalid):
        list(reading(store, [], 0, 1, rows_max=0))
    with pytest.raises(Invalid, match="raw_batch"):
        list(reading(store, [], 0, 1, ["offset"], whole_batches=True))


def test_a_batch_that_could_not_be_decoded_is_found_by_any_of_its_offsets(
    store: DirectoryStore,
) -> None:
    raw = encode_batch(records_of([(b"k", b"v")] * 10, timestamp=5), base_offset=50)
    nothing = dict.fromkeys(TABLE_COLUMNS) | {"offset": 50, "raw_batch": raw}
    plain = [row(one) for one in range(70)]
    rows = rows_of([*plain[:50], nothing, *plain[60:]])
    for files in (
        written(store, rows),
        [*written(store, rows.slice(0, 51), number=1), *written(store, rows.slice(51), number=2)],
    ):
        for start in (50, 51, 59):
            found = offsets_of(reading(store, files, start, 70, whole_batches=True))
            assert found == [50, *range(60, 70)]
        assert offsets_of(reading(store, files, 55, 70)) == list(range(60, 70))
        assert offsets_of(reading(store, files, 60, 70, whole_batches=True)) == list(range(60, 70))
        assert offsets_of(reading(store, files, 49, 60, whole_batches=True)) == [49, 50]
