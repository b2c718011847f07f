"""Whatever an owner does to a table by delta-rs, we see what delta-rs sees."""

import io
import subprocess
import sys
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from logstore.errors import Corrupt
from logstore.history.forms import names
from logstore.history.forms.snapshot import OFFSET_MAX, Snapshot, TableCommit
from logstore.history.read import read_rows
from tests.logstore.history.tables import (
    TOPIC_ID,
    directory_store,
    directory_tables,
    moved,
    some_rows,
    written,
)
from tests.logstore.history.test_delta import agrees


@pytest.mark.slow
@pytest.mark.seeds(6)
def test_an_owner_with_delta_rs(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    tables, store = directory_tables(tmp_path), directory_store(tmp_path)
    snapshot = tables.create(TOPIC_ID, "orders")
    known, deleted, end = snapshot, set[int](), 0
    for number in range(14):
        table = DeltaTable(tmp_path / names.table_key(TOPIC_ID))
        match rng.choice(["move", "move", "move", "optimize", "z-order", "delete", "checkpoint"]):
            case "move":
                files = written(store, some_rows(end, end + 20), number=number)
                commit = TableCommit({0: end}, {0: end + 20}, files, (), f"run-{number}")
                tables.commit(snapshot, commit)
                end += 20
            case "optimize":
                table.optimize.compact()
            case "z-order" if end:
                table.optimize.z_order(["key"])
            case "delete" if end:
                offset = rng.randrange(end)
                table.delete(f"offset = {offset}")
                deleted.add(offset)
            case "checkpoint":
                tables.checkpoint(TOPIC_ID)
            case _:
                pass  # nothing to rearrange yet
        found = tables.snapshot(TOPIC_ID)
        assert found is not None and agrees(tmp_path, found)
        assert tables.snapshot(TOPIC_ID, known=known) == found
        if rng.random() < 0.5:
            known = found
        snapshot = found
        files = found.files_for(0, 0, end)
        rows = read_rows(store, TOPIC_ID, files, 0, 0, end, ["offset"])
        offsets = [offset for batch in rows for offset in batch.column("offset").to_pylist()]
        assert offsets == [offset for offset in range(end) if offset not in deleted]


def checkpointed(root: Path) -> tuple[Snapshot, Path]:
    """A table with three files and a checkpoint, and where that is."""
    tables = directory_tables(root)
    snapshot = moved(tables, tables.create(TOPIC_ID, "orders"), (0, 0, 10), (1, 0, 5))
    snapshot = moved(tables, snapshot, (0, 10, 20))
    tables.checkpoint(TOPIC_ID)
    for entry in (root / names.log_prefix(TOPIC_ID)).glob("*.json"):
        entry.unlink()
    return snapshot, root / names.CheckpointName(2).keys(TOPIC_ID)[0]


def test_a_checkpoint_may_come_in_parts(tmp_path: Path) -> None:
    snapshot, path = checkpointed(tmp_path)
    rows = pq.read_table(path)
    path.unlink()
    for number, key in enumerate(names.CheckpointName(2, 3).keys(TOPIC_ID)):
        pq.write_table(rows.slice(number * 3, 3 if number < 2 else None), tmp_path / key)
    hint = tmp_path / names.last_checkpoint_key(TOPIC_ID)
    hint.write_text('{"version":2,"size":9,"parts":3}')
    assert directory_tables(tmp_path).snapshot(TOPIC_ID) == snapshot
    hint.unlink()
    assert directory_tables(tmp_path).snapshot(TOPIC_ID) == snapshot
    (tmp_path / names.CheckpointName(2, 3).keys(TOPIC_ID)[1]).unlink()
    with pytest.raises(Corrupt, match="no beginning"):
        directory_tables(tmp_path).snapshot(TOPIC_ID)


@pytest.mark.parametrize("stats", [None, "", "{}", '{"numRecords":\n3}', '{"minValues":{}}'])
def test_a_checkpoint_may_lack_statistics(tmp_path: Path, stats: str | None) -> None:
    snapshot, path = checkpointed(tmp_path)
    rows = pq.read_table(path).to_pylist()
    for row in rows:
        if row["add"] and "partition=1" in row["add"]["path"]:
            row["add"]["stats"] = stats
    path.unlink()
    pq.write_table(pa.Table.from_pylist(rows, _schema(rows)), path)
    found = directory_tables(tmp_path).snapshot(TOPIC_ID)
    assert found is not None
    assert (found.files[0], found.ends) == (snapshot.files[0], snapshot.ends)
    (file,) = found.files[1]
    assert (file.path, file.min_offset, file.max_offset) == (
        snapshot.files[1][0].path,
        *(0, OFFSET_MAX),
    )
    assert file.rows == (3 if stats and "num" in stats else -1)


def _schema(rows: list[dict[str, object]]) -> pa.Schema:
    pairs = pa.map_(pa.string(), pa.string())
    kinds = {
        "add": [
            *(("path", pa.string()), ("partitionValues", pairs), ("size", pa.int64())),
            ("stats", pa.string()),
        ],
        "txn": [("appId", pa.string()), ("version", pa.int64())],
        "protocol": [("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())],
        "metaData": [
            *(("schemaString", pa.string()), ("partitionColumns", pa.list_(pa.string()))),
            ("configuration", pairs),
        ],
    }
    return pa.schema([(kind, pa.struct(fields)) for kind, fields in kinds.items()])


def test_damage_is_distinguished_from_absence(tmp_path: Path) -> None:
    snapshot, path = checkpointed(tmp_path)
    hint = tmp_path / names.last_checkpoint_key(TOPIC_ID)
    whole = path.read_bytes()
    sink = io.BytesIO()
    pq.write_table(pa.table({"txn": pa.array([None], pa.struct([("appId", pa.string())]))}), sink)
    for data in (whole[:-10], b"PAR1", sink.getvalue()):
        path.unlink()
        path.write_bytes(data)
        with pytest.raises(Corrupt, match=names.table_key(TOPIC_ID)):
            directory_tables(tmp_path).snapshot(TOPIC_ID)
    path.write_bytes(whole)
    hint.unlink()
    hint.write_text("{")
    assert directory_tables(tmp_path).snapshot(TOPIC_ID) == snapshot  # the log is listed


def test_history_costs_nothing_until_it_is_used() -> None:
    room = Path(names.__file__).parents[1]
    paths = [path for path in room.rglob("*.py") if path.stem != "__init__"]
    modules = [".".join(path.relative_to(room).with_suffix("").parts) for path in paths]
    heavy = {"pyarrow", "deltalake", "obstore", "boto3", "botocore"}
    reported = subprocess.run(
        [
            sys.executable,
            "-c",
            "import importlib, sys\n"
            f"for name in {modules}:\n"
            "    importlib.import_module('logstore.history.' + name)\n"
            f"print(sorted({heavy} & set(sys.modules)))",
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=50,
    )
    assert reported.stdout.strip() == "[]"
