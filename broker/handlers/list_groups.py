"""ListGroups, versions 0 to 5: the groups that this broker coordinates.

Tools ask every broker. A group of which this client may know nothing is not listed. From version 4
on by state, from version 5 by type; all groups here are of the type "classic".
"""

from broker.answers.group_requests import answer_read, when_leased
from broker.answers.nested_frames import nested_frame
from broker.answers.services import Services
from broker.groups.decisions.describe import CLASSIC, list_filter
from broker.network.authorizer import CLUSTER, Operation, ResourceKind
from broker.network.call import Call
from logstore.slices import Slices, emptied
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)


def handle(broker: Services, call: Call, request: ListGroupsRequest) -> None:
    def begin() -> None:
        broker.turns.begin(call, _answer(broker, call, request))

    when_leased(broker, call, begin)


def _answer(broker: Services, call: Call, request: ListGroupsRequest) -> Slices[None]:
    """A group that comes or goes between two slices may be listed or not."""
    is_listed = yield from list_filter(request.states_filter or (), request.types_filter or ())
    yield from emptied(request.states_filter)
    yield from emptied(request.types_filter)
    if broker.groups.is_loading:
        call.answer(ListGroupsResponse(0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, []))
        return
    was_fenced = broker.log.fenced.is_set()
    sees_all = broker.allows(call, Operation.DESCRIBE, *CLUSTER)
    groups = [
        group
        for coordinator in broker.groups.loaded()
        for group in coordinator.states.groups.values()
    ]
    yield
    response = ListGroupsResponse()
    for group in groups:
        if is_listed(group) and (
            sees_all or broker.allows(call, Operation.DESCRIBE, ResourceKind.GROUP, group.group_id)
        ):
            response.groups.append(
                ListedGroup(group.group_id, group.type_now, group.phase.value, CLASSIC)
            )
        yield
    call.say_throttle(response)
    frame = yield from nested_frame(
        call.correlation_id, call.api, call.version, response, ("groups",)
    )
    answer_read(broker, call, lambda: call.answer_bytes(frame), was_fenced=was_fenced)
