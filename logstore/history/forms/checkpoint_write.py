"""A checkpoint of a table's log as bytes: one row per action, a struct column per kind of action.

    <version>.checkpoint.parquet     txn | add | remove | metaData | protocol, one of them per row
    _last_checkpoint                 {"version", "size" in actions, "sizeInBytes", "numOfAddFiles"}

The classic form (V1, one part), which every reader of Delta knows. Source: the Delta transaction
log protocol, "Checkpoints". Removed files stay named until the sweep has deleted them: that they
are named tells it which files a version of before needs. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from logstore.errors import Corrupt, Refused
from logstore.history.forms.actions import Reconciled, action_types, as_array

if TYPE_CHECKING:
    import pyarrow as pa

_JSON_STATISTICS = "delta.checkpoint.writeStatsAsJson"
_ROW_GROUP_ROWS = 100_000


@dataclass(frozen=True, slots=True)
class WrittenCheckpoint:
    version: int
    parquet: memoryview
    hint: bytes
    """Of `_last_checkpoint`."""


def encode_checkpoint(
    state: Reconciled, version: int, removed_before_ms: int = 0
) -> WrittenCheckpoint:
    """Of a table at `version`, without the files that were removed before that time.

    Raises `Corrupt` for a log that says no protocol or schema, and `Refused` where the owner wants
    statistics in columns alone, which is not done here.
    """
    if state.protocol is None or state.metadata is None:
        raise Corrupt(f"the log of a table has no protocol and schema: version={version}")
    configuration: Mapping[str, str] = dict(state.metadata.get("configuration") or {})
    if configuration.get(_JSON_STATISTICS, "true").lower() == "false":
        raise Refused(f"no checkpoint: {_JSON_STATISTICS}=false; set it to true")
    types = action_types()
    files = _unchanging(state.files("add"))
    columns = {
        "txn": as_array((state.txns[app] for app in sorted(state.txns)), types["txn"]),
        "add": files,
        "remove": _unchanging(_kept(state.files("remove"), removed_before_ms)),
        "metaData": as_array([state.metadata], types["metaData"]),
        "protocol": as_array([state.protocol], types["protocol"]),
    }
    rows = _one_per_row(columns)
    data = _parquet(rows)
    hint = {
        "version": version,
        "size": rows.num_rows,
        "sizeInBytes": len(data),
        "numOfAddFiles": len(files),
    }
    return WrittenCheckpoint(version, data, json.dumps(hint, separators=(",", ":")).encode())


def _kept(removes: pa.StructArray, since_ms: int) -> pa.StructArray:
    """Those that were taken out at `since_ms` or later; Delta takes a missing time for 0."""
    import pyarrow.compute as pc

    times = pc.fill_null(removes.field("deletionTimestamp"), 0)
    return removes.filter(pc.greater_equal(times, since_ms))


def _unchanging(files: pa.StructArray) -> pa.StructArray:
    """A checkpoint changes no data: a stream that begins with it reads its files anyway."""
    import pyarrow as pa

    columns = dict(zip((one.name for one in files.type), files.flatten(), strict=True))
    columns["dataChange"] = pa.repeat(pa.scalar(False), len(files))
    return pa.StructArray.from_arrays(list(columns.values()), fields=list(files.type))


def _one_per_row(columns: Mapping[str, pa.StructArray]) -> pa.Table:
    """Each kind below the one before it, null beside the others."""
    import pyarrow as pa

    chunks = [
        pa.table(
            {
                other: array if other == kind else pa.nulls(len(array), columns[other].type)
                for other in columns
            }
        )
        for kind, array in columns.items()
    ]
    return pa.concat_tables(chunks)


def _parquet(rows: pa.Table) -> memoryview:
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, row_group_size=_ROW_GROUP_ROWS, compression="snappy")
    return memoryview(sink.getvalue()).cast("B")
