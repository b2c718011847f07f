"""InitProducerId, versions 0 to 5: an id for an idempotent producer, fresh every time.

Ids are (broker epoch << 32) + counter, so no two brokers and no two lives of one give the same.

Not done: transactions. With a transactional id the answer is COORDINATOR_NOT_AVAILABLE, the same
that FindCoordinator gives: clients look for a coordinator until their own timeout, and say so.
"""

from broker.answers.broker import Broker
from broker.network.authorizer import CLUSTER, Operation, ResourceKind
from broker.network.call import Call
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


def init_producer_id(
    broker: Broker, call: Call, request: InitProducerIdRequest
) -> InitProducerIdResponse:
    code = _refusal(broker, call, request)
    if code:
        return InitProducerIdResponse(0, code, -1, -1)
    return InitProducerIdResponse(0, 0, broker.log.new_producer_id(), 0)


def _refusal(broker: Broker, call: Call, request: InitProducerIdRequest) -> ErrorCode:
    transaction = request.transactional_id
    if transaction == "":
        return ErrorCode.INVALID_REQUEST
    if (request.producer_id < 0) != (request.producer_epoch < 0):
        return ErrorCode.INVALID_REQUEST
    if transaction is not None:
        if not broker.allows(call, Operation.WRITE, ResourceKind.TRANSACTIONAL_ID, transaction):
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    may = broker.sees(call, Operation.IDEMPOTENT_WRITE, *CLUSTER) or broker.allows_on_any(
        call, Operation.WRITE, ResourceKind.TOPIC
    )
    return ErrorCode.NONE if may else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
