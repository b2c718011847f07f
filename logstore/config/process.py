"""Settings of a broker process itself; `broker.py` joins those of stores and topics to them."""

from logstore.config.address_overrides import FORM, OVERRIDES
from logstore.config.compaction_interval import EVERY, OFF
from logstore.config.doors import DOOR_SETTINGS
from logstore.config.kinds import INT_MAX, Setting, SettingKind

_KiB, _MiB = 1024, 1024 * 1024
_DAY_MS = 86_400_000

BY_STORE = ""
"""Default that depends on the kind of store."""
NOT_SET = ""
"""No default."""

_QUOTA_WINDOWS = {
    "quota.window": "bytes, time and connections",
    "controller.quota.window": "changes of topics",
}

PROCESS_SETTINGS = (
    *DOOR_SETTINGS,
    Setting(
        name="auto.create.topics.enable",
        kind=SettingKind.BOOLEAN,
        default="true",
        documentation="Whether a request for a topic that does not exist creates it. false: the "
        "client gets UNKNOWN_TOPIC_OR_PARTITION, and a misspelt name creates no topic.",
    ),
    Setting(
        name="auto.leader.rebalance.enable",
        kind=SettingKind.BOOLEAN,
        default="true",
        documentation="Whether the controller moves leadership: back to preferred leaders, and to "
        "brokers that lead fewer partitions, such as one that has joined. A partition that moves "
        "is unavailable for one or two flushes; no data is copied.",
    ),
    Setting(
        name="leader.imbalance.check.interval.seconds",
        kind=SettingKind.LONG,
        default="30",
        documentation="Interval at which the controller checks the balance of leadership. Kafka's "
        "default is 300 s; a move costs less here.",
        at_least=1,
    ),
    Setting(
        name="leader.imbalance.per.broker.percentage",
        kind=SettingKind.INT,
        default="10",
        documentation="Imbalance that is tolerated on one broker, in percent of its partitions. "
        "Lower: leadership moves more often.",
        at_least=0,
        at_most=100,
    ),
    Setting(
        name="controlled.shutdown.enable",
        kind=SettingKind.BOOLEAN,
        default="true",
        documentation="Whether a broker hands its partitions to other brokers before it stops. "
        "false: it stops sooner, and its partitions are unavailable until it is fenced.",
    ),
    Setting(
        name="logstore.broker.gone.ms",
        kind=SettingKind.LONG,
        default="600000",
        documentation="Time after which a dead broker is replaced in the replica lists of its "
        "partitions. Lower: a machine that restarts more often causes replicas to move away and "
        "back.",
        at_least=10_000,
    ),
    Setting(
        name="logstore.put.age.max.ms",
        kind=SettingKind.INT,
        default="10000",
        documentation="A broker whose oldest PUT has had no answer for this long, while PUTs of "
        "other brokers are answered, is fenced and its partitions move to other brokers.",
        at_least=1000,
    ),
    Setting(
        name="connections.max.idle.ms",
        kind=SettingKind.LONG,
        default="600000",
        documentation="Time without a request after which a connection is closed. Lower: fewer "
        "idle connections; clients connect again for their next request.",
        at_least=1000,
    ),
    Setting(
        name="default.replication.factor",
        kind=SettingKind.INT,
        default="1",
        documentation="Replicas of a topic that is created without a replication factor. Records "
        "live in the store, whatever the factor.",
        at_least=1,
        at_most=32_767,
    ),
    Setting(
        name="fetch.max.bytes",
        kind=SettingKind.INT,
        default="57671680",
        documentation="Maximum bytes of records in one fetch response, whatever the consumer "
        "requests. Higher: consumers that are behind send fewer requests, of more memory each.",
        at_least=1024,
    ),
    Setting(
        name="group.initial.rebalance.delay.ms",
        kind=SettingKind.INT,
        default="3000",
        documentation="How long the first rebalance of an empty group waits for more members. "
        "Higher: fewer initial rebalances. Lower: consumption starts sooner.",
        at_least=0,
        at_most=3_600_000,
    ),
    Setting(
        name="group.max.session.timeout.ms",
        kind=SettingKind.INT,
        default="1800000",
        documentation="Maximum session timeout that a member may request. Higher: partitions of a "
        "member that died may stay unread for longer.",
        at_least=1,
    ),
    Setting(
        name="group.max.size",
        kind=SettingKind.INT,
        default="10000",
        documentation="Maximum members of a group; further members are refused. Kafka has no "
        "limit.",
        at_least=1,
    ),
    Setting(
        name="group.min.session.timeout.ms",
        kind=SettingKind.INT,
        default="6000",
        documentation="Minimum session timeout that a member may request. Lower: a dead member is "
        "noticed sooner, and one that pauses is removed from its group more often.",
        at_least=1,
    ),
    Setting(
        name="log.retention.check.interval.ms",
        kind=SettingKind.LONG,
        default="300000",
        documentation="Interval at which a leader checks retention. A check that finds nothing to "
        "delete costs no request, another one a registry write per partition.",
        at_least=1,
    ),
    Setting(
        name="log.retention.hours",
        kind=SettingKind.INT,
        default="168",
        documentation="log.retention.ms in hours; used if neither log.retention.ms nor "
        "log.retention.minutes is set. Negative: no limit.",
    ),
    Setting(
        name="log.retention.minutes",
        kind=SettingKind.INT,
        default=NOT_SET,
        documentation="log.retention.ms in minutes; used if log.retention.ms is not set. "
        "Negative: no limit.",
    ),
    Setting(
        name="max.incremental.fetch.session.cache.slots",
        kind=SettingKind.INT,
        default="1000",
        documentation="Maximum incremental fetch sessions: consumers that name their partitions "
        "once, and not in every fetch. Further ones send all of them each time, unless a session "
        "can be evicted: one that was not used for two minutes, or a smaller one as old as that. "
        "0: no sessions.",
        at_least=0,
        at_most=1_000_000,
    ),
    Setting(
        name="logstore.fetch.session.partitions.max",
        kind=SettingKind.INT,
        default="100000",
        documentation="Maximum partitions in all incremental fetch sessions together; beyond it "
        "sessions are evicted or refused as by max.incremental.fetch.session.cache.slots. Each "
        "costs about half a KiB of memory.",
        at_least=0,
        at_most=10_000_000,
    ),
    Setting(
        name="max.connections",
        kind=SettingKind.INT,
        default="4096",
        documentation="Maximum connections; further ones are closed at once. An idle connection "
        "costs a few KiB, a busy one 128 KiB plus its frames.",
        at_least=1,
    ),
    Setting(
        name="max.connections.per.ip",
        kind=SettingKind.INT,
        default=str(INT_MAX),
        documentation="Maximum connections of one IP address; further ones are closed at once. "
        "Lower: one client that opens connections without end leaves room for others. Clients "
        "behind one proxy or NAT share an address.",
        at_least=0,
    ),
    Setting(
        name=OVERRIDES,
        kind=SettingKind.STRING,
        default=NOT_SET,
        documentation=f"max.connections.per.ip for single addresses: {FORM}.",
    ),
    Setting(
        name="num.partitions",
        kind=SettingKind.INT,
        default="1",
        documentation="Partitions of a topic that is created without a number of partitions.",
        at_least=1,
        at_most=10_000,
    ),
    Setting(
        name="offset.metadata.max.bytes",
        kind=SettingKind.INT,
        default="4096",
        documentation="Maximum size of the metadata text committed with an offset; a commit with a "
        "longer one is refused. Higher: more memory for each committed offset.",
        at_least=0,
        at_most=32_767,
    ),
    Setting(
        name="offsets.commit.timeout.ms",
        kind=SettingKind.INT,
        default="5000",
        documentation="How long a group request waits for its commit. After that the client gets "
        "a retriable error and looks up the coordinator again.",
        at_least=1,
    ),
    Setting(
        name="offsets.retention.check.interval.ms",
        kind=SettingKind.LONG,
        default="600000",
        documentation="Interval at which expired committed offsets are removed.",
        at_least=1000,
    ),
    Setting(
        name="offsets.retention.minutes",
        kind=SettingKind.INT,
        default="10080",
        documentation="How long committed offsets are kept after the last member has left their "
        "group. A consumer that returns later starts where its auto.offset.reset says.",
        at_least=1,
    ),
    Setting(
        name="offsets.topic.num.partitions",
        kind=SettingKind.INT,
        default="50",
        documentation="Partitions of __consumer_offsets, over which groups are distributed. Has "
        "an effect only until that topic is created.",
        at_least=1,
        at_most=10_000,
    ),
    Setting(
        name="offsets.topic.replication.factor",
        kind=SettingKind.INT,
        default="3",
        documentation="Replicas of __consumer_offsets, that is, brokers that follow it and take "
        "over without a cold start.",
        at_least=1,
        at_most=32_767,
    ),
    Setting(
        name="socket.request.max.bytes",
        kind=SettingKind.INT,
        default="104857600",
        documentation="Maximum size of a Produce request. Memory is allocated as its bytes arrive.",
        at_least=64 * _KiB,
    ),
    *(
        Setting(
            name=f"{prefix}.num",
            kind=SettingKind.INT,
            default="11",
            documentation=f"Windows over which {what} of a client are counted for its quota. "
            "Fewer: smaller bursts after a pause, and less even rates.",
            at_least=1,
            at_most=3600,
        )
        for prefix, what in _QUOTA_WINDOWS.items()
    ),
    *(
        Setting(
            name=f"{prefix}.size.seconds",
            kind=SettingKind.INT,
            default="1",
            documentation=f"Length of each window of {prefix}.num.",
            at_least=1,
            at_most=3600,
        )
        for prefix in _QUOTA_WINDOWS
    ),
    Setting(
        name="producer.id.expiration.ms",
        kind=SettingKind.INT,
        default=str(_DAY_MS),
        documentation="How long an idempotent producer that writes nothing to a partition is known "
        "there, by the time of the log. Lower: less memory where many producers come and go, and a "
        "batch that is sent again after a longer pause is stored twice. Kafka takes longer times "
        "than a day; here states of partitions are kept for no longer.",
        at_least=1,
        at_most=_DAY_MS,
    ),
    Setting(
        name="queued.max.request.bytes",
        kind=SettingKind.INT,
        default=str(256 * _MiB),
        documentation="Maximum bytes of large requests that are arriving or being checked, of all "
        "connections. At the limit a connection with such a request is not read until there is "
        "room; one at a time may go beyond it, so memory is this and socket.request.max.bytes. "
        "Connections whose requests do not arrive while others wait are closed.",
        at_least=_MiB,
    ),
    Setting(
        name="logstore.request.max.bytes",
        kind=SettingKind.INT,
        default=str(_MiB),
        documentation="Maximum size of any request other than Produce. Higher: a small frame can "
        "decode to many objects, and 1 MiB may block the event loop for a quarter of a second.",
        at_least=64 * _KiB,
    ),
    Setting(
        name="logstore.connection.requests.max",
        kind=SettingKind.INT,
        default="5000",
        documentation="Maximum requests in flight on one connection; at the limit it is not read "
        "until one is answered. Bounds the produce rate of a connection: 256 would allow 2,560 "
        "requests a second with a flush interval of 100 ms. A waiting request costs about 1 KB.",
        at_least=1,
        at_most=100_000,
    ),
    Setting(
        name="logstore.cold.reads.max",
        kind=SettingKind.INT,
        default="16",
        documentation="Maximum concurrent fetches that read from the store; others wait. Each "
        "holds up to fetch.max.bytes.",
        at_least=1,
        at_most=1024,
    ),
    Setting(
        name="logstore.flush.interval.ms",
        kind=SettingKind.INT,
        default=BY_STORE,
        documentation="Interval between segments while records arrive. Lower: less produce "
        "latency. Higher: fewer PUT requests to pay for. Default: 100 in a bucket, 10 in a "
        "directory.",
        at_least=0,
        at_most=60_000,
    ),
    Setting(
        name="logstore.group.bytes.max",
        kind=SettingKind.INT,
        default=str(8 * _MiB),
        documentation="Maximum bytes of member metadata and assignments in one group, which are "
        "kept in memory and written as one record. A group at the limit refuses new members.",
        at_least=64 * _KiB,
        at_most=64 * _MiB,
    ),
    Setting(
        name="logstore.groups.bytes.max",
        kind=SettingKind.LONG,
        default=str(256 * _MiB),
        documentation="Approximate maximum memory of all groups that one broker coordinates. At "
        "the limit new members and offsets of new partitions are refused; existing members and "
        "offsets may use a quarter more.",
        at_least=_MiB,
    ),
    Setting(
        name="logstore.metrics.names.max",
        kind=SettingKind.INT,
        default="200",
        documentation="Maximum topics, and maximum groups, that metrics show by name; the rest is "
        "aggregated as `other`. Clients choose names, and each name costs the monitoring system a "
        "series.",
        at_least=0,
        at_most=100_000,
    ),
    Setting(
        name="logstore.metrics.series.max",
        kind=SettingKind.INT,
        default="5000",
        documentation="Maximum partitions, and maximum partitions of groups, that metrics show "
        "individually. A thousand cost about 13 ms of CPU per scrape.",
        at_least=0,
        at_most=1_000_000,
    ),
    Setting(
        name=EVERY,
        kind=SettingKind.STRING,
        default=OFF,
        documentation="Interval of compaction runs beside a broker: a time such as 30s, 1m, 1h; "
        "off: none. A child process of low priority moves committed records into tables, one task "
        "at a time; only the broker that is the controller has it. Lower: fresher tables, and more "
        "requests. For many MB/s schedule compaction on machines of its own.",
    ),
    Setting(
        name="logstore.segment.bytes",
        kind=SettingKind.INT,
        default=str(8 * _MiB),
        documentation="Size at which a segment is flushed before its interval ends. Higher: "
        "fewer, larger objects. Lower: more PUT requests to pay for, and less memory.",
        at_least=64 * _KiB,
        at_most=256 * _MiB,
    ),
    Setting(
        name="logstore.backlog.bytes",
        kind=SettingKind.LONG,
        default=str(64 * _MiB),
        documentation="Bytes appended but not yet stored above which the broker stops reading "
        "from producers. Bounds memory while the store is slow. Higher: producers are slowed down "
        "later, and as many full segments as fit, from 8 to 32, are put at once: with a store that "
        "takes 0.3 s for 8 MiB, 64 MiB bound one broker to some 180 MB/s.",
        at_least=_MiB,
    ),
    Setting(
        name="logstore.delete.grace.ms",
        kind=SettingKind.LONG,
        default="3600000",
        documentation="Time between publishing a trim point and deleting the segments below it. "
        "Readers that planned to read these segments must finish within it; a lower value saves "
        "little storage.",
        at_least=60_000,
    ),
    Setting(
        name="logstore.cache.bytes",
        kind=SettingKind.LONG,
        default=str(128 * _MiB),
        documentation="Size of the segment cache for consumers. Segments that are not in it are "
        "fetched from the store again.",
        at_least=_MiB,
    ),
    Setting(
        name="logstore.index.cache.bytes",
        kind=SettingKind.LONG,
        default=str(32 * _MiB),
        documentation="Size of the cache of index pages of checkpoints, by which offsets and times "
        "behind the last checkpoint are found. Lower: consumers at many places read the same pages "
        "from the store again.",
        at_least=_MiB,
    ),
    Setting(
        name="logstore.read.ahead.bytes",
        kind=SettingKind.LONG,
        default=str(128 * _MiB),
        documentation="Bytes of segments fetched ahead of consumers that catch up, beside the "
        "segment cache; all of them share it. On a bucket one consumer of 200 MB/s uses about "
        "100 MiB. Lower: less memory, slower catching up. 0: each segment is fetched when a "
        "consumer comes to it.",
        at_least=0,
    ),
    Setting(
        name="logstore.history.cache.bytes",
        kind=SettingKind.LONG,
        default=str(64 * _MiB),
        documentation="Size of the cache of batches built from topics' tables, for consumers "
        "behind the first segment. 8 MiB per partition read concurrently avoids building batches "
        "twice. Open files take about as much in addition, and libraries 70 MB; nothing is "
        "allocated until a consumer reads from a table.",
        at_least=_MiB,
    ),
    Setting(
        name="logstore.history.threads",
        kind=SettingKind.INT,
        default="4",
        documentation="Threads that read topics' tables for consumers, started on first use. "
        "Higher: more concurrent store reads. Lower: more CPU left for other work.",
        at_least=1,
        at_most=64,
    ),
)
