"""LeaveGroup, versions 0 to 5: members leave; from version 3 several at once, each with its code.

A consumer that closes waits for this answer, so the answer does not wait for the rebalance. Of many
members some leave at a time.
"""

from broker.answers.broker import Broker
from broker.answers.group_requests import coordinator_for
from broker.network.authorizer import Operation
from broker.network.call import Call
from logstore.slices import parts_of
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
)

MEMBERS_FROM = 3

AT_ONCE = 500
"""Members that leave in one step."""


async def leave_group(broker: Broker, call: Call, request: LeaveGroupRequest) -> LeaveGroupResponse:
    coordinator = coordinator_for(broker, call, request.group_id, Operation.READ)
    if isinstance(coordinator, ErrorCode):
        return LeaveGroupResponse(0, coordinator, [])
    if call.version < MEMBERS_FROM:
        (code,) = coordinator.leave(request.group_id, [(request.member_id, None)])
        return LeaveGroupResponse(0, code)
    response = LeaveGroupResponse()
    async for part in call.each(parts_of(request.members or (), AT_ONCE)):
        who = [(member.member_id, member.group_instance_id) for member in part]
        if coordinator.is_retired:
            codes = [ErrorCode.NOT_COORDINATOR] * len(who)
        else:
            codes = coordinator.leave(request.group_id, who)
        response.members += [
            MemberResponse(*names, code) for names, code in zip(who, codes, strict=True)
        ]
    return response
