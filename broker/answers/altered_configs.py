"""Changes configs as AlterConfigs and IncrementalAlterConfigs ask: each resource by itself.

When the answer leaves, this broker goes by the new configs; the others do within a second. Of
brokers' settings those that are read at a start alone are refused (`logstore.config.changeable`).

A request may name 65,000 resources: they are counted, changed and answered in slices.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from broker.answers.altered_brokers import (
    BrokerChange,
    alter_broker,
    alter_loggers,
)
from broker.answers.broker import Broker
from broker.answers.client_changes import log_change
from broker.answers.config_resources import ResourceType, find_topic
from broker.answers.decisions.budgets import over_budget
from broker.answers.decisions.config_changes import NAMES_MAX
from broker.answers.decisions.item_frames import ItemFrame
from broker.answers.decisions.refuse import Refuse
from broker.answers.decisions.repeats import counted
from broker.answers.error_codes import code_of
from broker.network.authorizer import Operation, ResourceKind
from broker.network.call import Call
from logstore.epoch.log import Topic
from logstore.errors import LogstoreError
from logstore.formats.feed_row import FeedChange
from logstore.protocol.topics.topic_configs import change_topic_configs
from logstore.wire.errors import ErrorCode

DEFAULT = "(default)"
APPLIED_S_MAX = 5.0
"""How long an answer waits until this broker has applied the change."""

Apply = Callable[[Mapping[str, str]], Mapping[str, str]]
"""The configs that a topic is to have, from those that it has. Raises `Refuse`, `InvalidConfig`."""

Named = tuple[int, str]
"""Type and name of a resource."""


class Asked(Protocol):
    """A resource of either request; each config has a name."""

    resource_type: int
    resource_name: str
    configs: list[Any]


R = TypeVar("R", bound=Asked)


class WantedChange(NamedTuple):
    resource_type: int
    resource_name: str
    names: Sequence[str]
    apply: Apply


async def alter_each(
    broker: Broker,
    call: Call,
    resources: Sequence[R],
    apply_of: Callable[[Sequence[Any]], Apply],
    broker_change: Callable[[Sequence[Any]], BrokerChange],
    *,
    is_check: bool,
    answer: ItemFrame,
    result: Callable[[int, str | None, int, str], Any],
) -> None:
    """Adds to `answer` the `result` of each: error code, text, type and name of the resource.

    `apply_of`, and `broker_change` for brokers and their loggers, get a resource's configs, at most
    `NAMES_MAX`. `is_check`: check alone.
    """
    refusal = over_budget(call.api.key, len(resources))
    often: Mapping[Named, int] = {}
    if refusal is None:
        named = ((one.resource_type, one.resource_name) for one in resources)
        often = await call.finish(counted(named))
    async for asked in call.each(resources):
        kind, name = asked.resource_type, asked.resource_name
        code, text = int(ErrorCode.NONE), None
        try:
            if refusal is not None:
                raise refusal
            if often[kind, name] > 1:
                raise Refuse(ErrorCode.INVALID_REQUEST, "resource named twice")
            configs = asked.configs[:NAMES_MAX]
            if kind == ResourceType.BROKER:
                await alter_broker(broker, call, name, broker_change(configs), is_check=is_check)
            elif kind == ResourceType.BROKER_LOGGER:
                alter_loggers(broker, call, name, broker_change(configs), is_check=is_check)
            else:
                names = [one.name for one in configs]
                wanted = WantedChange(kind, name, names, apply_of(configs))
                await _alter(broker, call, wanted, is_check=is_check)
        except LogstoreError as error:
            code, text = code_of(error), str(error)
        answer.add(result(code, text, kind, name))


async def _alter(broker: Broker, call: Call, wanted: WantedChange, *, is_check: bool) -> None:
    if wanted.resource_type != ResourceType.TOPIC:
        raise Refuse(
            ErrorCode.INVALID_REQUEST,
            f"configs of topics and brokers can be changed: resource_type={wanted.resource_type}",
        )
    name = wanted.resource_name
    if not broker.allows(call, Operation.ALTER_CONFIGS, ResourceKind.TOPIC, name):
        raise Refuse(
            ErrorCode.TOPIC_AUTHORIZATION_FAILED, "not allowed to change this topic's configs"
        )
    topic = find_topic(broker, name)
    wanted.apply(topic.configs)
    if not is_check:
        await _change(broker, call, topic, wanted)


async def _change(broker: Broker, call: Call, topic: Topic, wanted: WantedChange) -> None:
    steps = change_topic_configs(topic.name, topic.topic_id, wanted.apply)
    row = await broker.log.runner.run(steps)
    now = ",".join(f"{name}:{row.configs.get(name, DEFAULT)}" for name in sorted(wanted.names))
    log_change(call, "configs changed: topic=%s configs=%s", topic.name, now)
    await broker.log.publish([FeedChange(topic.name, topic.topic_id)])
    # Another client may change them again first: then ours were applied before, or never are.
    await broker.topic_watch.until(lambda: topic.configs == row.configs, APPLIED_S_MAX)
