"""UnregisterBroker, version 0: forgets a broker that will not come back.

A live broker is refused: its row would be there again with its next start. One whose partitions and
chain the controller has not taken over yet gets the code after which clients ask again.
"""

from broker.answers.broker import Broker
from broker.answers.client_changes import log_change
from broker.answers.decisions.refuse import Refuse
from broker.network.call import Call
from broker.requests.refusals import errors_in
from logstore.protocol.leading.broker_removal import BrokerNotOver, remove_broker
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)


async def unregister_broker(
    broker: Broker, call: Call, request: UnregisterBrokerRequest
) -> UnregisterBrokerResponse:
    number = request.broker_id
    response = UnregisterBrokerResponse()
    with errors_in(response):
        await _check(broker, call, number)
        await broker.log.runner.run(remove_broker(number))
        log_change(call, "broker unregistered: broker=%d", number)
    return response


async def _check(broker: Broker, call: Call, number: int) -> None:
    if number in broker.log.live_brokers():
        raise Refuse(
            ErrorCode.INVALID_REQUEST, f"the broker is alive: broker={number}; stop it first"
        )
    async for topic in call.each(list(broker.log.topics.values())):
        if any(row.broker == number for row in topic.rows):
            raise BrokerNotOver(f"it still leads partitions: broker={number} topic={topic.name}")
