"""delta-spark reads our tables, rearranges them, and we go on reading and committing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from logstore.history.forms import names
from logstore.history.forms.snapshot import TableCommit
from logstore.history.read import read_rows
from tests.logstore.history.tables import (
    NOW_MS,
    TOPIC_ID,
    directory_store,
    directory_tables,
    row,
    rows_of,
    some_rows,
    written,
)
from tests.spark_source.delta_jars import delta_jars

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[3]
HEADERS = [{"key": "a", "value": b"1"}, {"key": "a", "value": None}]
FAR = [-(2**62), -62_135_596_800_001, -1]


def test_an_owner_with_delta_spark(tmp_path: Path) -> None:
    jars = delta_jars()
    if not jars:
        pytest.skip("Delta's jars need Maven, once")
    tables, store = directory_tables(tmp_path), directory_store(tmp_path)
    snapshot = tables.create(TOPIC_ID, "orders")
    odd = [
        row(i, timestamp_ms=time, timestamp=max(time * 1000, -(2**63)))
        for i, time in enumerate(FAR)
    ]
    for partition, rows in (
        (0, some_rows(0, 100, headers=HEADERS)),
        (0, some_rows(100, 300)),
        (1, rows_of([*odd, row(3, key=None, value=None), row(4, value=b"")])),
    ):
        files = written(store, rows, partition=partition, row_group_bytes=5_000)
        start, end = rows.column("offset")[0].as_py(), rows.column("offset")[-1].as_py() + 1
        commit = TableCommit({partition: start}, {partition: end}, files, (), f"run-{start}")
        snapshot = tables.commit(snapshot, commit)
    tables.checkpoint(TOPIC_ID)
    for version in range(3):  # what is read is the checkpoint
        (tmp_path / names.entry_key(TOPIC_ID, version)).unlink()

    reported = _reported(tmp_path / names.table_key(TOPIC_ID), [*map(str, jars)])
    assert reported["columns"] == [
        ["partition", "int"],
        ["offset", "bigint"],
        ["timestamp", "timestamp"],
        ["timestamp_ms", "bigint"],
        ["timestampType", "int"],
        ["key", "binary"],
        ["value", "binary"],
        ["headers", "array<struct<key:string,value:binary>>"],
        ["leader_epoch", "int"],
        ["raw_batch", "binary"],
    ]
    lengths = sum(3 * len(f"value-{one}") for one in range(300))
    first = [[0, 300, 299 * 150, lengths, 200], [1, 5, 10, 63, 0]]
    assert reported["sums"] == reported["sums after optimize"] == first
    assert reported["before 1970"] == FAR
    assert reported["pruned"] == 1
    assert reported["sums after all"] == [first[0], [1, 4, 7, 63, 0]]

    _check_streams(reported)
    after = tables.snapshot(TOPIC_ID, known=snapshot)
    assert after is not None and after == tables.snapshot(TOPIC_ID)
    assert after.ends == {0: 300, 1: 5}
    kept = {file.path for file in after.all_files()} & {file.path for file in snapshot.all_files()}
    assert not kept
    for partition, wanted in ((0, list(range(300))), (1, [0, 1, 2, 4])):
        files = after.files_for(partition, 0, 300)
        found = read_rows(store, TOPIC_ID, files, partition, 0, 300, ["offset", "timestamp_ms"])
        rows_found = [one for batch in found for one in batch.to_pylist()]
        assert [one["offset"] for one in rows_found] == wanted
        if partition == 0:
            assert rows_found[-1]["timestamp_ms"] == NOW_MS + 299
    files = written(store, some_rows(300, 310), number=1)
    again = tables.commit(after, TableCommit({0: 300}, {0: 310}, files, (), "run-300"))
    assert tables.snapshot(TOPIC_ID) == again


def _check_streams(reported: dict[str, object]) -> None:
    """Retention changes data: a stream must pass over it (docs/operations/history.md)."""
    assert reported["plain"] == list(range(10))
    assert "DELTA_SOURCE_IGNORE_DELETE" in str(reported["fault"])
    assert "ignoreDeletes" in str(reported["fault"])
    assert reported["ignoring"] == list(range(20))


def _reported(table: Path, jars: list[str]) -> dict[str, object]:
    answer = subprocess.run(
        [sys.executable, "-m", "tests.logstore.history.delta_spark", str(table), *jars],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        timeout=800,
        check=False,
        text=True,
    )
    assert answer.returncode == 0, answer.stderr[-3000:]
    reported: dict[str, object] = json.loads(answer.stdout.splitlines()[-1])
    return reported
