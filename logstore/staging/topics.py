"""Topics as a sink sees them when its batch begins: id, partitions, limits. By any broker."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from logstore.config.topic_limits import TopicLimits
from logstore.errors import Invalid, Retryable
from logstore.staging.brokers import Brokers
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from logstore.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)

METADATA, DESCRIBE_CONFIGS = 3, 32
TOPIC_RESOURCE = 2
LIMIT_CONFIGS = (
    "cleanup.policy",
    "max.message.bytes",
    "message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms",
    "message.timestamp.type",
)


class SinkTopic(NamedTuple):
    name: str
    topic_id: bytes
    partitions: int
    limits: TopicLimits


def describe_topics(brokers: Brokers, names: Sequence[str] | None) -> dict[str, SinkTopic]:
    """Those of `names` that there are, or all but internal ones.

    Raises `Retryable` and `OutcomeUnknown` while no broker answers, `Invalid` where one refuses.
    """
    asked = None if names is None else [MetadataRequestTopic(name=name) for name in names]
    found: MetadataResponse = brokers.call_any(METADATA, MetadataRequest(asked, False))
    counts: dict[str, tuple[bytes, int]] = {}
    for topic in found.topics:
        if topic.error_code == ErrorCode.NONE and not topic.is_internal:
            counts[topic.name or ""] = topic.topic_id, len(topic.partitions)
        elif topic.error_code not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            raise _refusal(topic.error_code, f"look up topic {topic.name}")
    limits = _limits(brokers, list(counts))
    return {name: SinkTopic(name, *counts[name], limits[name]) for name in counts}


def _limits(brokers: Brokers, names: Sequence[str]) -> Mapping[str, TopicLimits]:
    """As they hold now: the topic's own configs, else the brokers' defaults."""
    if not names:
        return {}
    resources = [
        DescribeConfigsResource(TOPIC_RESOURCE, name, list(LIMIT_CONFIGS)) for name in names
    ]
    found: DescribeConfigsResponse = brokers.call_any(
        DESCRIBE_CONFIGS, DescribeConfigsRequest(resources)
    )
    limits = {}
    for result in found.results:
        if result.error_code:
            raise _refusal(result.error_code, f"read the configs of topic {result.resource_name}")
        configs = {one.name: one.value for one in result.configs if one.value is not None}
        limits[result.resource_name] = TopicLimits.of_configs(configs, {})
    if missing := [name for name in names if name not in limits]:
        raise Retryable(f"a broker left out the configs of topic {missing[0]}")
    return limits


def _refusal(code: int, doing: str) -> Invalid | Retryable:
    known = ErrorCode(code) if code in ErrorCode._value2member_map_ else None
    text = f"cannot {doing}: error={known.name if known else code}"
    return Retryable(text) if known is not None and known.retriable else Invalid(text)
