"""DescribeGroups, versions 0 to 6: state and members of groups.

A group that does not exist is "Dead"; from version 6 on it is GROUP_ID_NOT_FOUND as well.
"""

from broker.answers.broker import Broker
from broker.answers.decisions.budgets import check_answer
from broker.answers.decisions.item_frames import ItemFrame
from broker.answers.decisions.refuse import Refuse
from broker.answers.decisions.repeats import without_repeats
from broker.answers.group_requests import coordinator_for
from broker.groups.decisions.describe import DEAD, describe
from broker.network.authorizer import Operation, ResourceKind
from broker.network.call import Call
from broker.requests.encoding import items_of
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

NOT_FOUND_FROM = 6
GROUP_OPERATIONS = (
    *(Operation.READ, Operation.DELETE, Operation.DESCRIBE),
    *(Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS),
)


async def describe_groups(broker: Broker, call: Call, request: DescribeGroupsRequest) -> ItemFrame:
    answer = items_of(call, DescribeGroupsResponse(0), "groups")
    async for group_id in call.each(without_repeats(request.groups)):
        try:
            check_answer(call.api.key, answer.byte_count)
            group = _describe(broker, call, group_id)
        except Refuse as refusal:
            group = DescribedGroup(refusal.code, str(refusal), group_id)
        if request.include_authorized_operations and not group.error_code:
            group.authorized_operations = broker.allowed_bits(
                call, GROUP_OPERATIONS, ResourceKind.GROUP, group_id
            )
        answer.add(group)
    return answer


def _describe(broker: Broker, call: Call, group_id: str) -> DescribedGroup:
    coordinator = coordinator_for(broker, call, group_id, Operation.DESCRIBE, may_be_nameless=True)
    if isinstance(coordinator, ErrorCode):
        return DescribedGroup(coordinator, None, group_id)
    description = describe(coordinator.states.get(group_id))
    if description.state == DEAD and call.version >= NOT_FOUND_FROM:
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
        for member, metadata, assignment in description.members
    ]
    return DescribedGroup(
        0,
        None,
        group_id,
        description.state,
        description.protocol_type,
        description.protocol,
        members,
    )
