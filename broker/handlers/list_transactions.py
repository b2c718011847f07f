"""ListTransactions, versions 0 to 2: transactions that this broker coordinates; there are none.

Tools ask every broker. States that no transaction can have are named in the answer, as Kafka does.

Not done: transactions. `transactional_id_pattern` (version 2) is not compiled, so a pattern that is
none is not refused: nothing could match it.
"""

from broker.answers.broker import Broker
from broker.answers.decisions.repeats import counted
from broker.network.call import Call
from logstore.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)

STATES = frozenset(
    (
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    )
)


async def list_transactions(
    broker: Broker, call: Call, request: ListTransactionsRequest
) -> ListTransactionsResponse:
    often = await call.finish(counted(request.state_filters))
    unknown = [state async for state in call.each(often) if state not in STATES]
    return ListTransactionsResponse(unknown_state_filters=unknown)
