"""Topic configurations: every name of Apache Kafka 4, so that its tools and scripts work.

Settings about replicas and local files are accepted, stored and shown, and have no effect; their
documentation says so. Names, types and defaults follow Kafka's `TopicConfig` and `LogConfig`.
"""

from collections.abc import Mapping

from logstore.config.kinds import (
    INT_MAX,
    LONG_MAX,
    InvalidConfig,
    Setting,
    SettingKind,
    Value,
    by_name,
    unknown_name,
)

_DAY_MS = 86_400_000
NO_EFFECT = " Accepted and shown; it has no effect here."


def _setting(
    name: str,
    kind: SettingKind,
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
        SettingKind.LIST,
        "delete",
        "delete: records are deleted by age and size (retention.ms, retention.bytes). compact: "
        "every record must have a key, no record is deleted by age or size, and once records are "
        "in the topic's table, older records of a key go (docs/operations/key-compaction.md). "
        "compact,delete: both.",
        one_of=("compact", "delete"),
    ),
    _setting(
        "compression.gzip.level",
        SettingKind.INT,
        -1,
        "Level of gzip where compression.type is gzip, for batches that came in another codec. "
        "-1 and 0: zlib's default, 6.",
        at_least=-1,
        at_most=9,
    ),
    _setting(
        "compression.lz4.level",
        SettingKind.INT,
        9,
        "Level of lz4 where compression.type is lz4, for batches that came in another codec. 9 is "
        "lz4's fast compressor, as in Kafka; others from 3 on are its slow one, of ten times the "
        "CPU and more.",
        at_least=1,
        at_most=17,
    ),
    _setting(
        "compression.type",
        SettingKind.STRING,
        "producer",
        "Codec that batches are stored in. producer: as they came. Others: the broker packs a "
        "batch that came in another codec again, in a thread; it costs CPU as in Kafka (zstd 15 ms "
        "per MB, gzip 35), and max.message.bytes holds before and after. Batches that brokers make "
        "from the topic's table have this codec (producer: lz4). With zstd, consumers that are too "
        "old to read it are refused.",
        one_of=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    ),
    _setting(
        "compression.zstd.level",
        SettingKind.INT,
        3,
        "Level of zstd where compression.type is zstd, for batches that came in another codec. "
        "From 20 on it takes up to 130 MiB for each of two batches at a time, and batches of more "
        "than 8 MiB unpacked have level 19.",
        at_least=-131_072,
        at_most=22,
    ),
    _setting(
        "delete.retention.ms",
        SettingKind.LONG,
        _DAY_MS,
        "How long a compacted topic keeps a tombstone after key compaction first saw it. Lower: "
        "less storage, and a consumer that takes longer to read the topic from its start misses "
        "deletions.",
        at_least=0,
    ),
    _setting(
        "file.delete.delay.ms",
        SettingKind.LONG,
        60_000,
        "Delay before a file is deleted; see logstore.delete.grace.ms." + NO_EFFECT,
        at_least=0,
    ),
    _setting(
        "flush.messages",
        SettingKind.LONG,
        LONG_MAX,
        "Records between two fsyncs; every acknowledged record is durable." + NO_EFFECT,
        at_least=1,
    ),
    _setting(
        "flush.ms",
        SettingKind.LONG,
        LONG_MAX,
        "Time between two fsyncs; every acknowledged record is durable." + NO_EFFECT,
        at_least=0,
    ),
    _setting(
        "follower.replication.throttled.replicas",
        SettingKind.LIST,
        "",
        "Replicas whose fetching is throttled." + NO_EFFECT,
    ),
    _setting(
        "index.interval.bytes",
        SettingKind.INT,
        4096,
        "Distance between index entries; every batch has one." + NO_EFFECT,
        at_least=0,
    ),
    _setting(
        "leader.replication.throttled.replicas",
        SettingKind.LIST,
        "",
        "Replicas whose leaders are throttled." + NO_EFFECT,
    ),
    _setting(
        "local.retention.bytes",
        SettingKind.LONG,
        -2,
        "Bytes kept on brokers' disks; brokers have no disks." + NO_EFFECT,
        at_least=-2,
    ),
    _setting(
        "local.retention.ms",
        SettingKind.LONG,
        -2,
        "Time that records stay on brokers' disks; brokers have no disks." + NO_EFFECT,
        at_least=-2,
    ),
    _setting(
        "logstore.clean.dead.ratio",
        SettingKind.DOUBLE,
        "0.2",
        "Share of a file's rows that newer records of their keys have replaced at which key "
        "compaction writes the file again. Lower: less storage, more writing. 0: every file "
        "with one such row.",
        at_least=0,
        at_most=1,
    ),
    _setting(
        "logstore.table.enable",
        SettingKind.BOOLEAN,
        "true",
        "Whether compaction moves this topic's records into a Delta table. After false is set, "
        "records in the table stay readable, and new records stay in segments until retention "
        "deletes them.",
    ),
    _setting(
        "logstore.table.freshness.ms",
        SettingKind.LONG,
        60_000,
        "Age at which a partition's records move into the table, if at least 1 MiB of them wait. "
        "Less than 1 MiB waits ten times as long; 16 MiB move at once. Lower: more and smaller "
        "files.",
        at_least=0,
    ),
    _setting(
        "logstore.table.on.delete",
        SettingKind.STRING,
        "drop",
        "Fate of the table when the topic is deleted. drop: it is deleted an hour later. keep: it "
        "stays.",
        one_of=("drop", "keep"),
    ),
    _setting(
        "max.compaction.lag.ms",
        SettingKind.LONG,
        LONG_MAX,
        "Age at which a record of a compacted topic is compacted, however few records wait. "
        "Lower: more often, with more reading and writing.",
        at_least=1,
    ),
    _setting(
        "max.message.bytes",
        SettingKind.INT,
        1_048_588,
        "Maximum size of a batch, as compressed by its producer, and as stored where "
        "compression.type is another codec. Higher: a fetch response, which "
        "has at least one whole batch, takes more memory of broker and consumer. Lower: producers "
        "whose batches are larger get MESSAGE_TOO_LARGE.",
        at_least=0,
    ),
    _setting(
        "message.timestamp.after.max.ms",
        SettingKind.LONG,
        3_600_000,
        "Maximum time by which a batch's maximum timestamp may be ahead of the broker's clock; "
        "other batches get INVALID_TIMESTAMP. Higher: records of a producer whose clock is ahead "
        "are accepted, and retention.ms keeps them longer by that time.",
        at_least=0,
    ),
    _setting(
        "message.timestamp.before.max.ms",
        SettingKind.LONG,
        LONG_MAX,
        "Maximum time by which a batch's first timestamp may be behind the broker's clock; the "
        "timestamps of its other records are not checked.",
        at_least=0,
    ),
    _setting(
        "message.timestamp.type",
        SettingKind.STRING,
        "CreateTime",
        "CreateTime: the producer's clock stamps records. LogAppendTime: the broker's clock does, "
        "at append.",
        one_of=("CreateTime", "LogAppendTime"),
    ),
    _setting(
        "min.cleanable.dirty.ratio",
        SettingKind.DOUBLE,
        "0.5",
        "Share of a partition's bytes in the table that key compaction has not seen yet at which "
        "it runs. Lower: more often, with less storage and more reading: each time it reads the "
        "keys of the whole partition.",
        at_least=0,
        at_most=1,
    ),
    _setting(
        "min.compaction.lag.ms",
        SettingKind.LONG,
        0,
        "Minimum age of a record, by its timestamp, before key compaction may let a newer one "
        "replace it; counted for whole files of the table, and without timestamps by when the "
        "file was written. Higher: consumers see more of the history.",
        at_least=0,
    ),
    _setting(
        "min.insync.replicas",
        SettingKind.INT,
        1,
        "Replicas that must acknowledge a write; the object store counts as all of "
        "them." + NO_EFFECT,
        at_least=1,
    ),
    _setting(
        "preallocate",
        SettingKind.BOOLEAN,
        "false",
        "Whether files are preallocated." + NO_EFFECT,
    ),
    _setting(
        "remote.log.copy.disable",
        SettingKind.BOOLEAN,
        "false",
        "Whether copying to remote storage is disabled; all storage is remote." + NO_EFFECT,
    ),
    _setting(
        "remote.log.delete.on.disable",
        SettingKind.BOOLEAN,
        "false",
        "Whether disabling remote storage deletes its records." + NO_EFFECT,
    ),
    _setting(
        "remote.storage.enable",
        SettingKind.BOOLEAN,
        "false",
        "Whether old records move to remote storage; all records are written there." + NO_EFFECT,
    ),
    _setting(
        "retention.bytes",
        SettingKind.LONG,
        -1,
        "Maximum bytes per partition, if cleanup.policy has delete; older records are deleted. "
        "Lower: less storage, and consumers that are behind lose records sooner. -1: no limit.",
        at_least=-1,
    ),
    _setting(
        "retention.ms",
        SettingKind.LONG,
        7 * _DAY_MS,
        "How long records are kept, by their timestamps, if cleanup.policy has delete. Lower: less "
        "storage, and consumers that are behind lose records sooner. -1: no limit.",
        at_least=-1,
    ),
    _setting(
        "segment.bytes",
        SettingKind.INT,
        1_073_741_824,
        "Maximum size of the batches of one partition in a Produce request. For the size of "
        "objects see logstore.segment.bytes.",
        at_least=14,
        at_most=INT_MAX,
    ),
    _setting(
        "segment.index.bytes",
        SettingKind.INT,
        10_485_760,
        "Size of an index file." + NO_EFFECT,
        at_least=4,
    ),
    _setting(
        "segment.jitter.ms",
        SettingKind.LONG,
        0,
        "Random spread of segment.ms." + NO_EFFECT,
        at_least=0,
    ),
    _setting(
        "segment.ms",
        SettingKind.LONG,
        7 * _DAY_MS,
        "Time after which a file is rolled; see logstore.flush.interval.ms." + NO_EFFECT,
        at_least=1,
    ),
    _setting(
        "unclean.leader.election.enable",
        SettingKind.BOOLEAN,
        "false",
        "Whether a replica that lacks records may become leader; no replica lacks any." + NO_EFFECT,
    ),
)

