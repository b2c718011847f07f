"""IncrementalAlterConfigs, versions 0 and 1: each resource has its own outcome.

When the answer leaves, this broker goes by the new configs; the others do within a second. Settings
of brokers are given at their start (`--set`, `--config`), so a request to change one is refused.
`validate_only` checks and changes nothing.
"""

from collections import Counter
from functools import partial

from broker.answers.budgets import over_budget
from broker.answers.config_changes import ConfigChange, apply_changes, check_changes
from broker.answers.config_resources import ResourceType, check_broker_name, find_topic
from broker.answers.error_codes import Refuse, code_of
from broker.answers.services import Services
from broker.network.authorizer import CLUSTER, Operation, ResourceKind
from broker.network.call import Call
from logstore.epoch.log import Topic
from logstore.errors import LogstoreError
from logstore.formats.feed_row import FeedChange
from logstore.protocol.topic_configs import change_topic_configs
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

APPLIED_S_MAX = 5.0
"""How long an answer waits until this broker has applied the change."""


def handle(broker: Services, call: Call, request: IncrementalAlterConfigsRequest) -> None:
    broker.start(call, partial(_alter_all, broker, call, request), broker.changes)


async def _alter_all(broker: Services, call: Call, request: IncrementalAlterConfigsRequest) -> None:
    often = Counter((one.resource_type, one.resource_name) for one in request.resources)
    results = []
    refusal = over_budget(call.api.key, len(request.resources))
    async for asked in broker.turns.share(request.resources):
        resource = (asked.resource_type, asked.resource_name)
        result = AlterConfigsResourceResponse(0, None, *resource)
        results.append(result)
        try:
            if refusal is not None:
                raise refusal
            if often[resource] > 1:
                raise Refuse(ErrorCode.INVALID_REQUEST, "resource named twice")
            await _alter(broker, call, asked, is_check=request.validate_only)
        except LogstoreError as error:
            result.error_code, result.error_message = code_of(error), str(error)
    call.answer(IncrementalAlterConfigsResponse(0, results))


async def _alter(
    broker: Services, call: Call, asked: AlterConfigsResource, *, is_check: bool
) -> None:
    if asked.resource_type == ResourceType.BROKER:
        raise _refuse_broker(broker, call, asked)
    if asked.resource_type != ResourceType.TOPIC:
        raise Refuse(
            ErrorCode.INVALID_REQUEST,
            f"configs of topics can be changed: resource_type={asked.resource_type}",
        )
    name = asked.resource_name
    if not broker.allows(call, Operation.ALTER_CONFIGS, ResourceKind.TOPIC, name):
        raise Refuse(
            ErrorCode.TOPIC_AUTHORIZATION_FAILED, "not allowed to change this topic's configs"
        )
    topic = find_topic(broker, name)
    changes = check_changes([(one.name, one.config_operation, one.value) for one in asked.configs])
    apply_changes(topic.configs, broker.settings.topic_defaults, changes)
    if not is_check:
        await _change(broker, topic, changes)


async def _change(broker: Services, topic: Topic, changes: list[ConfigChange]) -> None:
    defaults = broker.settings.topic_defaults
    row = await broker.log.runner.run(
        change_topic_configs(
            topic.name, topic.topic_id, lambda configs: apply_changes(configs, defaults, changes)
        )
    )
    await broker.log.publish([FeedChange(topic.name, topic.topic_id)])
    # Another client may change them again first: then ours were applied before, or never are.
    await broker.topic_watch.until(lambda: topic.configs == row.configs, APPLIED_S_MAX)


def _refuse_broker(broker: Services, call: Call, asked: AlterConfigsResource) -> Refuse:
    if not broker.allows(call, Operation.ALTER_CONFIGS, *CLUSTER):
        return Refuse(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "not allowed to change brokers' settings"
        )
    check_broker_name(broker, asked.resource_name)
    names = ", ".join(one.name for one in asked.configs)
    return Refuse(
        ErrorCode.INVALID_CONFIG,
        f"settings of a broker cannot be changed while it runs: {names}; start it with --set",
    )
