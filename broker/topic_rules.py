"""What one topic asks of a batch, its configs parsed once. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from logstore.config.topics import topic_value


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRules:
    batch_bytes_max: int
    request_bytes_max: int
    is_compacted: bool
    stamps_append_time: bool
    before_ms_max: int
    after_ms_max: int
    is_zstd: bool

    @staticmethod
    def of(configs: Mapping[str, str], defaults: Mapping[str, str]) -> "TopicRules":
        def number(name: str) -> int:
            value = topic_value(name, configs, defaults)
            assert isinstance(value, int), name
            return value

        policy = topic_value("cleanup.policy", configs, defaults)
        assert isinstance(policy, tuple)
        return TopicRules(
            batch_bytes_max=number("max.message.bytes"),
            request_bytes_max=number("segment.bytes"),
            is_compacted="compact" in policy,
            stamps_append_time=(
                topic_value("message.timestamp.type", configs, defaults) == "LogAppendTime"
            ),
            before_ms_max=number("message.timestamp.before.max.ms"),
            after_ms_max=number("message.timestamp.after.max.ms"),
            is_zstd=topic_value("compression.type", configs, defaults) == "zstd",
        )
