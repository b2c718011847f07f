"""ListGroups, versions 0 to 5: the groups that this broker coordinates.

Tools ask every broker. A group of which this client may know nothing is not listed. From version 4
on by state, from version 5 by type; all groups here are of the type "classic".
"""

from broker.answers.broker import Broker
from broker.groups.decisions.describe import CLASSIC, list_filter
from broker.network.authorizer import CLUSTER, Operation, ResourceKind
from broker.network.call import Call
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)


async def list_groups(broker: Broker, call: Call, request: ListGroupsRequest) -> ListGroupsResponse:
    """A group that comes or goes between two turns may be listed or not."""
    is_listed = await call.finish(
        list_filter(request.states_filter or (), request.types_filter or ())
    )
    if broker.groups.is_loading:
        return ListGroupsResponse(0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])
    sees_all = broker.sees(call, Operation.DESCRIBE, *CLUSTER)
    groups = [
        group
        for coordinator in broker.groups.loaded()
        for group in coordinator.states.groups.values()
    ]
    response = ListGroupsResponse()
    async for group in call.each(groups):
        if is_listed(group) and (
            sees_all or broker.sees(call, Operation.DESCRIBE, ResourceKind.GROUP, group.group_id)
        ):
            response.groups.append(
                ListedGroup(group.group_id, group.type_now, group.phase.value, CLASSIC)
            )
    return response
