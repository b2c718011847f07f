"""The columns of decoded records: names, Arrow types, and the size of a row.

offset          int64
timestamp       timestamp[us, UTC]   from ms; clamped where it leaves 64 bits
timestamp_ms    int64                as it was written
timestampType   int32                0 create time, 1 log append time
key, value      binary
headers         list<struct<key: string, value: binary>>   empty list where there are none
leader_epoch    int32
raw_batch       binary               null, except for a batch that cannot be decoded
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from logstore.errors import Invalid

if TYPE_CHECKING:
    import pyarrow as pa

KAFKA_COLUMNS = ("offset", "timestamp", "timestampType", "key", "value")  # Spark's, without headers

_ROW_BYTES = {
    "offset": 8,
    "timestamp": 8,
    "timestamp_ms": 8,
    "timestampType": 4,
    "key": 5,  # an offset, a bit of validity
    "value": 5,
    "headers": 4,
    "leader_epoch": 4,
    "raw_batch": 5,
}


def arrow_schema(columns: Sequence[str]) -> pa.Schema:
    """Raises `Invalid` for a column that is not in the list above, or for none at all."""
    import pyarrow as pa

    types = {
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "timestamp_ms": pa.int64(),
        "timestampType": pa.int32(),
        "key": pa.binary(),
        "value": pa.binary(),
        "headers": header_list_type(),
        "leader_epoch": pa.int32(),
        "raw_batch": pa.binary(),
    }
    if not columns or not types.keys() >= set(columns):
        raise Invalid(f"no such columns: asked={','.join(columns)} known={','.join(types)}")
    return pa.schema([(name, types[name]) for name in columns])


def header_list_type() -> pa.DataType:
    """Spark's type of Kafka headers."""
    import pyarrow as pa

    return pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def row_bytes(columns: Sequence[str]) -> int:
    """Bytes of a row beside those of its key, value and headers."""
    return sum(_ROW_BYTES[name] for name in columns)
