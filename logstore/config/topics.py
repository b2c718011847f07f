"""Topic configurations: every name of Apache Kafka 4, so that tools and scripts made for it work.

What a broker without replicas and local files has no use for is accepted, kept and shown; its
documentation says so. Names, types and defaults follow Kafka's `TopicConfig` and `LogConfig`.
"""

from collections.abc import Mapping

from logstore.config.kinds import INT_MAX, LONG_MAX, Kind, Setting, Value, by_name, unknown_name

_DAY_MS = 86_400_000
NO_EFFECT = " Accepted and shown; it has no effect here."


def _setting(
    name: str,
    kind: Kind,
    default: str | int,
    documentation: str,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    one_of: tuple[str, ...] = (),
) -> Setting:
    return Setting(
        name=name,
        kind=kind,
        default=str(default),
        documentation=documentation,
        at_least=at_least,
        at_most=at_most,
        one_of=one_of,
    )


_SETTINGS = (
    _setting(
        "cleanup.policy",
        Kind.LIST,
        "delete",
        "delete: records are deleted by age and size (retention.ms, retention.bytes). compact: "
        "every record needs a key, and none is deleted by age or size; records of the same key "
        "are all kept, as key compaction has no effect here yet. compact,delete: both.",
        one_of=("compact", "delete"),
    ),
    _setting(
        "compression.gzip.level",
        Kind.INT,
        -1,
        "Level of gzip." + NO_EFFECT,
        at_least=-1,
        at_most=9,
    ),
    _setting(
        "compression.lz4.level",
        Kind.INT,
        9,
        "Level of lz4." + NO_EFFECT,
        at_least=1,
        at_most=17,
    ),
    _setting(
        "compression.type",
        Kind.STRING,
        "producer",
        "Batches are stored as their producer compressed them, whatever this says; zstd refuses "
        "consumers that are too old to read it.",
        one_of=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    ),
    _setting(
        "compression.zstd.level",
        Kind.INT,
        3,
        "Level of zstd." + NO_EFFECT,
        at_least=-131_072,
        at_most=22,
    ),
    _setting(
        "delete.retention.ms",
        Kind.LONG,
        _DAY_MS,
        "How long a compacted topic shows that a key was deleted." + NO_EFFECT,
        at_least=0,
    ),
    _setting(
        "file.delete.delay.ms",
        Kind.LONG,
        60_000,
        "Wait before a file goes; see logstore.delete.grace.ms." + NO_EFFECT,
        at_least=0,
    ),
    _setting(
        "flush.messages",
        Kind.LONG,
        LONG_MAX,
        "Records between two fsyncs; every acknowledged record is durable." + NO_EFFECT,
        at_least=1,
    ),
    _setting(
        "flush.ms",
        Kind.LONG,
        LONG_MAX,
        "Time between two fsyncs; every acknowledged record is durable." + NO_EFFECT,
        at_least=0,
    ),
    _setting(
        "follower.replication.throttled.replicas",
        Kind.LIST,
        "",
        "Replicas whose catching up is slowed down." + NO_EFFECT,
    ),
    _setting(
        "index.interval.bytes",
        Kind.INT,
        4096,
        "Distance of index entries; every batch has one." + NO_EFFECT,
        at_least=0,
    ),
    _setting(
        "leader.replication.throttled.replicas",
        Kind.LIST,
        "",
        "Replicas whose leaders are slowed down." + NO_EFFECT,
    ),
    _setting(
        "local.retention.bytes",
        Kind.LONG,
        -2,
        "Bytes kept on brokers' disks; there are none." + NO_EFFECT,
        at_least=-2,
    ),
    _setting(
        "local.retention.ms",
        Kind.LONG,
        -2,
        "Time kept on brokers' disks; there are none." + NO_EFFECT,
        at_least=-2,
    ),
    _setting(
        "logstore.table.enable",
        Kind.BOOLEAN,
        "true",
        "Whether compaction moves this topic's records into a Delta table, its history. Off, "
        "what the table holds stays readable, and new records stay in segments until retention.",
    ),
    _setting(
        "logstore.table.freshness.ms",
        Kind.LONG,
        60_000,
        "Age at which a partition's records move into the table, if 1 MiB of them wait; fewer "
        "wait ten times as long, 16 MiB move at once. Less means more and smaller files.",
        at_least=0,
    ),
    _setting(
        "logstore.table.on.delete",
        Kind.STRING,
        "drop",
        "What becomes of the table when the topic is deleted: drop, an hour later, or keep.",
        one_of=("drop", "keep"),
    ),
    _setting(
        "max.compaction.lag.ms",
        Kind.LONG,
        LONG_MAX,
        "Age at which a record of a compacted topic is compacted, however few there are."
        + NO_EFFECT,
        at_least=1,
    ),
    _setting(
        "max.message.bytes",
        Kind.INT,
        1_048_588,
        "Largest batch taken, as its producer compressed it.",
        at_least=0,
    ),
    _setting(
        "message.timestamp.after.max.ms",
        Kind.LONG,
        3_600_000,
        "How far ahead of the broker's clock a record's timestamp may be.",
        at_least=0,
    ),
    _setting(
        "message.timestamp.before.max.ms",
        Kind.LONG,
        LONG_MAX,
        "How far behind the broker's clock a record's timestamp may be; the first and the latest "
        "of a batch are looked at.",
        at_least=0,
    ),
    _setting(
        "message.timestamp.type",
        Kind.STRING,
        "CreateTime",
        "Whose clock stamps records: the producer's, or the broker's when it appends.",
        one_of=("CreateTime", "LogAppendTime"),
    ),
    _setting(
        "min.cleanable.dirty.ratio",
        Kind.DOUBLE,
        "0.5",
        "Share of records not yet compacted that makes a compaction worth its cost." + NO_EFFECT,
        at_least=0,
        at_most=1,
    ),
    _setting(
        "min.compaction.lag.ms",
        Kind.LONG,
        0,
        "Age below which no record is compacted away." + NO_EFFECT,
        at_least=0,
    ),
    _setting(
        "min.insync.replicas",
        Kind.INT,
        1,
        "Replicas that acknowledge a write; the object store is all of them." + NO_EFFECT,
        at_least=1,
    ),
    _setting(
        "preallocate",
        Kind.BOOLEAN,
        "false",
        "Whether files are made at full size." + NO_EFFECT,
    ),
    _setting(
        "remote.log.copy.disable",
        Kind.BOOLEAN,
        "false",
        "Whether copying to remote storage stops; all storage is remote." + NO_EFFECT,
    ),
    _setting(
        "remote.log.delete.on.disable",
        Kind.BOOLEAN,
        "false",
        "Whether disabling remote storage deletes what is there." + NO_EFFECT,
    ),
    _setting(
        "remote.storage.enable",
        Kind.BOOLEAN,
        "false",
        "Whether old records go to remote storage; all do at once." + NO_EFFECT,
    ),
    _setting(
        "retention.bytes",
        Kind.LONG,
        -1,
        "Bytes of a partition that are kept, where cleanup.policy has delete; -1: any number.",
        at_least=-1,
    ),
    _setting(
        "retention.ms",
        Kind.LONG,
        7 * _DAY_MS,
        "How long records are kept, by their timestamps, where cleanup.policy has delete; what is "
        "older is deleted. -1: for ever.",
        at_least=-1,
    ),
    _setting(
        "segment.bytes",
        Kind.INT,
        1_073_741_824,
        "Largest set of batches in one request; how objects are cut is logstore.segment.bytes.",
        at_least=14,
        at_most=INT_MAX,
    ),
    _setting(
        "segment.index.bytes",
        Kind.INT,
        10_485_760,
        "Size of an index file." + NO_EFFECT,
        at_least=4,
    ),
    _setting(
        "segment.jitter.ms",
        Kind.LONG,
        0,
        "Spread of the times at which files are cut." + NO_EFFECT,
        at_least=0,
    ),
    _setting(
        "segment.ms",
        Kind.LONG,
        7 * _DAY_MS,
        "Time after which a file is cut; see logstore.flush.interval.ms." + NO_EFFECT,
        at_least=1,
    ),
    _setting(
        "unclean.leader.election.enable",
        Kind.BOOLEAN,
        "false",
        "Whether a replica that misses records may lead; none can miss any." + NO_EFFECT,
    ),
)

