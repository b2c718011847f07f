"""ListConfigResources, versions 0 and 1: the resources that configs can be described of.

Version 0 lists resources of client metrics alone (KIP-714), of which there are none. An empty list
of types asks for all types. Groups have no configs here.
"""

from collections.abc import Iterable

from broker.answers.broker import Broker
from broker.answers.config_resources import LISTED_TYPES, ResourceType
from broker.answers.decisions.refuse import Refuse
from broker.network.call import Call
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)


async def list_config_resources(
    broker: Broker, call: Call, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    known = LISTED_TYPES[call.version]
    types = dict.fromkeys(request.resource_types or known)
    if not types.keys() <= known:
        raise Refuse(ErrorCode.UNSUPPORTED_VERSION, f"no such types of resources: {[*types]}")
    resources: list[ConfigResource] = []
    for kind in types:
        async for name in call.each(_names(broker, kind)):
            resources.append(ConfigResource(name, kind))
    return ListConfigResourcesResponse(0, ErrorCode.NONE, resources)


def _names(broker: Broker, kind: int) -> Iterable[str]:
    if kind == ResourceType.TOPIC:
        return list(broker.log.topics)
    if kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
        return [str(one) for one in sorted(broker.log.live_brokers())]
    return ()
