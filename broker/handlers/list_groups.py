"""ListGroups, versions 0 to 5: the groups that this broker coordinates.

Tools ask every broker. A group of which this client may know nothing is not listed. From version 4
on by state, from version 5 by type; all groups here are of the type "classic".
"""

from functools import partial

from broker.answers.group_requests import when_leased
from broker.answers.services import Services
from broker.groups.decisions.describe import CLASSIC, listed
from broker.network.authorizer import CLUSTER, Operation, ResourceKind
from broker.network.call import Call
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)


def handle(broker: Services, call: Call, request: ListGroupsRequest) -> None:
    when_leased(broker, call, partial(_handle, broker, call, request))


def _handle(broker: Services, call: Call, request: ListGroupsRequest) -> None:
    if broker.groups.is_loading:
        call.answer(ListGroupsResponse(0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, []))
        return
    sees_all = broker.allows(call, Operation.DESCRIBE, *CLUSTER)
    states, types = request.states_filter or (), request.types_filter or ()
    groups = [
        ListedGroup(group.group_id, group.type_now, group.phase.value, CLASSIC)
        for coordinator in broker.groups.loaded()
        for group in listed(coordinator.states.groups.values(), states, types)
        if sees_all or broker.allows(call, Operation.DESCRIBE, ResourceKind.GROUP, group.group_id)
    ]
    call.answer(ListGroupsResponse(0, 0, groups))
