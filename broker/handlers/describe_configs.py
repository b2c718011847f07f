"""DescribeConfigs, versions 1 to 4: of topics, of this broker, of its loggers.

A list of names that is null or empty asks for all; unknown names in it are passed over. A broker
knows its own settings only: clients send requests about a broker to that broker. The broker with an
empty name stands for all of them, and has the settings that were changed for all while they run.
"""

from collections.abc import Sequence

from broker.answers.budgets import check_answer, over_budget
from broker.answers.config_resources import ResourceType, check_broker_name, find_topic
from broker.answers.error_codes import Refuse, code_of
from broker.answers.fixed_configs import show_fixed_configs
from broker.answers.item_frames import ItemFrame
from broker.answers.logger_levels import logger_level, logger_names
from broker.answers.nested_answers import answer_items
from broker.answers.services import Services
from broker.answers.shown_configs import (
    ShownConfig,
    show_broker_configs,
    show_changed_configs,
    show_logger,
    show_topic_configs,
)
from broker.network.authorizer import CLUSTER, Operation, ResourceKind
from broker.network.call import Call
from logstore.errors import LogstoreError
from logstore.slices import Slices, emptied
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

SLICE_RESOURCES = 1_024
"""Merged at a time: less than a millisecond."""


def handle(broker: Services, call: Call, request: DescribeConfigsRequest) -> None:
    broker.turns.begin(call, _answer(broker, call, request))


def _answer(broker: Services, call: Call, request: DescribeConfigsRequest) -> Slices[None]:
    frame = ItemFrame(
        call.correlation_id, call.api, call.version, DescribeConfigsResponse(0), "results"
    )
    resources = yield from _merge(request.resources)
    refusal = over_budget(call.api.key, len(resources))
    yield from emptied(request.resources)
    keys = [*reversed(resources)]
    while keys:
        kind, name = keys.pop()
        names = resources.pop((kind, name))
        result = DescribeConfigsResult(resource_type=kind, resource_name=name)
        try:
            if refusal is not None:
                raise refusal
            check_answer(call.api.key, frame.byte_count)
            shown = _describe(broker, call, kind, name)
            result.configs = [
                _encode(request, one) for one in shown if not names or one.name in names
            ]
        except LogstoreError as error:
            result.error_code, result.error_message = code_of(error), str(error)
        frame.add(result)
        yield
    answer_items(call, frame)


def _merge(
    resources: Sequence[DescribeConfigsResource],
) -> Slices[dict[tuple[int, str], set[str]]]:
    """Names of configs by resource; an empty set asks for all of them."""
    merged: dict[tuple[int, str], set[str]] = {}
    for number, resource in enumerate(resources, 1):
        if number % SLICE_RESOURCES == 0:
            yield
        key = (resource.resource_type, resource.resource_name)
        names = resource.configuration_keys
        if not names:
            merged[key] = set()
        elif key not in merged:
            merged[key] = set(names)
        elif merged[key]:
            merged[key].update(names)
    return merged


def _describe(broker: Services, call: Call, kind: int, name: str) -> Sequence[ShownConfig]:
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
