"""DescribeGroups, versions 0 to 6: state and members of groups.

A group that does not exist is "Dead"; from version 6 on it is GROUP_ID_NOT_FOUND as well.
"""

from functools import partial

from broker.answers.group_requests import coordinator_for, when_leased
from broker.answers.repeats import without_repeats
from broker.answers.services import Services
from broker.groups.decisions.describe import DEAD, describe
from broker.network.authorizer import Operation, ResourceKind
from broker.network.call import Call
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

NOT_FOUND_FROM = 6
GROUP_OPERATIONS = (Operation.READ, Operation.DELETE, Operation.DESCRIBE)


def handle(broker: Services, call: Call, request: DescribeGroupsRequest) -> None:
    when_leased(broker, call, partial(_handle, broker, call, request))


def _handle(broker: Services, call: Call, request: DescribeGroupsRequest) -> None:
    groups = []
    for group_id in without_repeats(request.groups):
        group = _describe(broker, call, group_id)
        if request.include_authorized_operations and not group.error_code:
            group.authorized_operations = broker.allowed_bits(
                call, GROUP_OPERATIONS, ResourceKind.GROUP, group_id
            )
        groups.append(group)
    call.answer(DescribeGroupsResponse(0, groups))


def _describe(broker: Services, call: Call, group_id: str) -> DescribedGroup:
    coordinator = coordinator_for(broker, call, group_id, Operation.DESCRIBE)
    if isinstance(coordinator, ErrorCode):
        return DescribedGroup(coordinator, None, group_id)
    found = describe(coordinator.states.get(group_id))
    if found.state == DEAD and call.version >= NOT_FOUND_FROM:
        text = f"no such group: group={group_id}"
        return DescribedGroup(ErrorCode.GROUP_ID_NOT_FOUND, text, group_id, DEAD)
    members = [
        DescribedGroupMember(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            metadata,
            assignment,
        )
        for member, metadata, assignment in found.members
    ]
    return DescribedGroup(
        0, None, group_id, found.state, found.protocol_type, found.protocol, members
    )
