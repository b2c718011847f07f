"""Every metric there is: its name, kind, labels and meaning. `docs/operations/metrics.md` lists it.

Counters are of this start of the broker (those of the store, the loop and compaction: of this
process), and end in `_total`. A name, once released, keeps its meaning.
"""

from dataclasses import dataclass
from enum import StrEnum


class MetricKind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    name: str
    kind: MetricKind
    meaning: str
    labels: tuple[str, ...] = ()


METRICS: list[Metric] = []


def _metric(kind: MetricKind, name: str, meaning: str, *labels: str) -> Metric:
    one = Metric(f"logstore_{name}", kind, meaning, labels)
    METRICS.append(one)
    return one


def _counter(name: str, meaning: str, *labels: str) -> Metric:
    return _metric(MetricKind.COUNTER, f"{name}_total", meaning, *labels)


def _gauge(name: str, meaning: str, *labels: str) -> Metric:
    return _metric(MetricKind.GAUGE, name, meaning, *labels)


def _histogram(name: str, meaning: str, *labels: str) -> Metric:
    return _metric(MetricKind.HISTOGRAM, name, meaning, *labels)


# The broker
BUILD = _gauge("build_info", "1; the version is in the label", "version")
STATE = _gauge("broker_state", "1 for the state it is in, 0 for the others", "state")
READY = _gauge("ready", "1 while /readyz answers 200")
EPOCH = _gauge("broker_epoch", "Number of this start of the broker")
LEVEL = _gauge("format_level", "Finalized format level, as far as this broker has heard of it")
LEVEL_MAX = _gauge("format_level_max", "Highest format level that this broker reads")
LOOP_LAG = _histogram("loop_lag_seconds", "How late a beat of the event loop came, every 0.5 s")
LOOP_HOLDS = _counter(
    "loop_holds", "Steps of requests that held the event loop for longer than 20 ms", "api"
)
LOOP_LONGEST = _gauge(
    "loop_hold_longest_seconds",
    "Longest such step of the last one or two minutes; 0: none was above 20 ms",
    "api",
)

# Clients
REQUESTS = _histogram(
    "request_duration_seconds",
    "Time from a request's arrival to its response; a Fetch without data waits as it asks for",
    "api",
)
ERRORS = _counter(
    "request_errors", "Error codes in responses, of each partition by itself", "api", "code"
)
OPEN_LISTENERS = _gauge(
    "open_listeners", "Listeners that other machines reach and that ask for no login"
)
DENIALS = _counter(
    "authorization_denials", "Resources of requests that clients had no right to", "api"
)
CONNECTIONS = _gauge("connections", "Clients that are connected")
SOFTWARE = _gauge(
    "connections_by_software", "Clients by the software that they name", "software", "version"
)
ACCEPTED = _counter("connections_accepted", "Connections that were accepted")
REFUSED = _counter(
    "connections_refused",
    "Connections closed for invalid frames, as too many, or without a request",
)
LOG_FULL = _gauge(
    "producers_held", "1 while requests of producers are not read, since the backlog is full"
)
RECEIVING = _gauge("receive_bytes", "Memory of large requests that arrive or are checked")
RECEIVE_WAITS = _gauge("receive_waits", "Connections not read until there is memory to receive")
UNSENT = _gauge("unsent_bytes", "Responses that clients have not taken yet")
QUOTAS = _gauge("quota_entities", "Users, client ids and addresses that have a quota")
QUOTA_CLIENTS = _gauge(
    "quota_clients_tracked", "Clients and addresses for which use of a quota is counted here"
)
THROTTLED = _counter(
    "throttled_requests", "Requests, or connections, whose clients were throttled", "quota"
)
THROTTLE_SECONDS = _counter("throttle_seconds", "How long these were throttled in all", "quota")
MUTED = _gauge("connections_throttled", "Connections not read since their clients are throttled")
FETCH_SESSIONS = _gauge(
    "fetch_sessions", "Incremental fetch sessions; Kafka's NumIncrementalFetchSessions"
)
FETCH_SESSION_PARTITIONS = _gauge(
    "fetch_session_partitions",
    "Partitions in these sessions; Kafka's NumIncrementalFetchPartitionsCached",
)
FETCH_SESSION_EVICTIONS = _counter(
    "fetch_session_evictions",
    "Sessions that made room for others; Kafka's IncrementalFetchSessionEvictionsPerSec",
)
BYTES_IN = _counter("topic_bytes_in", "Bytes of batches that producers sent", "topic")
RECORDS_IN = _counter("topic_records_in", "Records in them", "topic")
BYTES_OUT = _counter("topic_bytes_out", "Bytes of batches in answers to consumers", "topic")
RECORDS_OUT = _counter("topic_records_out", "Offsets that these cover", "topic")

