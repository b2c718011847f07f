"""Entries of a table's log as Delta draws them: one JSON object a line. Pure.

    {"commitInfo": {timestamp, operation, …, "logstore.run", "logstore.starts", "logstore.ends"}}
    {"protocol": …} {"metaData": …}              the first entry; an owner's ALTER TABLE
    {"txn": {appId, version}}                    a table end, a clean end
    {"remove": {path, …}} {"add": {path, partitionValues, size, stats, …}}

Source: the Delta transaction log protocol, "Actions". Statistics of `timestamp` are left out where
ISO 8601 has no four-digit year for it.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote, unquote

from logstore.errors import Corrupt, Refused
from logstore.history.forms import names
from logstore.history.forms.columns import PARTITION_COLUMN, STATISTICS_COLUMNS
from logstore.history.forms.features import READER_VERSION, WRITER_VERSION
from logstore.history.forms.snapshot import OFFSET_MAX, CommitFacts, DataFile, TableCommit

ENGINE = "logstore"
CHECKPOINT_INTERVAL = 32
"""Entries between two checkpoints. An opening reads up to as many; a checkpoint names all files."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ISO_MS_MIN = -62_135_596_800_000  # year 1
_ISO_MS_MAX = 253_402_300_799_999  # year 9999


@dataclass(frozen=True, slots=True)
class LogEntry:
    """The actions of one version. `protocol` and `metadata` are None if it did not change them."""

    facts: CommitFacts
    ends: Mapping[int, int]
    adds: Sequence[DataFile]
    removed_paths: Sequence[str]
    protocol: Mapping[str, Any] | None = None
    metadata: Mapping[str, Any] | None = None
    cleaned: Mapping[int, int] = field(default_factory=dict)
    """Clean ends by partition."""
    settled: Mapping[int, int] = field(default_factory=dict)
    """Settled ends by partition."""


def encode_creation(topic_id: bytes, topic_name: str, schema: str, now_ms: int) -> bytes:
    """Entry 0; `schema` is Delta's JSON. Two creators differ in the time alone."""
    configuration = {
        "delta.checkpointInterval": str(CHECKPOINT_INTERVAL),
        "delta.dataSkippingStatsColumns": ",".join(STATISTICS_COLUMNS),
        "delta.enableDeletionVectors": "false",
        names.TOPIC_PROPERTY: topic_name,
        names.TOPIC_ID_PROPERTY: topic_id.hex(),
        names.SCHEMA_VERSION_PROPERTY: names.SCHEMA_VERSION,
    }
    metadata = {
        "id": _uuid(topic_id),
        "name": topic_name,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": schema,
        "partitionColumns": [PARTITION_COLUMN],
        "createdTime": now_ms,
        "configuration": configuration,
    }
    protocol = {"minReaderVersion": READER_VERSION, "minWriterVersion": WRITER_VERSION}
    info = {
        "timestamp": now_ms,
        "operation": "CREATE TABLE",
        "operationParameters": {},
        "engineInfo": ENGINE,
    }
    return _lines([{"commitInfo": info}, {"protocol": protocol}, {"metaData": metadata}])


