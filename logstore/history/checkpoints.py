"""A checkpoint of a table's log: all files and table ends at one version, in Parquet.

Classic form, of any writer (delta-rs, Spark): one row per action, a struct column per kind.
Checkpoints of format 2 come with a reader feature, which `features` refuses. A table may have
100,000 files, so what every file has is read by columns; what is odd, by rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from logstore.errors import Corrupt
from logstore.history.forms import names
from logstore.history.forms.columns import PARTITION_COLUMN
from logstore.history.forms.entries import decode_add
from logstore.history.forms.snapshot import OFFSET_MAX, DataFile, FileList

if TYPE_CHECKING:
    import pyarrow as pa

_FILE = ("path", "partitionValues", "size", "stats", "deletionVector")
_WANTED = {
    "add": _FILE,
    "txn": ("appId", "version"),
    "protocol": ("minReaderVersion", "minWriterVersion", "readerFeatures", "writerFeatures"),
    "metaData": ("schemaString", "partitionColumns", "configuration"),
}
_ORDER = [(name, "ascending") for name in ("partition", "min", "max", "path")]


@dataclass(slots=True)
class TableCheckpoint:
    """A decoded Delta checkpoint, its Parquet parts combined; files and table end per partition."""

    files: dict[int, FileList] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    cleaned: dict[int, int] = field(default_factory=dict)
    settled: dict[int, int] = field(default_factory=dict)
    protocol: Mapping[str, Any] | None = None
    metadata: Mapping[str, Any] | None = None


def decode_hint(data: bytes) -> names.CheckpointName:
    """What `_last_checkpoint` says. Raises `Corrupt`."""
    try:
        hint = json.loads(data)
        return names.CheckpointName(int(hint["version"]), int(hint.get("parts") or 1))
    except (KeyError, TypeError, ValueError) as error:
        raise Corrupt(f"not a _last_checkpoint: {data[:100]!r}") from error


def decode_checkpoint(parts: Iterable[bytes], topic_id: bytes) -> TableCheckpoint:
    """Raises `Corrupt`, and what `decode_add` raises."""
    import pyarrow as pa

    checkpoint = TableCheckpoint()
    tables: list[pa.Table] = []
    odd: list[DataFile] = []
    try:
        for part in parts:
            for rows in _rows(part):
                _decode_rows(rows, topic_id, checkpoint, tables, odd)
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
        raise Corrupt(
            f"not a checkpoint of a table: table={names.table_key(topic_id)} error={error!r}"
        ) from error
    if checkpoint.protocol is None or checkpoint.metadata is None:
        raise Corrupt(f"a checkpoint without protocol: table={names.table_key(topic_id)}")
    checkpoint.files = _lists(tables, odd)
    return checkpoint


def _rows(part: bytes) -> Iterable[pa.RecordBatch]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = pq.ParquetFile(pa.BufferReader(part))
    paths = [column.path for column in file.schema]
    leaves = [f"{kind}.{name}" for kind, wanted in _WANTED.items() for name in wanted]
    columns = [leaf for leaf in leaves if any(_below(path, leaf) for path in paths)]
    rows: Iterable[pa.RecordBatch] = file.iter_batches(columns=columns)
    return rows


def _below(path: str, leaf: str) -> bool:
    return path == leaf or path.startswith(f"{leaf}.")


def _decode_rows(
    rows: pa.RecordBatch,
    topic_id: bytes,
    checkpoint: TableCheckpoint,
    tables: list[pa.Table],
    odd: list[DataFile],
) -> None:
    for txn in _actions(rows, "txn"):
        if (partition := names.partition_of(txn["appId"], topic_id)) is not None:
            checkpoint.ends[partition] = txn["version"]
        elif (partition := names.cleaned_partition_of(txn["appId"], topic_id)) is not None:
            checkpoint.cleaned[partition] = txn["version"]
        elif (partition := names.settled_partition_of(txn["appId"], topic_id)) is not None:
            checkpoint.settled[partition] = txn["version"]
    for protocol in _actions(rows, "protocol"):
        checkpoint.protocol = protocol
    for metadata in _actions(rows, "metaData"):
        # Maps come as pairs.
        pairs = dict(metadata.get("configuration") or ())
        checkpoint.metadata = {**metadata, "configuration": pairs}
    plain = _plain_files(rows)
    if plain is None:
        odd += map(decode_add, _actions(rows, "add"))
    else:
        tables.append(plain)


def _actions(rows: pa.RecordBatch, kind: str) -> Sequence[Mapping[str, Any]]:
    if kind not in rows.schema.names:
        return []
    actions: Sequence[Mapping[str, Any]] = rows.column(kind).drop_null().to_pylist()
    return actions


def _plain_files(rows: pa.RecordBatch) -> pa.Table | None:
    """Columns of the files, or None if some file is not as ours are."""
    import pyarrow as pa
    import pyarrow.compute as pc

    adds = rows.column("add").drop_null()
    columns = dict(zip((one.name for one in adds.type), adds.flatten(), strict=True))
    path, values = columns["path"], columns["partitionValues"]
    vector = columns.get("deletionVector")
    if (
        pc.any(pc.match_substring_regex(path, "%|://|^/"), min_count=0).as_py()
        or (vector is not None and vector.null_count < len(adds))
        or values.null_count
        or len(values.items) != len(adds)
        or not pc.all(pc.equal(values.keys, PARTITION_COLUMN), min_count=0).as_py()
    ):
        return None
    statistics = _statistics(columns["stats"])
    if statistics is None:
        return None
    counts, lowest, highest = (
        statistics[name].combine_chunks() for name in statistics.column_names
    )
    low, high = (pc.struct_field(bounds, "offset") for bounds in (lowest, highest))
    bounded = pc.and_(pc.is_valid(low), pc.is_valid(high))
    return pa.table(
        {
            "partition": values.items.cast(pa.int32()),
            "min": pc.if_else(bounded, low, 0),
            "max": pc.if_else(bounded, high, OFFSET_MAX),
            "path": path,
            "rows": pc.fill_null(counts, -1),
            "size": columns["size"],
            "earliest": pc.struct_field(lowest, "timestamp_ms"),
            "latest": pc.struct_field(highest, "timestamp_ms"),
        }
    )


def _statistics(stats: pa.Array) -> pa.Table | None:
    """The JSON of all files at once, None if it is not one object a line."""
    import pyarrow as pa
    import pyarrow.json

    bounds = pa.struct([("offset", pa.int64()), ("timestamp_ms", pa.int64())])
    kinds = [("numRecords", pa.int64()), ("minValues", bounds), ("maxValues", bounds)]
    if not len(stats):
        return pa.schema(kinds).empty_table()
    lines = "\n".join(text or "{}" for text in stats.to_pylist()).encode()
    try:
        statistics = pyarrow.json.read_json(
            pa.BufferReader(lines),
            read_options=pyarrow.json.ReadOptions(use_threads=False),
            parse_options=pyarrow.json.ParseOptions(
                explicit_schema=pa.schema(kinds), unexpected_field_behavior="ignore"
            ),
        )
    except pa.ArrowInvalid:
        return None
    return statistics if statistics.num_rows == len(stats) else None


def _lists(tables: Sequence[pa.Table], odd: Sequence[DataFile]) -> dict[int, FileList]:
    import pyarrow as pa

    by_partition: dict[int, list[DataFile]] = {}
    for file in odd:
        by_partition.setdefault(file.partition, []).append(file)
    lists: dict[int, FileList] = {}
    if tables:
        files = pa.concat_tables(tables).sort_by(_ORDER)
        partitions, low, high, *others = (column.to_pylist() for column in files.columns)
        starts = [i for i, one in enumerate(partitions) if not i or partitions[i - 1] != one]
        for start, end in pairwise([*starts, len(partitions)]):
            part = [column[start:end] for column in others]
            lists[partitions[start]] = FileList.of_columns(
                partitions[start], low[start:end], high[start:end], part
            )
    for partition, some in by_partition.items():
        lists[partition] = FileList(partition, [*lists.get(partition, ()), *some])
    return lists