# Writing
SEGMENTS = _counter("segments_stored", "Segments put into the store")
SEGMENT_BYTES = _counter("segment_bytes_stored", "Bytes of those segments")
COMMIT_SECONDS = _histogram(
    "commit_seconds", "Time from the first append into a segment to its commit"
)
FLUSH_BYTES = _histogram("flush_bytes", "Sizes of segments by why they left", "reason")
BACKLOG = _gauge("backlog_bytes", "Bytes appended and not committed yet")
DISK_FULL = _gauge("disk_full", "1 while store or registry refuse writes for lack of room")
PUT_AGE = _gauge("oldest_put_age_seconds", "How long the oldest unanswered segment waits")
COMMITTED_SEQ = _gauge("committed_seq", "Segments of this chain below this seq are committed")
OPEN_SEQ = _gauge("open_seq", "Seq of the segment that is being filled")

# Reading
CACHE_HITS = _counter("cache_hits", "Segments for consumers behind the tail found in memory")
CACHE_MISSES = _counter("cache_misses", "Segments fetched from the store for consumers")
CACHE_BYTES = _gauge("cache_bytes", "Memory of the segment cache; logstore.cache.bytes bounds it")
INDEX_CACHE = _gauge("index_cache_bytes", "Index of checkpoints in memory, for look-ups")
READ_AHEAD = _gauge("read_ahead_bytes", "Memory of segments fetched ahead and not read yet")
HISTORY_HITS = _counter("history_hits", "Reads below the segments served from memory")
HISTORY_MISSES = _counter("history_misses", "Reads below the segments that waited for a table")
HISTORY_BYTES = _counter("history_bytes", "Bytes of batches made from tables, sent to consumers")
HISTORY_CACHE = _gauge("history_cache_bytes", "Bytes of such batches in memory")
HISTORY_REFRESHES = _counter("history_refreshes", "Reads of tables' logs, for newer versions")

# The cluster
BROKERS = _gauge("brokers_alive", "Live brokers as this one sees them, itself included")
READ_LEASE = _gauge("lease_vouches", "1 while it has a read lease: none can have taken it for dead")
TOPICS = _gauge("topics", "Topics of the cluster")
NAMED = _gauge("partitions_named", "Partitions whose rows name this broker as their leader")
LED = _gauge("partitions_led", "Partitions that it serves as their leader")
FOLLOWED = _gauge("partitions_followed", "Partitions that it follows as a replica")
LEADERLESS = _gauge(
    "partitions_without_leader", "Partitions of the cluster whose leader is not alive"
)
UNREPLICATED = _gauge(
    "partitions_without_live_replica", "Partitions of which neither leader nor replica is alive"
)
CLAIMS = _counter("claims", "Partitions that it began to lead")
RELEASES = _counter("releases", "Partitions that it handed over")
PEERS_WATCHED = _gauge("peers_watched", "Brokers that it keeps a connection to, to notice deaths")
PEERS_CONNECTED = _gauge("peers_connected", "Brokers that it has such a connection to now")

# The controller
CONTROLLER = _gauge("controller_active", "1 while this broker is the controller")
CONTROLLER_ID = _gauge("controller_broker", "Id of the controller, as far as known; -1: none")
TERMS = _counter("controller_terms", "How many times this broker became the controller")
ACTIONS = _counter("controller_actions", "Actions as the controller", "action")
CONTROLLER_FAILURES = _counter("controller_failures", "Actions that failed; each is decided again")
TAKEOVERS = _counter("takeovers", "Chains that this controller took over", "reason")
TAKEOVER_SECONDS = _histogram(
    "takeover_seconds", "Time of each part: fence the broker, seal and read, change rows", "part"
)

# Trimming
TRIM_POINTS = _counter("trim_points", "Trim points that were raised")
TRIM_DELETED = _counter("trim_deleted_objects", "Objects that were deleted below trim points")
TRIM_FAILURES = _counter("trim_failures", "Passes of trimming that failed")

# Spark sinks
ADOPTS = _counter("adopts", "Partitions that a Spark sink asked to adopt a batch", "outcome")
ADOPTED_BATCHES = _counter("adopted_batches", "Record batches copied from staged objects")
ADOPTED_BYTES = _counter("adopted_bytes", "Bytes of those batches")
STAGING_SWEPT = _counter(
    "staging_deleted_objects", "Staged objects and manifests that the controller deleted"
)

