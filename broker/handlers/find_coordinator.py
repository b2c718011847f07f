"""FindCoordinator, versions 0 to 6: which broker coordinates a group, one answer per key.

There are no coordinators of transactions yet, nor of share groups: COORDINATOR_NOT_AVAILABLE, on
which clients ask again until their own timeout.
"""

from broker.answers.broker import Broker
from broker.answers.decisions.item_frames import ItemFrame
from broker.answers.group_coordinators import find_group, has_offsets_topic
from broker.network.authorizer import Operation, ResourceKind
from broker.network.call import Call
from broker.requests.encoding import items_of
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

BATCHED_FROM = 4
GROUP, TRANSACTION, SHARE = 0, 1, 2
SHARE_FROM = 6
NO_NODE = -1
CREATION_TIMEOUT_S = 5.0
_MESSAGE = "transactions and share groups are not supported by this version"


async def find_coordinator(
    broker: Broker, call: Call, request: FindCoordinatorRequest
) -> FindCoordinatorResponse | ItemFrame:
    if request.key_type == GROUP and not has_offsets_topic(broker):
        # The first group there is waits for the topic: sooner done than to be asked again.
        broker.groups.create_topic()
        await broker.topic_watch.until(lambda: has_offsets_topic(broker), CREATION_TIMEOUT_S)
    elif not broker.leader_settling.is_settled():
        # A coordinator that has just died is not named (`broker.answers.leader_settling`).
        await broker.leader_settling.wait()
    if call.version < BATCHED_FROM:
        one = _find(broker, call, request.key_type, request.key)
        return FindCoordinatorResponse(
            0, one.error_code, one.error_message, one.node_id, one.host, one.port
        )
    answer = items_of(call, FindCoordinatorResponse(0), "coordinators")
    async for key in call.each(request.coordinator_keys or ()):
        answer.add(_find(broker, call, request.key_type, key))
    return answer


def _find(broker: Broker, call: Call, key_type: int, key: str) -> Coordinator:
    code = _refusal(broker, call, key_type, key)
    if not code and key_type == GROUP:
        return find_group(broker, call, key)
    code = code or ErrorCode.COORDINATOR_NOT_AVAILABLE
    return Coordinator(key, NO_NODE, "", -1, code, _MESSAGE)


def _refusal(broker: Broker, call: Call, key_type: int, key: str) -> ErrorCode:
    if (key_type == SHARE and call.version < SHARE_FROM) or key_type not in (
        GROUP,
        TRANSACTION,
        SHARE,
    ):
        return ErrorCode.INVALID_REQUEST
    if key_type == TRANSACTION:
        if not broker.allows(call, Operation.DESCRIBE, ResourceKind.TRANSACTIONAL_ID, key):
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    elif not broker.allows(call, Operation.DESCRIBE, ResourceKind.GROUP, key):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    return ErrorCode.NONE
