"""AlterConfigs, versions 0 to 2: a topic's configs become those of the request, and no others.

Configs that the request does not name go back to their defaults: clients use
IncrementalAlterConfigs where they can. `validate_only` checks and changes nothing
(`broker.answers.altered_configs`).
"""

from functools import partial

from broker.answers.altered_configs import WantedChange, alter_each
from broker.answers.config_changes import new_configs
from broker.answers.error_codes import code_of
from broker.answers.services import Services
from broker.network.call import Call
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


def handle(broker: Services, call: Call, request: AlterConfigsRequest) -> None:
    broker.start(call, partial(_alter_all, broker, call, request), broker.changes)


async def _alter_all(broker: Services, call: Call, request: AlterConfigsRequest) -> None:
    wanted = [_wanted(one) for one in request.resources]
    outcomes = await alter_each(broker, call, wanted, is_check=request.validate_only)
    results = [
        AlterConfigsResourceResponse(
            ErrorCode.NONE if error is None else code_of(error),
            None if error is None else str(error),
            *one[:2],
        )
        for one, error in zip(wanted, outcomes, strict=True)
    ]
    call.answer(AlterConfigsResponse(0, results))


def _wanted(asked: AlterConfigsResource) -> WantedChange:
    given = [(one.name, one.value) for one in asked.configs]
    names = [one.name for one in asked.configs]
    return WantedChange(
        asked.resource_type, asked.resource_name, names, lambda _: new_configs(given)
    )
