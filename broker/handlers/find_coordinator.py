"""FindCoordinator, versions 0 to 6: there is no coordinator yet, say so per key.

COORDINATOR_NOT_AVAILABLE is retriable: clients ask again until their own timeout. The API is
advertised because librdkafka ties other features to it.
"""

from typing import TYPE_CHECKING

from broker.authorizer import Kind, Operation
from broker.call import Call
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

if TYPE_CHECKING:
    from broker.broker import Broker

BATCHED_FROM = 4
GROUP, TRANSACTION, SHARE = 0, 1, 2
SHARE_FROM = 6
NO_NODE = -1
_MESSAGE = "this version serves no groups and no transactions"


def handle(broker: "Broker", call: Call, request: FindCoordinatorRequest) -> None:
    keys = request.coordinator_keys if call.version >= BATCHED_FROM else [request.key]
    found = []
    for key in keys:
        code = _code(broker, call, request.key_type, key)
        found.append(Coordinator(key, NO_NODE, "", -1, code, _MESSAGE))
    if call.version >= BATCHED_FROM:
        call.answer(FindCoordinatorResponse(0, coordinators=found))
    else:
        one = found[0]
        call.answer(FindCoordinatorResponse(0, one.error_code, one.error_message, NO_NODE, "", -1))


def _code(broker: "Broker", call: Call, key_type: int, key: str) -> ErrorCode:
    if (key_type == SHARE and call.version < SHARE_FROM) or key_type not in (
        GROUP,
        TRANSACTION,
        SHARE,
    ):
        return ErrorCode.INVALID_REQUEST
    if key_type == TRANSACTION:
        if not broker.allows(call, Operation.DESCRIBE, Kind.TRANSACTIONAL_ID, key):
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    elif not broker.allows(call, Operation.DESCRIBE, Kind.GROUP, key):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    return ErrorCode.COORDINATOR_NOT_AVAILABLE