def encode_commit(topic_id: bytes, read_version: int, commit: TableCommit, now_ms: int) -> bytes:
    """The entry after `read_version`.

    Files that only hold rows of files taken out change no data, so that a stream of the table does
    not see these rows twice. Where key compaction took rows out, data changes.
    """
    merged = _merged_partitions(commit)
    info = {
        "timestamp": now_ms,
        "operation": _operation(commit, merged),
        "operationParameters": {"mode": "Append", "partitionBy": json.dumps([PARTITION_COLUMN])},
        "readVersion": read_version,
        "isBlindAppend": False,
        "engineInfo": ENGINE,
        "operationMetrics": {
            "numFiles": str(len(commit.adds)),
            "numRemovedFiles": str(len(commit.removes)),
            "numOutputRows": str(sum(max(file.rows, 0) for file in commit.adds)),
            "numOutputBytes": str(sum(file.size_bytes for file in commit.adds)),
        },
        names.RUN_FACT: commit.run,
        names.STARTS_FACT: _spelt(commit.starts),
        names.ENDS_FACT: _spelt(commit.ends),
    }
    actions: list[dict[str, Any]] = [{"commitInfo": info}]
    for partition, end in sorted(commit.ends.items()):
        app = names.app_id(topic_id, partition)
        actions.append({"txn": {"appId": app, "version": end, "lastUpdated": now_ms}})
    for partition, end in sorted(commit.cleaned.items()):
        app = names.clean_app_id(topic_id, partition)
        actions.append({"txn": {"appId": app, "version": end, "lastUpdated": now_ms}})
    for partition, end in sorted(commit.settled.items()):
        app = names.settled_app_id(topic_id, partition)
        actions.append({"txn": {"appId": app, "version": end, "lastUpdated": now_ms}})
    for file in commit.removes:
        actions.append({"remove": _remove(file, now_ms, file.partition not in merged)})
    for file in commit.adds:
        actions.append({"add": _add(file, now_ms, file.partition not in merged)})
    return _lines(actions)


def decode_entry(data: bytes, topic_id: bytes, version: int) -> LogEntry:
    """Raises `Corrupt`, or `Refused` for a file with a deletion vector or outside the table."""
    info: Mapping[str, Any] = {}
    protocol = metadata = None
    ends: dict[int, int] = {}
    cleaned: dict[int, int] = {}
    settled: dict[int, int] = {}
    adds: list[DataFile] = []
    removed: list[str] = []
    rewritten: set[int] = set()
    try:
        for line in data.decode().splitlines():
            action = json.loads(line) if line.strip() else {}
            if (add := action.get("add")) is not None:
                adds.append(decode_add(add))
            elif (remove := action.get("remove")) is not None:
                removed.append(unquote(remove["path"]))
                if remove.get("dataChange", True):
                    rewritten.add(_partition_of(remove))
            elif (txn := action.get("txn")) is not None:
                app, version_of_app = txn["appId"], int(txn["version"])
                if (partition := names.partition_of(app, topic_id)) is not None:
                    ends[partition] = version_of_app
                elif (partition := names.cleaned_partition_of(app, topic_id)) is not None:
                    cleaned[partition] = version_of_app
                elif (partition := names.settled_partition_of(app, topic_id)) is not None:
                    settled[partition] = version_of_app
            info = action.get("commitInfo") or info
            protocol = action.get("protocol") or protocol
            metadata = action.get("metaData") or metadata
        facts = _facts(info, version, rewritten)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        key = names.entry_key(topic_id, version)
        raise Corrupt(f"not an entry of a table's log: key={key} error={error!r}") from error
    return LogEntry(facts, ends, adds, removed, protocol, metadata, cleaned, settled)


def decode_add(add: Mapping[str, Any]) -> DataFile:
    """Of an `add` action, in an entry or in a checkpoint; its statistics may be missing."""
    path = unquote(add["path"])
    if "://" in path or path.startswith("/"):
        raise Refused(f"the table names a file outside itself: path={path}; no shallow clones")
    if add.get("deletionVector"):
        raise Refused(
            f"a file has a deletion vector: path={path}; REORG TABLE … APPLY (PURGE), and "
            "ALTER TABLE … DROP FEATURE deletionVectors"
        )
    values = dict(add["partitionValues"])
    stats = json.loads(add.get("stats") or "{}")
    lowest = stats.get("minValues") or {}
    highest = stats.get("maxValues") or {}
    low, high = lowest.get("offset"), highest.get("offset")
    if low is None or high is None:
        low, high = 0, OFFSET_MAX
    return DataFile(
        path=path,
        partition=int(values[PARTITION_COLUMN]),
        rows=stats.get("numRecords", -1),
        size_bytes=add["size"],
        min_offset=low,
        max_offset=high,
        min_timestamp_ms=lowest.get("timestamp_ms"),
        max_timestamp_ms=highest.get("timestamp_ms"),
    )


