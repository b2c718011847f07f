"""Tables whose files or entries mean something else are refused, in words."""

import json
from pathlib import Path
from typing import Any

import pytest

from logstore.errors import Corrupt, Refused
from logstore.history.delta import Tables
from logstore.history.forms import names
from logstore.history.forms.features import TableRules, check_writable
from logstore.history.forms.snapshot import Snapshot, TableCommit
from tests.logstore.history.tables import NOW_MS, TOPIC_ID, directory_tables, move, moved


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return directory_tables(tmp_path)


@pytest.fixture
def before(tables: Tables) -> Snapshot:
    return moved(tables, tables.create(TOPIC_ID, "orders"), (0, 0, 10))


def alter(root: Path, *actions: dict[str, Any]) -> None:
    """What the owner's engine commits as version 2."""
    info = {"commitInfo": {"timestamp": NOW_MS, "operation": "SET TBLPROPERTIES"}}
    lines = [json.dumps(action) for action in (info, *actions)]
    (root / names.entry_key(TOPIC_ID, 2)).write_text("\n".join(lines))


def protocol(reader: int, writer: int, *features: str) -> dict[str, Any]:
    said: dict[str, Any] = {"minReaderVersion": reader, "minWriterVersion": writer}
    if reader == 3:
        said["readerFeatures"] = list(features)
    if writer == 7:
        said["writerFeatures"] = list(features)
    return {"protocol": said}


def metadata(root: Path, **changes: Any) -> dict[str, Any]:
    lines = (root / names.entry_key(TOPIC_ID, 0)).read_text().splitlines()
    found = next(json.loads(line) for line in lines if "metaData" in line)["metaData"]
    configuration = {**found["configuration"], **changes.pop("configuration", {})}
    return {"metaData": {**found, "configuration": configuration, **changes}}


@pytest.mark.parametrize(
    ("features", "said"),
    [
        (protocol(3, 7, "deletionVectors"), "deletionVectors.*REORG TABLE"),
        (protocol(3, 7, "v2Checkpoint"), "v2Checkpoint"),
        (protocol(3, 7, "typeWidening"), "typeWidening"),
        (protocol(3, 7, "somethingNew"), "somethingNew"),
        (protocol(4, 7), "reader version 4"),
    ],
)
def test_a_table_that_cannot_be_read_is_refused(
    tmp_path: Path, tables: Tables, before: Snapshot, features: dict[str, Any], said: str
) -> None:
    alter(tmp_path, features)
    for known in (None, before):
        with pytest.raises(Refused, match=rf"{names.table_key(TOPIC_ID)} topic=orders.*{said}"):
            tables.snapshot(TOPIC_ID, known=known)


def test_column_mapping_is_refused_and_its_mere_support_is_not(
    tmp_path: Path, tables: Tables, before: Snapshot
) -> None:
    alter(tmp_path, protocol(2, 5))
    found = tables.snapshot(TOPIC_ID)
    assert found is not None and found.version == 2
    moved(tables, found, (0, 10, 20))
    mode = {"delta.columnMapping.mode": "name"}
    alter(tmp_path, protocol(2, 5), metadata(tmp_path, configuration=mode))
    with pytest.raises(Refused, match="columnMapping"):
        tables.snapshot(TOPIC_ID)


def test_a_file_with_a_deletion_vector_is_refused(
    tmp_path: Path, tables: Tables, before: Snapshot
) -> None:
    add = {
        "path": before.files[0][0].path,
        "partitionValues": {"partition": "0"},
        "size": 1000,
        "modificationTime": NOW_MS,
        "dataChange": True,
        "deletionVector": {"storageType": "u", "pathOrInlineDv": "x", "sizeInBytes": 1},
    }
    alter(tmp_path, {"add": add})
    with pytest.raises(Refused, match="deletion vector"):
        tables.snapshot(TOPIC_ID, known=before)


def test_another_partitioning_and_clones_are_refused(
    tmp_path: Path, tables: Tables, before: Snapshot
) -> None:
    alter(tmp_path, metadata(tmp_path, partitionColumns=[]))
    with pytest.raises(Refused, match="partitioning by nothing"):
        tables.snapshot(TOPIC_ID)
    outside = {"path": "s3://other/table/x.parquet", "partitionValues": {"partition": "0"}}
    alter(tmp_path, {"add": {**outside, "size": 1}})
    with pytest.raises(Refused, match="outside itself"):
        tables.snapshot(TOPIC_ID)


@pytest.mark.parametrize(
    ("features", "changes", "said"),
    [
        (protocol(1, 7, "rowTracking"), {}, "rowTracking"),
        (protocol(1, 7, "inCommitTimestamp"), {}, "inCommitTimestamp"),
        (protocol(1, 8), {}, "writer version 8"),
        (protocol(1, 3), {"configuration": {"delta.constraints.positive": "offset > 0"}}, "posit"),
        (protocol(1, 2), {"schemaString": "invariant"}, "invariants of column offset"),
    ],
)
def test_a_table_that_asks_more_of_writers_can_be_read_and_not_committed_to(
    tmp_path: Path,
    tables: Tables,
    before: Snapshot,
    features: dict[str, Any],
    changes: dict[str, Any],
    said: str,
) -> None:
    if "schemaString" in changes:
        schema = json.loads(before.rules.schema)
        schema["fields"][1]["metadata"] = {"delta.invariants": "offset > 0"}
        changes = {"schemaString": json.dumps(schema)}
    alter(tmp_path, features, metadata(tmp_path, **changes))
    found = tables.snapshot(TOPIC_ID)
    assert found is not None
    with pytest.raises(Refused, match=said):
        tables.commit(found, move((0, 10, 20)))


def test_a_table_that_only_grows_keeps_its_files(
    tmp_path: Path, tables: Tables, before: Snapshot
) -> None:
    alter(tmp_path, metadata(tmp_path, configuration={"delta.appendOnly": "true"}))
    found = tables.snapshot(TOPIC_ID)
    assert found is not None
    with pytest.raises(Refused, match="appendOnly"):
        tables.commit(found, TableCommit({}, {}, (), list(found.files[0]), "retention"))
    moved(tables, found, (0, 10, 20))


def test_a_schema_that_is_not_json_is_damage() -> None:
    rules = TableRules(schema='{"fields":[{"name":"offset"')
    with pytest.raises(Corrupt, match="the schema of a table is not JSON"):
        check_writable("tables/t", rules, removes=False)
