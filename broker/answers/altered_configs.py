"""Changes configs as AlterConfigs and IncrementalAlterConfigs ask: each resource by itself.

When the answer leaves, this broker goes by the new configs; the others do within a second. Settings
of brokers are given at their start (`--set`, `--config`), so a request to change one is refused.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from broker.answers.budgets import over_budget
from broker.answers.config_resources import ResourceType, check_broker_name, find_topic
from broker.answers.error_codes import Refuse
from broker.answers.services import Services
from broker.network.authorizer import CLUSTER, Operation, ResourceKind
from broker.network.call import Call
from logstore.epoch.log import Topic
from logstore.errors import LogstoreError
from logstore.formats.feed_row import FeedChange
from logstore.protocol.topic_configs import change_topic_configs
from logstore.wire.errors import ErrorCode

APPLIED_S_MAX = 5.0
"""How long an answer waits until this broker has applied the change."""

Apply = Callable[[Mapping[str, str]], Mapping[str, str]]
"""The configs that a topic is to have, from those that it has. Raises `Refuse`, `InvalidConfig`."""


class WantedChange(NamedTuple):
    resource_type: int
    resource_name: str
    names: Sequence[str]
    apply: Apply


async def alter_each(
    broker: Services, call: Call, wanted: Sequence[WantedChange], *, is_check: bool
) -> list[LogstoreError | None]:
    """Why each was not changed; None: it was. `is_check`: check alone."""
    often = Counter(one[:2] for one in wanted)
    refusal = over_budget(call.api.key, len(wanted))
    outcomes: list[LogstoreError | None] = []
    async for one in broker.turns.share(wanted):
        try:
            if refusal is not None:
                raise refusal
            if often[one[:2]] > 1:
                raise Refuse(ErrorCode.INVALID_REQUEST, "resource named twice")
            await _alter(broker, call, one, is_check=is_check)
        except LogstoreError as error:
            outcomes.append(error)
        else:
            outcomes.append(None)
    return outcomes


async def _alter(broker: Services, call: Call, wanted: WantedChange, *, is_check: bool) -> None:
    if wanted.resource_type == ResourceType.BROKER:
        raise _refuse_broker(broker, call, wanted)
    if wanted.resource_type != ResourceType.TOPIC:
        raise Refuse(
            ErrorCode.INVALID_REQUEST,
            f"configs of topics can be changed: resource_type={wanted.resource_type}",
        )
    name = wanted.resource_name
    if not broker.allows(call, Operation.ALTER_CONFIGS, ResourceKind.TOPIC, name):
        raise Refuse(
            ErrorCode.TOPIC_AUTHORIZATION_FAILED, "not allowed to change this topic's configs"
        )
    topic = find_topic(broker, name)
    wanted.apply(topic.configs)
    if not is_check:
        await _change(broker, topic, wanted.apply)


async def _change(broker: Services, topic: Topic, apply: Apply) -> None:
    row = await broker.log.runner.run(change_topic_configs(topic.name, topic.topic_id, apply))
    await broker.log.publish([FeedChange(topic.name, topic.topic_id)])
    # Another client may change them again first: then ours were applied before, or never are.
    await broker.topic_watch.until(lambda: topic.configs == row.configs, APPLIED_S_MAX)


def _refuse_broker(broker: Services, call: Call, wanted: WantedChange) -> Refuse:
    if not broker.allows(call, Operation.ALTER_CONFIGS, *CLUSTER):
        return Refuse(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "not allowed to change brokers' settings"
        )
    check_broker_name(broker, wanted.resource_name)
    names = ", ".join(wanted.names)
    return Refuse(
        ErrorCode.INVALID_CONFIG,
        f"settings of a broker cannot be changed while it runs: {names}; start it with --set",
    )
