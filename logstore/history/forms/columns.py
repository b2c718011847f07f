"""The columns of a topic's table.

partition       int          Delta's partition column: in paths, not in files
offset          bigint       never null
timestamp       timestamp    microseconds, UTC; clamped where it leaves 64 bits
timestamp_ms    bigint       as it was written
timestampType   int          0 create time, 1 log append time
key, value      binary
headers         array<struct<key: string, value: binary>>    empty where there are none
leader_epoch    int
raw_batch       binary       null, except for a batch that cannot be decoded: one row at its
                             base offset, everything else null
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from logstore.records.arrow import arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa

PARTITION_COLUMN = "partition"

TABLE_COLUMNS = (
    "offset",
    "timestamp",
    "timestamp_ms",
    "timestampType",
    "key",
    "value",
    "headers",
    "leader_epoch",
    "raw_batch",
)
"""Columns of a data file, in this order, as requested of `decode_to_arrow`."""

STATISTICS_COLUMNS = ("offset", "timestamp", "timestamp_ms")
"""Columns of which Delta keeps the minimum and maximum."""


_DELTA_TYPES: Mapping[str, Any] = {
    PARTITION_COLUMN: "integer",
    "offset": "long",
    "timestamp": "timestamp",
    "timestamp_ms": "long",
    "timestampType": "integer",
    "key": "binary",
    "value": "binary",
    "headers": {
        "type": "array",
        "elementType": {
            "type": "struct",
            "fields": [
                {"name": "key", "type": "string", "nullable": True, "metadata": {}},
                {"name": "value", "type": "binary", "nullable": True, "metadata": {}},
            ],
        },
        "containsNull": True,
    },
    "leader_epoch": "integer",
    "raw_batch": "binary",
}


def delta_schema() -> str:
    """Of the table, as Delta's JSON. All is nullable, so that engines may add rows of their own."""
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in _DELTA_TYPES.items()
    ]
    return json.dumps({"type": "struct", "fields": fields}, separators=(",", ":"))


def file_schema() -> pa.Schema:
    """Of a data file."""
    return arrow_schema(TABLE_COLUMNS)