TOPIC_SETTINGS: Mapping[str, Setting] = by_name(_SETTINGS)

BROKER_NAMES: Mapping[str, str] = {
    "cleanup.policy": "log.cleanup.policy",
    "compression.gzip.level": "compression.gzip.level",
    "compression.lz4.level": "compression.lz4.level",
    "compression.type": "compression.type",
    "compression.zstd.level": "compression.zstd.level",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "max.message.bytes": "message.max.bytes",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.type": "log.message.timestamp.type",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "min.insync.replicas": "min.insync.replicas",
    "retention.bytes": "log.retention.bytes",
    "retention.ms": "log.retention.ms",
    "segment.bytes": "log.segment.bytes",
}
"""Which broker setting is the default of a topic's configuration."""


CLEANING_NAMES = (
    "cleanup.policy",
    "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms",
    "max.compaction.lag.ms",
    "delete.retention.ms",
    "logstore.clean.dead.ratio",
)
"""Configs that key compaction goes by. It runs beside brokers, which tell it their defaults."""

BUILTIN_DEFAULTS: Mapping[str, str] = {
    name: setting.default for name, setting in TOPIC_SETTINGS.items()
}
"""Of a topic that says nothing, on a broker that says nothing."""

_LAGS = ("min.compaction.lag.ms", "max.compaction.lag.ms")
_ABOUT_COMPACTION = ("cleanup.policy", "logstore.table.enable")
NEVER_COMPACTED = (
    "cleanup.policy=compact with logstore.table.enable=false: keys are compacted in the topic's "
    "table alone, so every record would stay for ever; set logstore.table.enable=true, or "
    "cleanup.policy=delete"
)


