"""DeleteGroups, versions 0 to 2: groups without members go, each with its own code.

The answer leaves when all that was deleted is committed.
"""

from broker.answers.broker import Broker
from broker.answers.client_changes import log_change
from broker.answers.group_requests import coordinator_for
from broker.groups.coordinator import Coordinator
from broker.network.authorizer import Operation
from broker.network.call import Call
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


async def delete_groups(
    broker: Broker, call: Call, request: DeleteGroupsRequest
) -> DeleteGroupsResponse:
    results: list[DeletableGroupResult] = []
    deleted: dict[Coordinator, list[DeletableGroupResult]] = {}
    async for group_id in call.each(dict.fromkeys(request.groups_names or ())):
        result = DeletableGroupResult(group_id)
        results.append(result)
        coordinator = coordinator_for(
            broker, call, group_id, Operation.DELETE, may_be_nameless=True
        )
        if isinstance(coordinator, ErrorCode):
            result.error_code = coordinator
        else:
            result.error_code = await call.finish(coordinator.delete_group(group_id))
            deleted.setdefault(coordinator, []).append(result)
    call.let_later_begin()
    for committed, of_one in [(one.safe(), of_one) for one, of_one in deleted.items()]:
        code = await committed
        for result in of_one:
            result.error_code = result.error_code or code
            if not result.error_code:
                log_change(call, "group deleted: group=%s", result.group_id)
    return DeleteGroupsResponse(0, results)
