"""Settings of a broker that can be changed while it runs (`kafka-configs --entity-type brokers`).

All others are read once, at a start. Defaults of topics that key compaction goes by are among them:
programs beside brokers read these from the row that a start writes. So are those by which records
and committed offsets are deleted: changes are in rows alone, so with a lost or older registry a
shorter retention would be back, and nothing may be deleted because a row is lost. Topics have
configs of their own for that, which are recorded in the store.
"""

from logstore.config.address_overrides import OVERRIDES

CHANGEABLE = frozenset(
    {
        "auto.create.topics.enable",
        "auto.leader.rebalance.enable",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "connections.max.idle.ms",
        "controlled.shutdown.enable",
        "default.replication.factor",
        "fetch.max.bytes",
        "group.initial.rebalance.delay.ms",
        "group.max.session.timeout.ms",
        "group.max.size",
        "group.min.session.timeout.ms",
        "leader.imbalance.per.broker.percentage",
        "log.message.timestamp.after.max.ms",
        "log.message.timestamp.before.max.ms",
        "log.message.timestamp.type",
        "log.retention.check.interval.ms",
        "log.segment.bytes",
        "logstore.backlog.bytes",
        "logstore.broker.gone.ms",
        "logstore.connection.requests.max",
        "logstore.flush.interval.ms",
        "logstore.group.bytes.max",
        "logstore.groups.bytes.max",
        "logstore.put.age.max.ms",
        "max.connections",
        "max.connections.per.ip",
        OVERRIDES,
        "message.max.bytes",
        "min.insync.replicas",
        "num.partitions",
        "offset.metadata.max.bytes",
        "offsets.retention.check.interval.ms",
        "queued.max.request.bytes",
    }
)
