"""Heartbeat, versions 0 to 4: a member says that it is alive.

REBALANCE_IN_PROGRESS sends it back to JoinGroup.
"""

from broker.answers.broker import Broker
from broker.answers.group_requests import coordinator_for
from broker.network.authorizer import Operation
from broker.network.call import Call
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def heartbeat(broker: Broker, call: Call, request: HeartbeatRequest) -> HeartbeatResponse:
    coordinator = coordinator_for(broker, call, request.group_id, Operation.READ)
    if isinstance(coordinator, ErrorCode):
        # While the group is loaded its members' time does not run.
        is_loading = coordinator is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return HeartbeatResponse(0, ErrorCode.NONE if is_loading else coordinator)
    code = coordinator.heartbeat(
        request.group_id, request.member_id, request.group_instance_id, request.generation_id
    )
    return HeartbeatResponse(0, code)
