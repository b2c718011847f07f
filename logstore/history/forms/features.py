"""Which tables this version reads, and which it may write to. Pure.

Compaction makes tables of Delta's oldest protocol (reader 1, writer 2), which every engine reads.
Their owner may raise it; what then changes the meaning of files or entries is refused, in one line
that says what to do, rather than misread.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from logstore.errors import Corrupt, Refused
from logstore.history.forms.columns import PARTITION_COLUMN

READER_VERSION = 1
WRITER_VERSION = 2

_READ = frozenset(
    {"appendOnly", "columnMapping", "invariants", "timestampNtz", "vacuumProtocolCheck"}
)
"""Features that change nothing about files of ours; column mapping is looked at by its mode."""

_WRITTEN = _READ | {"changeDataFeed", "checkConstraints", "generatedColumns", "identityColumns"}
"""… or only for constraints and columns that the table does not have, which is looked at."""

_CURES = {
    "deletionVectors": "ALTER TABLE … SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'false'), "
    "REORG TABLE … APPLY (PURGE), ALTER TABLE … DROP FEATURE deletionVectors",
    "columnMapping": "ALTER TABLE … SET TBLPROPERTIES ('delta.columnMapping.mode' = 'none')",
}


@dataclass(frozen=True, slots=True)
class TableRules:
    """What `protocol` and `metaData` of a table's log say."""

    reader_version: int = READER_VERSION
    writer_version: int = WRITER_VERSION
    reader_features: Sequence[str] = ()
    writer_features: Sequence[str] = ()
    configuration: Mapping[str, str] = field(default_factory=dict)
    partition_columns: Sequence[str] = (PARTITION_COLUMN,)
    schema: str = "{}"

    def with_protocol(self, protocol: Mapping[str, Any]) -> "TableRules":
        return TableRules(
            int(protocol["minReaderVersion"]),
            int(protocol["minWriterVersion"]),
            tuple(protocol.get("readerFeatures") or ()),
            tuple(protocol.get("writerFeatures") or ()),
            self.configuration,
            self.partition_columns,
            self.schema,
        )

    def with_metadata(self, metadata: Mapping[str, Any]) -> "TableRules":
        return TableRules(
            self.reader_version,
            self.writer_version,
            self.reader_features,
            self.writer_features,
            dict(metadata.get("configuration") or {}),
            tuple(metadata.get("partitionColumns") or ()),
            str(metadata.get("schemaString") or "{}"),
        )


def check_readable(table: str, rules: TableRules) -> None:
    """Raises `Refused` for a feature that changes the meaning of files. `table` is for its text."""
    if rules.reader_version > 3:
        raise _refused(table, f"reader version {rules.reader_version}")
    if rules.configuration.get("delta.columnMapping.mode", "none") != "none":
        raise _refused(table, "columnMapping")
    if rules.reader_version == 3:
        for feature in sorted(set(rules.reader_features) - _READ):
            raise _refused(table, feature)
    if tuple(rules.partition_columns) != (PARTITION_COLUMN,):
        raise _refused(table, f"partitioning by {','.join(rules.partition_columns) or 'nothing'}")


def check_writable(table: str, rules: TableRules, *, removes: bool) -> None:
    """Raises `Refused` unless files may be added (and taken out) as compaction does it.

    Raises `Corrupt` for a schema that is damaged.
    """
    check_readable(table, rules)
    if rules.writer_version > 7:
        raise _refused(table, f"writer version {rules.writer_version}")
    if rules.writer_version == 7:
        for feature in sorted(set(rules.writer_features) - _WRITTEN):
            raise _refused(table, feature)
    for name in sorted(rules.configuration):
        if name.startswith("delta.constraints."):
            raise _refused(table, f"check constraint {name.removeprefix('delta.constraints.')}")
    if removes and rules.configuration.get("delta.appendOnly") == "true":
        raise _refused(table, "delta.appendOnly")
    for column in _columns(table, rules.schema):
        for name in column.get("metadata", {}):
            if name.startswith(("delta.generation", "delta.identity", "delta.invariants")):
                raise _refused(table, f"{name} of column {column['name']}")


def _columns(table: str, schema: str) -> Sequence[Mapping[str, Any]]:
    try:
        columns: Sequence[Mapping[str, Any]] = json.loads(schema).get("fields", ())
    except ValueError as error:
        raise Corrupt(f"the schema of a table is not JSON: table={table} {error}") from error
    return columns


def _refused(table: str, feature: str) -> Refused:
    cure = _CURES.get(feature, "take it off the table, or use a newer logstore")
    return Refused(
        f"the table uses a feature that logstore does not support: table={table} {feature}; {cure}"
    )
