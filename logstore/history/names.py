"""How tables, their data files and their transactions are called. Pure.

    tables/<topic id, hex>/                                    a Delta table
        _delta_log/…                                           its log, Delta's own
        partition=<n>/<start>-<end>-<run>-<number>.parquet     offsets [start, end), 20 digits each

    logstore/<topic id, hex>/<n>       Delta transaction of a partition: its version is the table end
    logstore/<topic id, hex>           … of the table: its version is the number of partitions that
                                       may have an end, so that ends are found without a registry

Names of data files help whoever looks at a bucket; nothing is read from them, since an OPTIMIZE by
the table's owner calls its files otherwise.
"""

TABLES = "tables"

TOPIC_PROPERTY = "logstore.topic"
TOPIC_ID_PROPERTY = "logstore.topic.id"
SCHEMA_VERSION_PROPERTY = "logstore.schema.version"
SCHEMA_VERSION = "1"

RUN_FACT = "logstore.run"
STARTS_FACT = "logstore.starts"
ENDS_FACT = "logstore.ends"
"""Keys in a commit's `commitInfo`: the run, and JSON objects {"<partition>": offset}."""

_APP = "logstore"


def table_key(topic_id: bytes) -> str:
    """What the keys of a topic's table begin with, without a slash at its end."""
    return f"{TABLES}/{topic_id.hex()}"


def data_path(partition: int, start: int, end: int, run: str, number: int) -> str:
    """Of a data file, relative to its table. `run` is letters, digits, hyphens."""
    return f"partition={partition}/{start:020d}-{end:020d}-{run}-{number}.parquet"


def data_key(topic_id: bytes, partition: int, start: int, end: int, run: str, number: int) -> str:
    """Of a data file, relative to the log's URL."""
    return f"{table_key(topic_id)}/{data_path(partition, start, end, run, number)}"


def app_id(topic_id: bytes, partition: int) -> str:
    """The Delta transaction whose version is the partition's table end."""
    return f"{_APP}/{topic_id.hex()}/{partition}"


def table_app_id(topic_id: bytes) -> str:
    """The Delta transaction whose version is above every partition that has a table end."""
    return f"{_APP}/{topic_id.hex()}"


def partition_of(app: str, topic_id: bytes) -> int | None:
    """The partition whose `app_id` this is, None for anything else."""
    front, _, number = app.rpartition("/")
    if front != table_app_id(topic_id) or not number.isascii() or not number.isdigit():
        return None
    return int(number)
