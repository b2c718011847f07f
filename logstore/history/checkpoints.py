"""A checkpoint of a table's log: all files and table ends at one version, in Parquet.

Whoever wrote it (delta-rs, Spark), classic form: one row per action, a struct column per kind.
Checkpoints of format 2 come with a reader feature, which `features` refuses.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from logstore.errors import Corrupt
from logstore.history import names
from logstore.history.entries import decode_add
from logstore.history.snapshot import DataFile

if TYPE_CHECKING:
    import pyarrow as pa

_WANTED = {
    "add": ("path", "partitionValues", "size", "stats", "deletionVector"),
    "txn": ("appId", "version"),
    "protocol": ("minReaderVersion", "minWriterVersion", "readerFeatures", "writerFeatures"),
    "metaData": ("schemaString", "partitionColumns", "configuration"),
}


@dataclass(slots=True)
class Checkpoint:
    """What its parts say together."""

    files: list[DataFile] = field(default_factory=list)
    ends: dict[int, int] = field(default_factory=dict)
    protocol: Mapping[str, Any] | None = None
    metadata: Mapping[str, Any] | None = None


def decode_hint(data: bytes) -> names.CheckpointName:
    """What `_last_checkpoint` says. Raises `Corrupt`."""
    try:
        hint = json.loads(data)
        return names.CheckpointName(int(hint["version"]), int(hint.get("parts") or 1))
    except (KeyError, TypeError, ValueError) as error:
        raise Corrupt(f"not a _last_checkpoint: {data[:100]!r}") from error


def decode_checkpoint(parts: Iterable[bytes], topic_id: bytes) -> Checkpoint:
    """Raises `Corrupt`, and what `decode_add` raises."""
    import pyarrow as pa

    found = Checkpoint()
    for part in parts:
        try:
            _decode_part(part, topic_id, found)
        except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
            raise Corrupt(
                f"not a checkpoint of a table: table={names.table_key(topic_id)} error={error!r}"
            ) from error
    if found.protocol is None or found.metadata is None:
        raise Corrupt(f"a checkpoint without protocol: table={names.table_key(topic_id)}")
    return found


def _decode_part(part: bytes, topic_id: bytes, found: Checkpoint) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = pq.ParquetFile(pa.BufferReader(part))
    paths = {column.path for column in file.schema}
    leaves = [f"{kind}.{name}" for kind, wanted in _WANTED.items() for name in wanted]
    columns = [leaf for leaf in leaves if any(_below(path, leaf) for path in paths)]
    for rows in file.iter_batches(columns=columns):
        for txn in _actions(rows, "txn"):
            if (partition := names.partition_of(txn["appId"], topic_id)) is not None:
                found.ends[partition] = txn["version"]
        found.files += [decode_add(add) for add in _actions(rows, "add")]
        for protocol in _actions(rows, "protocol"):
            found.protocol = protocol
        for metadata in _actions(rows, "metaData"):
            # Maps come as pairs.
            pairs = dict(metadata.get("configuration") or ())
            found.metadata = {**metadata, "configuration": pairs}


def _below(path: str, leaf: str) -> bool:
    return path == leaf or path.startswith(f"{leaf}.")


def _actions(rows: pa.RecordBatch, kind: str) -> Sequence[Mapping[str, Any]]:
    if kind not in rows.schema.names:
        return []
    actions: Sequence[Mapping[str, Any]] = rows.column(kind).drop_null().to_pylist()
    return actions