# How far tables are behind: of the partitions that this broker leads, wherever compaction runs
TABLE_WAIT_SECONDS = _gauge(
    "table_wait_seconds",
    "How long, at least, the oldest record that is not in the topic's table has waited",
    "topic",
)
TABLE_WAIT_OFFSETS = _gauge("table_wait_offsets", "Offsets that are not in the table", "topic")

# Compaction beside this broker; one that is scheduled elsewhere counts nothing here
COMPACTION = _gauge("compaction_running", "1 while this broker has the process of compaction")
COMPACTION_RUNS = _counter("compaction_runs", "Runs that ended; failed: with errors", "outcome")
COMPACTION_LAST = _gauge(
    "compaction_last_good_run_timestamp_seconds",
    "Unix time of the last run without errors; 0: none",
)
COMPACTION_RECORDS = _counter("compaction_records", "Records moved into tables")
COMPACTION_BYTES = _counter("compaction_bytes", "Bytes of their batches")
COMPACTION_DEATHS = _counter("compaction_deaths", "Times that its process ended by itself")
CLEAN_BYTES = _counter("clean_bytes", "Bytes of files whose keys were compacted")
CLEAN_DROPPED = _counter("clean_dropped_records", "Records that key compaction took out of tables")
CLEAN_UNCLEANABLE = _gauge(
    "clean_uncleanable_partitions",
    "Partitions that the last run could not compact by key (Kafka's uncleanable-partitions-count)",
)
CLEAN_DELAY = _gauge(
    "clean_max_compaction_delay_seconds",
    "Longest time by which a record was older than max.compaction.lag.ms allows when the last run "
    "looked (Kafka's max-compaction-delay-secs)",
)

# Requests to the object store, and what they cost
STORE_REQUESTS = _counter("store_requests", "Requests to the object store", "kind")
STORE_ERRORS = _counter(
    "store_errors", "Requests to the object store that failed, or found nothing", "kind"
)
STORE_BYTES = _counter("store_bytes", "Bytes of objects sent or received", "kind")
STORE_DOLLARS = _counter("store_dollars", "S3's list price of these requests")
STORE_SECONDS = _histogram(
    "store_request_seconds", "Time of each attempt; a list: until its first page", "kind", "outcome"
)

# Requests to the registry, and what they cost
REGISTRY_SECONDS = _histogram("registry_request_seconds", "Time of each attempt", "kind", "outcome")
REGISTRY_DOLLARS = _counter("registry_dollars", "DynamoDB's list price of these requests")

# Consumer groups: each is reported by its coordinator alone
GROUPS = _gauge("groups", "Groups that this broker coordinates", "state")
GROUPS_LOADING = _gauge("groups_loading", "1 while some of its groups are not loaded yet")
REBALANCES = _counter("group_rebalances", "Rebalances that began", "reason")
GROUP_MEMBERS = _gauge("group_members", "Members of a group", "group")
GROUP_GENERATION = _gauge(
    "group_generation", "Generation of a group: goes up by rebalances", "group"
)
GROUP_COMMITTED = _gauge(
    "group_committed_offset", "Offset a group has committed", "group", "topic", "partition"
)
GROUP_LAG = _gauge(
    "group_lag_records",
    "High watermark less committed offset, where this broker leads or follows the partition",
    "group",
    "topic",
    "partition",
)
GROUP_LAG_UNKNOWN = _gauge(
    "group_lag_unknown", "Committed partitions whose end this broker does not know"
)

# Partitions: each is reported by its leader alone
HIGH_WATERMARK = _gauge(
    "partition_high_watermark", "First offset not committed", "topic", "partition"
)
LOG_START = _gauge("partition_log_start_offset", "First offset readable", "topic", "partition")

# This list itself
LEFT_OUT = _gauge("metrics_left_out", "Partitions, and partitions of groups, not shown one by one")

PROCESS = {
    "process_virtual_memory_bytes": MetricKind.GAUGE,
    "process_resident_memory_bytes": MetricKind.GAUGE,
    "process_start_time_seconds": MetricKind.GAUGE,
    "process_cpu_seconds_total": MetricKind.COUNTER,
    "process_open_fds": MetricKind.GAUGE,
    "process_max_fds": MetricKind.GAUGE,
}
"""On Linux, as every Prometheus client names them."""
