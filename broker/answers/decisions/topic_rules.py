"""One topic's rules for batches, its configs parsed once. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from broker.groups.decisions.group_partition import OFFSETS_TOPIC
from broker.network.authorizer import Resource, ResourceKind
from logstore.config.topic_limits import TopicLimits, number_of
from logstore.config.topics import topic_value
from logstore.reading.planning.table_batches import Compression
from logstore.records.recompress import TargetCodec

_TABLE_CODECS: Mapping[str, Compression] = {
    "uncompressed": "none",
    "gzip": "gzip",
    "snappy": "snappy",
    "lz4": "lz4",
    "zstd": "zstd",
    "producer": "producer",
}
"""By the topic's compression.type."""

_LEVELS: Mapping[str, str] = {
    "gzip": "compression.gzip.level",
    "lz4": "compression.lz4.level",
    "zstd": "compression.zstd.level",
}
"""The config that has the level, by codec; snappy has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRules(TopicLimits):
    resource: Resource
    """The topic, as an authorizer is asked about it."""
    request_bytes_max: int
    is_zstd: bool
    target: TargetCodec | None
    """How batches of producers are compressed; None: as they came."""
    table_codec: Compression
    """How batches that are made from the topic's table are compressed."""
    is_internal: bool
    """Whether only brokers write to it."""

    @property
    def compresses_plain(self) -> bool:
        """Whether an uncompressed batch is not stored as it came."""
        return self.target is not None and self.target.codec != "none"

    @staticmethod
    def of(name: str, configs: Mapping[str, str], defaults: Mapping[str, str]) -> "TopicRules":
        codec = _TABLE_CODECS[str(topic_value("compression.type", configs, defaults))]
        target = None
        if codec != "producer":
            level = _LEVELS.get(codec)
            target = TargetCodec(
                codec, None if level is None else number_of(level, configs, defaults)
            )
        return TopicRules(
            resource=Resource(ResourceKind.TOPIC, name),
            **asdict(TopicLimits.of_configs(configs, defaults)),
            request_bytes_max=number_of("segment.bytes", configs, defaults),
            is_zstd=codec == "zstd",
            target=target,
            table_codec=codec,
            is_internal=name == OFFSETS_TOPIC,
        )
