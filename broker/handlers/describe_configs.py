"""DescribeConfigs, versions 1 to 4: of topics, of this broker, of its loggers.

A list of names that is null or empty asks for all; unknown names in it are passed over. A broker
knows its own settings only: clients send requests about a broker to that broker. The broker with an
empty name stands for all of them, and has the settings that were changed for all while they run.
"""

from collections.abc import Sequence

from broker.answers.broker import Broker
from broker.answers.config_resources import ResourceType, check_broker_name, find_topic
from broker.answers.decisions.budgets import check_answer, over_budget
from broker.answers.decisions.fixed_configs import show_fixed_configs
from broker.answers.decisions.item_frames import ItemFrame
from broker.answers.decisions.refuse import Refuse
from broker.answers.decisions.shown_configs import (
    ShownConfig,
    show_broker_configs,
    show_changed_configs,
    show_logger,
    show_topic_configs,
)
from broker.answers.logger_levels import logger_level, logger_names
from broker.network.authorizer import CLUSTER, Operation, ResourceKind
from broker.network.call import Call
from broker.requests.encoding import items_of
from broker.requests.refusals import errors_in
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)


async def describe_configs(
    broker: Broker, call: Call, request: DescribeConfigsRequest
) -> ItemFrame:
    answer = items_of(call, DescribeConfigsResponse(0), "results")
    resources = await _merge(call, request.resources)
    refusal = over_budget(call.api.key, len(resources))
    async for (kind, name), names in call.each(resources.items()):
        result = DescribeConfigsResult(resource_type=kind, resource_name=name)
        with errors_in(result):
            if refusal is not None:
                raise refusal
            check_answer(call.api.key, answer.byte_count)
            result.configs = [
                _encode(request, config)
                for config in _describe(broker, call, kind, name)
                if not names or config.name in names
            ]
        answer.add(result)
    return answer


async def _merge(
    call: Call, resources: Sequence[DescribeConfigsResource]
) -> dict[tuple[int, str], set[str]]:
    """Returns names of configs by resource; an empty set asks for all of them."""
    merged: dict[tuple[int, str], set[str]] = {}
    async for resource in call.each(resources):
        key = (resource.resource_type, resource.resource_name)
        names = resource.configuration_keys
        if not names:
            merged[key] = set()
        elif key not in merged:
            merged[key] = set(names)
        elif merged[key]:
            merged[key].update(names)
    return merged


def _describe(broker: Broker, call: Call, kind: int, name: str) -> Sequence[ShownConfig]:
    if kind == ResourceType.TOPIC:
        if not broker.allows(call, Operation.DESCRIBE_CONFIGS, ResourceKind.TOPIC, name):
            raise Refuse(
                ErrorCode.TOPIC_AUTHORIZATION_FAILED, "not allowed to see this topic's configs"
            )
        return show_topic_configs(find_topic(broker, name).configs, broker.settings)
    if kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
        if not broker.allows(call, Operation.DESCRIBE_CONFIGS, *CLUSTER):
            raise Refuse(
                ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "not allowed to see brokers' settings"
            )
        is_this = check_broker_name(broker, name)
        if kind == ResourceType.BROKER:
            if not is_this:
                return show_changed_configs(broker.settings)
            return [*show_broker_configs(broker.settings), *show_fixed_configs(broker.log.me)]
        if not is_this:
            raise Refuse(ErrorCode.INVALID_REQUEST, "name the broker whose loggers are described")
        return [show_logger(one, logger_level(one)) for one in logger_names()]
    raise Refuse(
        ErrorCode.INVALID_REQUEST,
        f"configs of topics and brokers can be described: resource_type={kind}",
    )


def _encode(request: DescribeConfigsRequest, shown: ShownConfig) -> DescribeConfigsResourceResult:
    synonyms = shown.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        shown.name,
        shown.value,
        shown.is_read_only,
        shown.source,
        shown.is_sensitive,
        [DescribeConfigsSynonym(*synonym) for synonym in synonyms],
        shown.kind.value,
        shown.documentation if request.include_documentation else None,
    )
