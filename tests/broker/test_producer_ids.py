"""InitProducerId and FindCoordinator: what idempotent producers need, and what is not there yet."""

import pytest

from logstore.wire.errors import ErrorCode
from logstore.wire.framing.client import Connection
from logstore.wire.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from logstore.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.broker.running import (
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    Running,
    batch_of,
    produce,
    running_broker,
)

FIRST = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}


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


def test_a_producer_is_forgotten_after_the_set_time_and_begins_again() -> None:
    with running_broker({"producer.id.expiration.ms": "1"}) as running, running.connect() as client:
        running.create_topic("idle")
        assert produce(client, "idle", batch_of(b"a", b"b", **FIRST)).error_code == 0
        began_ms = running.do(running.log.writer.chain_ms)
        running.wait_until(lambda: running.log.writer.chain_ms() > began_ms + 1)
        assert produce(client, "idle", batch_of(b"c", **FIRST)).error_code == 0
    with running_broker() as running, running.connect() as client:
        running.create_topic("idle")
        assert produce(client, "idle", batch_of(b"a", b"b", **FIRST)).error_code == 0
        refused = produce(client, "idle", batch_of(b"c", **FIRST)).error_code
        assert refused == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
