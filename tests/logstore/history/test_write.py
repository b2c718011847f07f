"""Data files: what is in them, what is said of them, and whose they are."""

import io
import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from logstore.errors import AlreadyExists, Invalid
from logstore.history import write
from logstore.history.forms import names
from logstore.history.forms.columns import TABLE_COLUMNS, file_schema
from logstore.history.forms.entries import statistics_of
from logstore.history.write import TableWriter
from logstore.objects.directory import DirectoryStore
from tests.logstore.history.tables import NOW_MS, TOPIC_ID, row, rows_of, some_rows, written


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    return DirectoryStore(tmp_path)


def opened(store: DirectoryStore, path: str) -> pq.ParquetFile:
    data = store.get(f"{names.table_key(TOPIC_ID)}/{path}")
    return pq.ParquetFile(io.BytesIO(data))


def test_a_file_is_named_and_summed_up(store: DirectoryStore) -> None:
    rows = rows_of([row(5, timestamp_ms=30), row(7, timestamp_ms=10), row(9, timestamp_ms=20)])
    (file,) = written(store, rows, partition=3, run="r-1", number=4)

    assert file.path == f"partition=3/{5:020d}-{10:020d}-r-1-4.parquet"
    assert (file.partition, file.rows, file.min_offset, file.max_offset) == (3, 3, 5, 9)
    assert (file.min_timestamp_ms, file.max_timestamp_ms) == (10, 30)
    assert file.size_bytes == len(store.get(f"{names.table_key(TOPIC_ID)}/{file.path}"))
    assert opened(store, file.path).read().schema.equals(file_schema())


def test_row_groups_and_files_stay_about_as_large_as_asked(store: DirectoryStore) -> None:
    files = written(store, some_rows(0, 20_000), row_group_bytes=100_000, file_bytes_max=30_000)

    assert len(files) > 2
    assert all(file.size_bytes < 45_000 for file in files)
    assert [file.min_offset for file in files[1:]] == [file.max_offset + 1 for file in files[:-1]]
    metadata = opened(store, files[0].path).metadata
    assert metadata.num_row_groups > 1
    for index in range(metadata.num_row_groups):
        found = metadata.row_group(index).column(0).statistics
        assert found.max - found.min + 1 == metadata.row_group(index).num_rows


def test_tiny_rows_are_not_too_many_in_a_row_group_or_a_file(
    store: DirectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write, "ROW_GROUP_ROWS", 100)
    monkeypatch.setattr(write, "FILE_ROWS_MAX", 350)

    files = written(store, some_rows(0, 1000))

    assert all(file.rows <= 350 for file in files)
    assert sum(file.rows for file in files) == 1000
    metadata = opened(store, files[0].path).metadata
    rows = [metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)]
    assert len(rows) > 1
    assert max(rows) <= 100


def test_statistics_leave_out_what_delta_cannot_spell(store: DirectoryStore) -> None:
    plain = json.loads(statistics_of(written(store, some_rows(0, 10))[0]))
    time = datetime.fromtimestamp((NOW_MS + 9) / 1000, UTC)
    assert plain["numRecords"] == 10
    assert plain["maxValues"] == {
        "offset": 9,
        "timestamp": f"{time:%Y-%m-%dT%H:%M:%S}.009Z",
        "timestamp_ms": NOW_MS + 9,
    }
    for number, time_ms in enumerate((-(2**60), 2**60), 1):
        rows = rows_of([row(0, timestamp_ms=time_ms, timestamp=0)])
        (file,) = written(store, rows, number=number)
        spelt = json.loads(statistics_of(file))
        assert spelt["minValues"] == {"offset": 0, "timestamp_ms": time_ms}
    early = rows_of([row(0, timestamp_ms=-62_135_596_800_000)])
    spelt = json.loads(statistics_of(written(store, early, number=9)[0]))
    assert spelt["minValues"]["timestamp"] == "0001-01-01T00:00:00.000Z"


def test_a_file_without_any_time_has_no_bounds_of_it(store: DirectoryStore) -> None:
    raw = dict.fromkeys(TABLE_COLUMNS) | {"offset": 3, "raw_batch": b"x"}
    (file,) = written(store, rows_of([raw]))
    assert (file.min_timestamp_ms, file.max_timestamp_ms) == (None, None)
    assert json.loads(statistics_of(file))["minValues"] == {"offset": 3}


def test_no_rows_are_no_file(store: DirectoryStore) -> None:
    assert written(store, some_rows(0, 0)) == []
    assert list(store.list("")) == []


def test_the_same_rows_again_are_no_fault_and_others_are(store: DirectoryStore) -> None:
    assert written(store, some_rows(0, 10)) == written(store, some_rows(0, 10))
    with pytest.raises(AlreadyExists, match="other rows"):
        written(store, some_rows(0, 10, value=b"other"))


def test_offsets_must_rise_and_columns_be_all_there(store: DirectoryStore) -> None:
    writer = TableWriter(store, TOPIC_ID, 0, "run", 0)
    writer.write(some_rows(5, 10))
    for rows in (some_rows(9, 12), rows_of([row(20), row(20)]), rows_of([row(21), row(20)])):
        with pytest.raises(Invalid, match="offsets do not rise"):
            writer.write(rows)
    with pytest.raises(Invalid, match="columns"):
        writer.write(pa.RecordBatch.from_pydict({"offset": [1]}))
