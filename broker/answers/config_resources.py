"""Owners of configs: the resources of requests that describe, change or list configs."""

from collections.abc import Sequence
from enum import IntEnum

from broker.answers.broker import Broker
from broker.answers.decisions.refuse import Refuse
from logstore.epoch.log import Topic
from logstore.protocol.topics.life import UnknownTopic, check_topic_name
from logstore.wire.errors import ErrorCode


class ResourceType(IntEnum):
    """Kafka's `ConfigResource.Type`, those we have."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8


LISTED_TYPES: Sequence[frozenset[int]] = (frozenset({16}), frozenset({2, 4, 8, 16, 32}))
"""By version of ListConfigResources, the types that Kafka knows: topics, brokers, their loggers,
client metrics and groups."""


def find_topic(broker: Broker, name: str) -> Topic:
    """Raises `BadTopicName` or `UnknownTopic`."""
    check_topic_name(name)
    topic = broker.log.topics.get(name)
    if topic is None:
        raise UnknownTopic(f"no such topic: name={name}")
    return topic


def check_broker_name(broker: Broker, name: str) -> bool:
    """Whether it is this broker's; False: it stands for all. Raises `Refuse` for others."""
    if name in ("", str(broker.node_id)):
        return bool(name)
    raise Refuse(
        ErrorCode.INVALID_REQUEST,
        f"a broker knows only its own settings: asked={name!r} this={broker.node_id}; "
        "ask that broker",
    )
