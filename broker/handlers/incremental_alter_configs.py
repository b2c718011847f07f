"""IncrementalAlterConfigs, versions 0 and 1: each resource has its own outcome (KIP-339).

`validate_only` checks and changes nothing (`broker.answers.altered_configs`).
"""

from collections.abc import Mapping
from functools import partial

from broker.answers.altered_configs import WantedChange, alter_each
from broker.answers.config_changes import apply_changes, check_changes
from broker.answers.error_codes import code_of
from broker.answers.services import Services
from broker.network.call import Call
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


def handle(broker: Services, call: Call, request: IncrementalAlterConfigsRequest) -> None:
    broker.start(call, partial(_alter_all, broker, call, request), broker.changes)


async def _alter_all(broker: Services, call: Call, request: IncrementalAlterConfigsRequest) -> None:
    wanted = [_wanted(broker, one) for one in request.resources]
    outcomes = await alter_each(broker, call, wanted, is_check=request.validate_only)
    results = [
        AlterConfigsResourceResponse(
            ErrorCode.NONE if error is None else code_of(error),
            None if error is None else str(error),
            *one[:2],
        )
        for one, error in zip(wanted, outcomes, strict=True)
    ]
    call.answer(IncrementalAlterConfigsResponse(0, results))


def _wanted(broker: Services, asked: AlterConfigsResource) -> WantedChange:
    operations = [(one.name, one.config_operation, one.value) for one in asked.configs]

    def apply(configs: Mapping[str, str]) -> dict[str, str]:
        defaults = broker.settings.topic_defaults
        return apply_changes(configs, defaults, check_changes(operations))

    names = [one.name for one in asked.configs]
    return WantedChange(asked.resource_type, asked.resource_name, names, apply)
