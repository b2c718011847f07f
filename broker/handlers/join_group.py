"""JoinGroup, versions 0 to 9: become a member; answered when all members have joined.

v1 rebalance timeout of its own    v4 MEMBER_ID_REQUIRED (KIP-394)    v5 group instance id
v7 protocol type in the answer     v8 reason                          v9 skip assignment
"""

from broker.answers.broker import Broker
from broker.answers.group_answers import HeldCall
from broker.answers.group_requests import client_host, coordinator_for
from broker.groups.decisions.join import JoinAsk
from broker.groups.decisions.outcome import Joined
from broker.network.authorizer import Operation
from broker.network.call import Call
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)

MEMBER_ID_REQUIRED_FROM = 4
NULL_PROTOCOL_FROM = 7
SKIPS_FROM = 9


def join_group(broker: Broker, call: Call, request: JoinGroupRequest) -> JoinGroupResponse | None:
    """Returns None where the group answers, through its `HeldCall`."""
    group_id, version = request.group_id, call.version
    coordinator = coordinator_for(broker, call, group_id, Operation.READ)
    if isinstance(coordinator, ErrorCode):
        return _respond(version, Joined(coordinator, request.member_id))
    session_ms, rebalance_ms = request.session_timeout_ms, request.rebalance_timeout_ms
    ask = JoinAsk(
        token=HeldCall(
            call,
            coordinator,
            group_id,
            lambda answer: _respond(version, answer),
            lambda code: Joined(code, request.member_id),
        ),
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        client_id=call.client_id or "",
        client_host=client_host(call),
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=max(session_ms if rebalance_ms < 0 else rebalance_ms, 1),
        protocol_type=request.protocol_type,
        protocols=tuple((one.name, bytes(one.metadata)) for one in request.protocols or ()),
        new_member_id=broker.groups.new_member_id(
            request.group_instance_id or call.client_id or ""
        ),
        needs_member_id=version >= MEMBER_ID_REQUIRED_FROM,
        can_skip_assignment=version >= SKIPS_FROM,
    )
    coordinator.join(group_id, ask)
    return None


def _respond(version: int, answer: Joined) -> JoinGroupResponse:
    protocol = answer.protocol
    if protocol is None and version < NULL_PROTOCOL_FROM:
        protocol = ""
    members = [
        JoinGroupResponseMember(member.member_id, member.instance_id, member.metadata)
        for member in answer.members
    ]
    return JoinGroupResponse(
        0,
        answer.code,
        answer.generation,
        answer.protocol_type,
        protocol,
        answer.leader,
        answer.skips_assignment,
        answer.member_id,
        members,
    )
