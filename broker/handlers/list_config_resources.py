"""ListConfigResources, versions 0 and 1: the resources that configs can be described of.

Version 0 lists resources of client metrics alone (KIP-714), of which there are none. An empty list
of types asks for all types. Groups have no configs here.
"""

from collections.abc import Iterable

from broker.answers.config_resources import LISTED_TYPES, ResourceType
from broker.answers.nested_answers import answer_nested
from broker.answers.services import Services
from broker.network.authorizer import CLUSTER, Operation
from broker.network.call import Call
from logstore.slices import Slices
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

TOPICS_PER_SLICE = 1000


def handle(broker: Services, call: Call, request: ListConfigResourcesRequest) -> None:
    known = LISTED_TYPES[call.version]
    types = dict.fromkeys(request.resource_types or known)
    if not broker.allows(call, Operation.DESCRIBE_CONFIGS, *CLUSTER):
        call.answer(ListConfigResourcesResponse(0, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    elif not types.keys() <= known:
        call.answer(ListConfigResourcesResponse(0, ErrorCode.UNSUPPORTED_VERSION))
    else:
        broker.turns.begin(call, _answer(broker, call, types))


def _answer(broker: Services, call: Call, types: Iterable[int]) -> Slices[None]:
    resources: list[ConfigResource] = []
    for kind in types:
        for number, name in enumerate(_names(broker, kind), 1):
            resources.append(ConfigResource(name, kind))
            if number % TOPICS_PER_SLICE == 0:
                yield
    yield from answer_nested(
        call, ListConfigResourcesResponse(0, ErrorCode.NONE, resources), ("config_resources",)
    )


def _names(broker: Services, kind: int) -> Iterable[str]:
    if kind == ResourceType.TOPIC:
        return list(broker.log.topics)
    if kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
        return [str(one) for one in sorted(broker.log.live_brokers())]
    return ()
