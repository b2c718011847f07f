"""Demands of a topic on the records that are written to it: brokers and sinks check the same.

Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from logstore.config.topics import topic_value

_INT64_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLimits:
    """`is_compacted`: every record must have a key. With `stamps_append_time` the timestamps of
    records are the broker's, whatever they were."""

    batch_bytes_max: int
    is_compacted: bool
    stamps_append_time: bool
    before_ms_max: int
    after_ms_max: int

    @classmethod
    def of_configs(cls, configs: Mapping[str, str], defaults: Mapping[str, str]) -> Self:
        """By the topic's own configs, else by the broker's defaults."""
        policy = topic_value("cleanup.policy", configs, defaults)
        assert isinstance(policy, tuple)
        kind = topic_value("message.timestamp.type", configs, defaults)
        return cls(
            batch_bytes_max=number_of("max.message.bytes", configs, defaults),
            is_compacted="compact" in policy,
            stamps_append_time=kind == "LogAppendTime",
            before_ms_max=number_of("message.timestamp.before.max.ms", configs, defaults),
            after_ms_max=number_of("message.timestamp.after.max.ms", configs, defaults),
        )

    def timestamps_allowed(self, now_ms: int) -> tuple[int, int]:
        """The smallest and the largest timestamp that a record may have, ms."""
        if self.stamps_append_time:
            return -_INT64_MAX, _INT64_MAX
        high = now_ms + self.after_ms_max  # both settings have 63 bits
        return now_ms - self.before_ms_max, high if high < _INT64_MAX else _INT64_MAX


def number_of(config: str, configs: Mapping[str, str], defaults: Mapping[str, str]) -> int:
    value = topic_value(config, configs, defaults)
    assert isinstance(value, int), config
    return value
