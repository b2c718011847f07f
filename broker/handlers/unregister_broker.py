"""UnregisterBroker, version 0: forgets a broker that will not come back.

A live broker is refused: its row would be there again with its next start. One whose partitions and
chain the controller has not taken over yet gets the code after which clients ask again.
"""

from functools import partial

from broker.answers.client_changes import log_change
from broker.answers.error_codes import Refuse, code_of
from broker.answers.services import Services
from broker.network.authorizer import CLUSTER, Operation
from broker.network.call import Call
from logstore.errors import LogstoreError
from logstore.protocol.broker_removal import BrokerNotOver, remove_broker
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)


def handle(broker: Services, call: Call, request: UnregisterBrokerRequest) -> None:
    broker.start(call, partial(_unregister, broker, call, request.broker_id), broker.changes)


async def _unregister(broker: Services, call: Call, number: int) -> None:
    response = UnregisterBrokerResponse()
    try:
        await _check(broker, call, number)
        await broker.log.runner.run(remove_broker(number))
        log_change(call, "broker unregistered: broker=%d", number)
    except LogstoreError as error:
        response.error_code, response.error_message = code_of(error), str(error)
    call.answer(response)


async def _check(broker: Services, call: Call, number: int) -> None:
    if not broker.allows(call, Operation.ALTER, *CLUSTER):
        raise Refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "not allowed to unregister brokers")
    if number in broker.log.live_brokers():
        raise Refuse(
            ErrorCode.INVALID_REQUEST, f"the broker is alive: broker={number}; stop it first"
        )
    async for topic in broker.turns.share(list(broker.log.topics.values())):
        if any(row.broker == number for row in topic.rows):
            raise BrokerNotOver(f"it still leads partitions: broker={number} topic={topic.name}")
