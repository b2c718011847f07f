"""FindCoordinator, versions 0 to 6: which broker coordinates a group, one answer per key.

There are no coordinators of transactions yet, nor of share groups: COORDINATOR_NOT_AVAILABLE, on
which clients ask again until their own timeout.
"""

from functools import partial

from broker.answers.group_coordinators import find_group, has_offsets_topic
from broker.answers.item_frames import ItemFrame
from broker.answers.nested_answers import answer_items
from broker.answers.services import Services
from broker.network.authorizer import Operation, ResourceKind
from broker.network.call import Call
from logstore.slices import Slices
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


def handle(broker: Services, call: Call, request: FindCoordinatorRequest) -> None:
    if request.key_type == GROUP and not has_offsets_topic(broker):
        broker.groups.create_topic()
        broker.start(call, partial(_wait_then_answer, broker, call, request), None)
    elif broker.leader_settling.is_settled():
        broker.turns.begin(call, _answer(broker, call, request))
    else:
        broker.start(call, partial(_answer_settled, broker, call, request), None)


async def _answer_settled(broker: Services, call: Call, request: FindCoordinatorRequest) -> None:
    """A coordinator that has just died is not named (`broker.answers.leader_settling`)."""
    await broker.leader_settling.wait()
    await broker.turns.finish(_answer(broker, call, request))


async def _wait_then_answer(broker: Services, call: Call, request: FindCoordinatorRequest) -> None:
    """The first group there is waits for the topic: sooner done than to be asked again."""
    await broker.topic_watch.until(lambda: has_offsets_topic(broker), CREATION_TIMEOUT_S)
    await broker.turns.finish(_answer(broker, call, request))


def _answer(broker: Services, call: Call, request: FindCoordinatorRequest) -> Slices[None]:
    if call.version < BATCHED_FROM:
        one = _find(broker, call, request.key_type, request.key)
        call.answer(
            FindCoordinatorResponse(
                0, one.error_code, one.error_message, one.node_id, one.host, one.port
            )
        )
        return
    frame = ItemFrame(
        call.correlation_id, call.api, call.version, FindCoordinatorResponse(0), "coordinators"
    )
    for key in request.coordinator_keys or ():
        frame.add(_find(broker, call, request.key_type, key))
        yield
    answer_items(call, frame)


def _find(broker: Services, call: Call, key_type: int, key: str) -> Coordinator:
    code = _refusal(broker, call, key_type, key)
    if not code and key_type == GROUP:
        return find_group(broker, call, key)
    code = code or ErrorCode.COORDINATOR_NOT_AVAILABLE
    return Coordinator(key, NO_NODE, "", -1, code, _MESSAGE)


def _refusal(broker: Services, call: Call, key_type: int, key: str) -> ErrorCode:
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