TOPIC_SETTINGS: Mapping[str, Setting] = by_name(_SETTINGS)

BROKER_NAMES: Mapping[str, str] = {
    "cleanup.policy": "log.cleanup.policy",
    "compression.type": "compression.type",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "max.message.bytes": "message.max.bytes",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.type": "log.message.timestamp.type",
    "min.insync.replicas": "min.insync.replicas",
    "retention.bytes": "log.retention.bytes",
    "retention.ms": "log.retention.ms",
    "segment.bytes": "log.segment.bytes",
}
"""Which broker setting is the default of a topic's configuration."""


def check_topic_configs(configs: Mapping[str, str | None]) -> dict[str, str]:
    """The given configs, checked; a null value means the default and is left out.

    Raises `InvalidConfig`.
    """
    checked = {}
    for name, text in configs.items():
        setting = TOPIC_SETTINGS.get(name)
        if setting is None:
            raise unknown_name(name, TOPIC_SETTINGS)
        if text is not None:
            setting.parse(text)
            checked[name] = text
    return checked


def topic_value(name: str, configs: Mapping[str, str], defaults: Mapping[str, str]) -> Value:
    """What holds for a topic: its own config, else the broker's default."""
    text = configs.get(name)
    return TOPIC_SETTINGS[name].parse(defaults[name] if text is None else text)