def check_topic_configs(
    configs: Mapping[str, str | None], defaults: Mapping[str, str] = BUILTIN_DEFAULTS
) -> dict[str, str]:
    """The given configs, checked; a null value means the default and is left out.

    `defaults` are the broker's. Raises `InvalidConfig`.
    """
    checked = {}
    for name, text in configs.items():
        setting = TOPIC_SETTINGS.get(name)
        if setting is None:
            raise unknown_name(name, TOPIC_SETTINGS)
        if text is not None:
            setting.parse(text)
            checked[name] = text
    _check_together(checked, defaults)
    return checked


def _check_together(configs: Mapping[str, str], defaults: Mapping[str, str]) -> None:
    policy, has_table = (topic_value(name, configs, defaults) for name in _ABOUT_COMPACTION)
    assert isinstance(policy, tuple)
    if "compact" in policy and not has_table:
        raise InvalidConfig(NEVER_COMPACTED)
    shortest, longest = (topic_value(name, configs, defaults) for name in _LAGS)
    assert isinstance(shortest, int)
    assert isinstance(longest, int)
    if shortest > longest:
        raise InvalidConfig(
            f"min.compaction.lag.ms={shortest} is above max.compaction.lag.ms={longest}: no record "
            "can be kept so long and compacted so soon; lower the one, or raise the other"
        )


def topic_value(name: str, configs: Mapping[str, str], defaults: Mapping[str, str]) -> Value:
    """Effective value of a topic config: the topic's own, else the broker's default."""
    text = configs.get(name)
    return TOPIC_SETTINGS[name].parse(defaults[name] if text is None else text)
