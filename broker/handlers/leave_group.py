"""LeaveGroup, versions 0 to 5: members leave; from version 3 several at once, each with its code.

A consumer that closes waits for this answer, so the answer does not wait for the rebalance. Of many
members some leave at a time.
"""

from broker.answers.group_requests import coordinator_for
from broker.answers.nested_answers import answer_nested
from broker.answers.services import Services
from broker.network.authorizer import Operation
from broker.network.call import Call
from logstore.slices import Slices, parts_of
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
)

MEMBERS_FROM = 3

AT_ONCE = 500
"""Members that leave in one step."""


def handle(broker: Services, call: Call, request: LeaveGroupRequest) -> None:
    broker.turns.begin(call, _leave(broker, call, request), in_order=True)


def _leave(broker: Services, call: Call, request: LeaveGroupRequest) -> Slices[None]:
    coordinator = coordinator_for(broker, call, request.group_id, Operation.READ)
    if isinstance(coordinator, ErrorCode):
        call.answer(LeaveGroupResponse(0, coordinator, []))
        return
    if call.version < MEMBERS_FROM:
        (code,) = coordinator.leave(request.group_id, [(request.member_id, None)])
        call.answer(LeaveGroupResponse(0, code))
        return
    response = LeaveGroupResponse()
    for part in parts_of(request.members or (), AT_ONCE):
        who = [(member.member_id, member.group_instance_id) for member in part]
        if coordinator.is_retired:
            codes = [ErrorCode.NOT_COORDINATOR] * len(who)
        else:
            codes = coordinator.leave(request.group_id, who)
        response.members += [
            MemberResponse(*names, code) for names, code in zip(who, codes, strict=True)
        ]
        yield
    yield from answer_nested(call, response, ("members",))
