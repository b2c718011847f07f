"""IncrementalAlterConfigs, versions 0 and 1: each resource has its own outcome (KIP-339).

`validate_only` checks and changes nothing (`broker.answers.altered_configs`).
"""

from collections.abc import Mapping, Sequence
from functools import partial

from broker.answers.altered_brokers import incremental_change
from broker.answers.altered_configs import Apply, alter_each
from broker.answers.broker import Broker
from broker.answers.decisions.config_changes import apply_changes, check_changes
from broker.answers.decisions.item_frames import ItemFrame
from broker.network.call import Call
from broker.requests.encoding import items_of
from logstore.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


async def incremental_alter_configs(
    broker: Broker, call: Call, request: IncrementalAlterConfigsRequest
) -> ItemFrame:
    answer = items_of(call, IncrementalAlterConfigsResponse(0), "responses")
    await alter_each(
        broker,
        call,
        request.resources,
        partial(_apply_of, broker),
        incremental_change,
        is_check=request.validate_only,
        answer=answer,
        result=AlterConfigsResourceResponse,
    )
    return answer


def _apply_of(broker: Broker, configs: Sequence[AlterableConfig]) -> Apply:
    operations = [(one.name, one.config_operation, one.value) for one in configs]

    def apply(configs: Mapping[str, str]) -> dict[str, str]:
        defaults = broker.settings.topic_defaults
        return apply_changes(configs, defaults, check_changes(operations))

    return apply
