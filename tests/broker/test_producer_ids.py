"""InitProducerId and FindCoordinator: what idempotent producers need, and what is not there yet."""

import pytest

from logstore.wire.errors import ErrorCode
from logstore.wire.framing.client import Connection
from logstore.wire.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from logstore.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.broker.running import FIND_COORDINATOR, INIT_PRODUCER_ID, Running


def init(client: Connection, name: str | None, version: int = 5) -> InitProducerIdResponse:
    response: InitProducerIdResponse = client.call(
        INIT_PRODUCER_ID, InitProducerIdRequest(name, 60_000), version
    )
    return response


@pytest.mark.parametrize("version", range(6))
def test_every_call_gets_an_id_of_its_own(
    running: Running, client: Connection, version: int
) -> None:
    answers = [init(client, None, version) for _ in range(3)]
    ids = [answer.producer_id for answer in answers]

    assert all((a.error_code, a.producer_epoch) == (0, 0) for a in answers)
    assert len(set(ids)) == 3
    assert {one >> 32 for one in ids} == {running.log.epoch}


def test_transactions_are_not_there(client: Connection) -> None:
    answer = init(client, "transaction")

    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert answer.producer_id == -1
    assert init(client, "").error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", range(1, 7))
def test_no_coordinator_of_transactions_is_available(client: Connection, version: int) -> None:
    request = FindCoordinatorRequest("producer", 1, ["one", "two"])
    response: FindCoordinatorResponse = client.call(FIND_COORDINATOR, request, version)

    if version < 4:
        assert response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert response.node_id == -1
    else:
        reported = [(one.key, one.error_code, one.node_id) for one in response.coordinators]
        assert reported == [("one", 15, -1), ("two", 15, -1)]


def test_an_unknown_kind_of_coordinator_is_refused(client: Connection) -> None:
    for kind, version in ((2, 5), (3, 6), (-1, 6)):
        request = FindCoordinatorRequest("", kind, ["one"])
        response: FindCoordinatorResponse = client.call(FIND_COORDINATOR, request, version)
        assert response.coordinators[0].error_code == ErrorCode.INVALID_REQUEST
