"""AlterConfigs, versions 0 to 2: a topic's configs become those of the request, and no others.

So do the settings of a broker, or of all brokers, that were changed while they run.

Configs that the request does not name go back to their defaults: clients use
IncrementalAlterConfigs where they can. `validate_only` checks and changes nothing
(`broker.answers.altered_configs`).
"""

from collections.abc import Mapping, Sequence
from functools import partial

from broker.answers.altered_brokers import whole_change
from broker.answers.altered_configs import Apply, alter_each
from broker.answers.broker import Broker
from broker.answers.decisions.config_changes import new_configs
from broker.answers.decisions.item_frames import ItemFrame
from broker.network.call import Call
from broker.requests.encoding import items_of
from logstore.wire.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


async def alter_configs(broker: Broker, call: Call, request: AlterConfigsRequest) -> ItemFrame:
    answer = items_of(call, AlterConfigsResponse(0), "responses")
    await alter_each(
        broker,
        call,
        request.resources,
        partial(_apply_of, broker.settings.topic_defaults),
        whole_change,
        is_check=request.validate_only,
        answer=answer,
        result=AlterConfigsResourceResponse,
    )
    return answer


def _apply_of(defaults: Mapping[str, str], configs: Sequence[AlterableConfig]) -> Apply:
    given = [(one.name, one.value) for one in configs]
    return lambda _: new_configs(given, defaults)
