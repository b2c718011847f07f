"""Cost of a log a month on S3 and DynamoDB, from its load: requests, storage, registry. Pure.

The figures behind it: a segment leaves when the interval has passed since the last one began, or
when it is full (`protocol.chain.flush`); one checkpoint sums up 256 segments; a follower GETs the
index of each segment, and looks once a second while nothing comes; consumers at the tail are served
from memory; compaction reads each segment once. Of the registry: each broker reads 7 rows and
renews its own once a second, reads everything once a minute in 17 queries, and one renews the
controller's lease (`docs/decisions/0010-cluster.md`). Bytes inside a region cost nothing.
"""

from dataclasses import dataclass

from logstore.prices import Requests, RowUnits, cost_of, cost_of_rows, cost_of_storage

MONTH_S = 730 * 3600
HOUR_S = 3600
SEGMENTS_PER_CHECKPOINT = 256
SECOND_REQUESTS_SHARE = 0.01
"""A put is sent again after the 99th percentile."""

IDLE_LOOK_S = 1.0
ROW_READS_S, ROW_WRITES_S = 7, 1
LOOKS_AT_ALL_PER_MINUTE = 17
LEASE_WRITES_S = 1
ROW_BYTES_PER_PARTITION = 250
READ_UNIT_BYTES = 4096

TABLE_BUSY_BYTES, TABLE_AT_ONCE_BYTES = 1 << 20, 16 << 20
BUSY_RUN_S, IDLE_RUN_S = 60.0, 600.0
MERGED_SHARE = 0.1
"""Files that merges write, for each file of a run."""
IN_SEGMENTS_WITH_TABLE_S = 2 * HOUR_S
"""How long records stay in segments that a table holds too: until the next run, and the grace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Bytes are of stored batches, as producers compressed them; rates are means of a month."""

    bytes_in_s: float
    requests_in_s: float
    """Produce requests, of all brokers."""
    brokers: int = 3
    partitions: int = 12
    topics: int = 1
    replicas: int = 1
    catch_up_bytes_s: float = 0.0
    """Read by consumers behind the tail, or by Spark from segments."""
    retention_s: float = 7 * 24 * HOUR_S
    """Of records in segments; with a table they stay for two hours."""
    table_retention_s: float | None = None
    """Of records in tables; None: the topics have none."""
    table_ratio: float = 0.7
    """Bytes of Parquet for each byte of batches."""
    flush_interval_s: float = 0.1
    segment_bytes: int = 8 << 20


@dataclass(frozen=True, slots=True)
class CostLine:
    """A month of one kind of cost. `per_month` counts requests, units or byte-months."""

    what: str
    unit: str
    per_month: float
    dollars: float


def cost_lines(load: Load) -> list[CostLine]:
    """In the order: writing, reading, tables, storage, registry."""
    segments_s = _segments_s(load)
    puts_s = segments_s * (1 + 1 / SEGMENTS_PER_CHECKPOINT + SECOND_REQUESTS_SHARE)
    followers_s = _followers_s(load, segments_s)
    catch_up_s = load.catch_up_bytes_s / _segment_bytes(load, segments_s)
    lines = [
        _creates("segments and checkpoints", puts_s),
        _gets("followers", followers_s),
        _gets("consumers behind the tail", catch_up_s),
    ]
    segment_s, stored = load.retention_s, 0.0
    if load.table_retention_s is not None:
        segment_s = min(load.retention_s, IN_SEGMENTS_WITH_TABLE_S)
        stored = load.bytes_in_s * load.table_ratio * load.table_retention_s
        lines += [_gets("compaction, reads", segments_s), _creates("tables", _table_puts_s(load))]
    lines += [
        _storage("segments, stored", load.bytes_in_s * segment_s),
        _storage("tables, stored", stored),
        *_registry(load),
    ]
    return [line for line in lines if line.per_month]


def _segments_s(load: Load) -> float:
    """Segments a second of all brokers."""
    bytes_s = load.bytes_in_s / load.brokers
    requests_s = load.requests_in_s / load.brokers
    by_time = min(1 / load.flush_interval_s, requests_s)
    return load.brokers * max(by_time, bytes_s / load.segment_bytes)


def _segment_bytes(load: Load, segments_s: float) -> float:
    return max(1.0, load.bytes_in_s / segments_s) if segments_s else float(load.segment_bytes)


def _followers_s(load: Load, segments_s: float) -> float:
    """With two replicas or more each broker follows the chains of all others."""
    if load.replicas < 2:
        return 0.0
    followed = load.brokers - 1
    return followed * max(segments_s, load.brokers / IDLE_LOOK_S)


def _table_puts_s(load: Load) -> float:
    if not load.bytes_in_s:
        return 0.0
    bytes_s = load.bytes_in_s / load.partitions
    every_s = BUSY_RUN_S if bytes_s * BUSY_RUN_S >= TABLE_BUSY_BYTES else IDLE_RUN_S
    files_s = load.partitions * max(1 / every_s, bytes_s / TABLE_AT_ONCE_BYTES)
    return files_s * (1 + MERGED_SHARE) + load.topics / every_s


def _registry(load: Load) -> list[CostLine]:
    all_bytes = load.partitions * ROW_BYTES_PER_PARTITION
    looks_s = max(LOOKS_AT_ALL_PER_MINUTE, all_bytes / READ_UNIT_BYTES) / 60
    reads = load.brokers * (ROW_READS_S + looks_s) * MONTH_S
    writes = (load.brokers * ROW_WRITES_S + LEASE_WRITES_S) * MONTH_S
    return [
        CostLine("registry, reads", "units", reads, cost_of_rows(RowUnits(reads=round(reads)))),
        CostLine("registry, writes", "units", writes, cost_of_rows(RowUnits(writes=round(writes)))),
    ]


def _creates(what: str, per_s: float) -> CostLine:
    count = per_s * MONTH_S
    return CostLine(what, "PUTs", count, cost_of(Requests(creates=round(count))))


def _gets(what: str, per_s: float) -> CostLine:
    count = per_s * MONTH_S
    return CostLine(what, "GETs", count, cost_of(Requests(gets=round(count))))


def _storage(what: str, stored_bytes: float) -> CostLine:
    return CostLine(what, "bytes", stored_bytes, cost_of_storage(stored_bytes, months=1))
