"""SyncGroup, versions 0 to 5: get one's part; answered when the leader has handed in all parts."""

from broker.answers.broker import Broker
from broker.answers.group_answers import HeldCall
from broker.answers.group_requests import coordinator_for
from broker.groups.decisions.outcome import Synced
from broker.groups.decisions.sync import SyncAsk
from broker.network.authorizer import Operation
from broker.network.call import Call
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

PROTOCOL_FROM = 5
"""From this version on a member names the protocol that it got from JoinGroup."""


def sync_group(broker: Broker, call: Call, request: SyncGroupRequest) -> SyncGroupResponse | None:
    """Returns None where the group answers, through its `HeldCall`."""
    group_id = request.group_id
    if call.version >= PROTOCOL_FROM and not (request.protocol_type and request.protocol_name):
        return _respond(Synced(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    coordinator = coordinator_for(broker, call, group_id, Operation.READ)
    if isinstance(coordinator, ErrorCode):
        # Until it is loaded no member has a generation here: joining again is as good, and sooner.
        is_loading = coordinator is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        code = ErrorCode.REBALANCE_IN_PROGRESS if is_loading else coordinator
        return _respond(Synced(code))
    ask = SyncAsk(
        token=HeldCall(call, coordinator, group_id, _respond, Synced),
        member_id=request.member_id,
        generation=request.generation_id,
        instance_id=request.group_instance_id,
        protocol_type=request.protocol_type,
        protocol=request.protocol_name,
        assignments={a.member_id: bytes(a.assignment) for a in request.assignments or ()},
    )
    coordinator.sync(group_id, ask)
    return None


def _respond(answer: Synced) -> SyncGroupResponse:
    return SyncGroupResponse(
        0, answer.code, answer.protocol_type, answer.protocol, answer.assignment
    )
