"""How tables, their log entries, data files and transactions are called. Pure.

    tables/<topic id, hex>/                                    a Delta table
        _delta_log/<version, 20 digits>.json                   one entry per version
        _delta_log/_last_checkpoint                            where the last sum of entries is
        partition=<n>/<start>-<end>-<run>-<number>.parquet     offsets [start, end), 20 digits each

    logstore/<topic id, hex>/<n>          Delta transaction: its version is a partition's table end
    logstore/<topic id, hex>/<n>/clean    … the end up to which key compaction has looked at it
    logstore/<topic id, hex>/<n>/settled  … below it no tombstone has an older row of its key left

Names of data files are for people; no code reads them, since an OPTIMIZE by the table's owner names
its files differently.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

TABLES = "tables"
PARTITION_FOLDER = "partition="

TOPIC_PROPERTY = "logstore.topic"
TOPIC_ID_PROPERTY = "logstore.topic.id"
SCHEMA_VERSION_PROPERTY = "logstore.schema.version"
SCHEMA_VERSION = "1"

RUN_FACT = "logstore.run"
STARTS_FACT = "logstore.starts"
ENDS_FACT = "logstore.ends"
"""Keys in a commit's `commitInfo`: the run, and JSON objects {"<partition>": offset}."""

_APP = "logstore"
_CLEAN = "/clean"
_SETTLED = "/settled"
_ENTRY = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet")


def table_key(topic_id: bytes) -> str:
    """Prefix of the keys of a topic's table, without a slash at its end."""
    return f"{TABLES}/{topic_id.hex()}"


def table_topic(key: str) -> bytes | None:
    """The topic id of any key below a table's folder; None for other keys."""
    parts = key.split("/")
    if len(parts) < 3 or parts[0] != TABLES:
        return None
    try:
        topic_id = bytes.fromhex(parts[1])
    except ValueError:
        return None
    return topic_id if table_key(topic_id) == f"{parts[0]}/{parts[1]}" else None


def log_prefix(topic_id: bytes) -> str:
    return f"{table_key(topic_id)}/_delta_log/"


def entry_key(topic_id: bytes, version: int) -> str:
    return f"{log_prefix(topic_id)}{version:020d}.json"


def version_of_entry(key: str) -> int | None:
    """None: not the key of an entry."""
    match = _ENTRY.fullmatch(key.rpartition("/")[2])
    return None if match is None else int(match[1])


def last_checkpoint_key(topic_id: bytes) -> str:
    return f"{log_prefix(topic_id)}_last_checkpoint"


class CheckpointName(NamedTuple):
    """A checkpoint of all entries up to a version, in so many parts; one part has no number."""

    version: int
    parts: int = 1

    def keys(self, topic_id: bytes) -> Sequence[str]:
        front = f"{log_prefix(topic_id)}{self.version:020d}.checkpoint"
        if self.parts == 1:
            return [f"{front}.parquet"]
        numbers = range(1, self.parts + 1)
        return [f"{front}.{number:010d}.{self.parts:010d}.parquet" for number in numbers]


def checkpoint_of(key: str) -> CheckpointName | None:
    """The checkpoint that an object of the log is, or is a part of."""
    match = _CHECKPOINT.fullmatch(key.rpartition("/")[2])
    return None if match is None else CheckpointName(int(match[1]), int(match[3] or 1))


def data_path(partition: int, start: int, end: int, run: str, number: int) -> str:
    """Of a data file, relative to its table. `run` is letters, digits, hyphens."""
    return f"{PARTITION_FOLDER}{partition}/{start:020d}-{end:020d}-{run}-{number}.parquet"


def data_key(topic_id: bytes, partition: int, start: int, end: int, run: str, number: int) -> str:
    """Of a data file, relative to the log's URL."""
    return f"{table_key(topic_id)}/{data_path(partition, start, end, run, number)}"


def app_id(topic_id: bytes, partition: int) -> str:
    """The Delta transaction whose version is the partition's table end."""
    return f"{_APP}/{topic_id.hex()}/{partition}"


def clean_app_id(topic_id: bytes, partition: int) -> str:
    """The Delta transaction whose version is the partition's clean end."""
    return f"{app_id(topic_id, partition)}{_CLEAN}"


def cleaned_partition_of(app: str, topic_id: bytes) -> int | None:
    """The partition whose `clean_app_id` this is, None for anything else."""
    return partition_of(app.removesuffix(_CLEAN), topic_id) if app.endswith(_CLEAN) else None


def settled_app_id(topic_id: bytes, partition: int) -> str:
    """The Delta transaction whose version is the partition's settled end."""
    return f"{app_id(topic_id, partition)}{_SETTLED}"


def settled_partition_of(app: str, topic_id: bytes) -> int | None:
    """The partition whose `settled_app_id` this is, None for anything else."""
    return partition_of(app.removesuffix(_SETTLED), topic_id) if app.endswith(_SETTLED) else None


def partition_of(app: str, topic_id: bytes) -> int | None:
    """The partition whose `app_id` this is, None for anything else."""
    front, _, number = app.rpartition("/")
    if front != f"{_APP}/{topic_id.hex()}" or not number.isascii() or not number.isdigit():
        return None
    return int(number)