def statistics_of(file: DataFile) -> str:
    """Delta's JSON: rows, and bounds of the columns that have some."""
    lowest: dict[str, Any] = {"offset": file.min_offset}
    highest: dict[str, Any] = {"offset": file.max_offset}
    low, high = file.min_timestamp_ms, file.max_timestamp_ms
    if low is not None and high is not None:
        lowest["timestamp_ms"], highest["timestamp_ms"] = low, high
        if _ISO_MS_MIN <= low <= high <= _ISO_MS_MAX:
            lowest["timestamp"], highest["timestamp"] = _iso(low), _iso(high)
    stats = {
        "numRecords": file.rows,
        "minValues": lowest,
        "maxValues": highest,
        "nullCount": {"offset": 0},
    }
    return json.dumps(stats, separators=(",", ":"))


def _merged_partitions(commit: TableCommit) -> set[int]:
    """Those where rows only go from files into others: nothing moves there, nothing is dropped."""
    if commit.cleaned:
        return set()
    adding = {file.partition for file in commit.adds}
    removing = {file.partition for file in commit.removes}
    return (adding & removing) - commit.ends.keys()


def _operation(commit: TableCommit, merged: set[int]) -> str:
    if commit.ends:
        return "WRITE"
    if commit.cleaned:
        return "DELETE"
    return "OPTIMIZE" if merged else "DELETE"


def _add(file: DataFile, now_ms: int, data_change: bool) -> dict[str, Any]:
    return {
        "path": quote(file.path, safe="/="),
        "partitionValues": {PARTITION_COLUMN: str(file.partition)},
        "size": file.size_bytes,
        "modificationTime": now_ms,
        "dataChange": data_change,
        "stats": statistics_of(file),
    }


def _remove(file: DataFile, now_ms: int, data_change: bool) -> dict[str, Any]:
    return {
        "path": quote(file.path, safe="/="),
        "deletionTimestamp": now_ms,
        "dataChange": data_change,
        "extendedFileMetadata": True,
        "partitionValues": {PARTITION_COLUMN: str(file.partition)},
        "size": file.size_bytes,
    }


def _partition_of(remove: Mapping[str, Any]) -> int:
    """A `remove` action may leave its partition values out; the path of the file has them."""
    values = remove.get("partitionValues") or {}
    if PARTITION_COLUMN in values:
        return int(values[PARTITION_COLUMN])
    front = unquote(remove["path"]).partition("/")[0]
    return int(front.removeprefix(names.PARTITION_FOLDER))


def _facts(info: Mapping[str, Any], version: int, rewritten: Collection[int]) -> CommitFacts:
    return CommitFacts(
        version=version,
        timestamp_ms=int(info.get("timestamp") or 0),
        starts=_offsets_of(info.get(names.STARTS_FACT)),
        ends=_offsets_of(info.get(names.ENDS_FACT)),
        operation=str(info.get("operation") or ""),
        run=info.get(names.RUN_FACT),
        rewritten=frozenset(rewritten),
    )


def _spelt(offsets: Mapping[int, int]) -> str:
    return json.dumps({str(number): offset for number, offset in sorted(offsets.items())})


def _offsets_of(text: str | None) -> Mapping[int, int] | None:
    if text is None:
        return None
    return {int(number): int(offset) for number, offset in json.loads(text).items()}


def _iso(time_ms: int) -> str:
    moment = _EPOCH + timedelta(milliseconds=time_ms)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z".rjust(24, "0")


def _uuid(topic_id: bytes) -> str:
    text = topic_id.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def _lines(actions: Sequence[Mapping[str, Any]]) -> bytes:
    return "".join(f"{json.dumps(action, separators=(',', ':'))}\n" for action in actions).encode()
