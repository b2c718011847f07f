"""ListTransactions: there are none, and states that none could have are named."""

from logstore.wire.framing.client import Connection
from logstore.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from tests.broker.running import Running

LIST_TRANSACTIONS = 66


def test_there_are_no_transactions(running: Running, client: Connection) -> None:
    for version in range(3):
        request = ListTransactionsRequest()
        response: ListTransactionsResponse = client.call(LIST_TRANSACTIONS, request, version)

        assert response.error_code == 0
        assert response.transaction_states == []
        assert response.unknown_state_filters == []


def test_states_that_are_none_are_named_once(running: Running, client: Connection) -> None:
    request = ListTransactionsRequest(["Ongoing", "Never", "ongoing", "Never", "Dead"])
    response: ListTransactionsResponse = client.call(LIST_TRANSACTIONS, request, 1)

    assert response.unknown_state_filters == ["Never", "ongoing"]
