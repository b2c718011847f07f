"""LeaveGroup, versions 0 to 5: members leave; from version 3 several at once, each with its code.

A consumer that closes waits for this answer, so the answer does not wait for the rebalance.
"""

from broker.answers.group_requests import coordinator_for
from broker.answers.services import Services
from broker.network.authorizer import Operation
from broker.network.call import Call
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
)

MEMBERS_FROM = 3


def handle(broker: Services, call: Call, request: LeaveGroupRequest) -> None:
    coordinator = coordinator_for(broker, call, request.group_id, Operation.READ)
    if isinstance(coordinator, ErrorCode):
        call.answer(LeaveGroupResponse(0, coordinator, []))
        return
    if call.version < MEMBERS_FROM:
        (code,) = coordinator.leave(request.group_id, [(request.member_id, None)])
        call.answer(LeaveGroupResponse(0, code))
        return
    members = request.members or []
    codes = coordinator.leave(
        request.group_id, [(member.member_id, member.group_instance_id) for member in members]
    )
    call.answer(
        LeaveGroupResponse(
            0,
            0,
            [
                MemberResponse(member.member_id, member.group_instance_id, code)
                for member, code in zip(members, codes, strict=True)
            ],
        )
    )
