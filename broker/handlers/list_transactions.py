"""ListTransactions, versions 0 to 2: transactions that this broker coordinates; there are none.

Tools ask every broker. States that no transaction can have are named in the answer, as Kafka does.

Not done: transactions. `transactional_id_pattern` (version 2) is not compiled, so a pattern that is
none is not refused: nothing could match it.
"""

from broker.answers.nested_answers import answer_nested
from broker.answers.repeats import counted
from broker.answers.services import Services
from broker.network.call import Call
from logstore.slices import Slices
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


def handle(broker: Services, call: Call, request: ListTransactionsRequest) -> None:
    broker.turns.begin(call, _answer(call, request))


def _answer(call: Call, request: ListTransactionsRequest) -> Slices[None]:
    often = yield from counted(request.state_filters)
    unknown = [one for one in often if one not in STATES]
    yield
    yield from answer_nested(
        call, ListTransactionsResponse(unknown_state_filters=unknown), ("unknown_state_filters",)
    )
