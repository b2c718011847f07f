"""UnregisterBroker: a broker that is gone is forgotten, once others have taken over from it."""

import pytest

from broker.network.authorizer import Operation
from logstore.formats.chain_row import ChainStatus
from logstore.wire.errors import ErrorCode
from logstore.wire.framing.client import Connection
from logstore.wire.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from logstore.wire.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from tests.broker.handlers.test_describe_quorum import controlled
from tests.broker.network.test_authorizer import deny
from tests.broker.running import Running
from tests.broker.running_cluster import meet, running_cluster
from tests.broker.test_cluster_admin import make

UNREGISTER_BROKER, DESCRIBE_CLUSTER = 64, 60


def unregister(client: Connection, number: int) -> UnregisterBrokerResponse:
    response: UnregisterBrokerResponse = client.call(
        UNREGISTER_BROKER, UnregisterBrokerRequest(number), 0
    )
    return response


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (1, ErrorCode.INVALID_REQUEST),
        (7, ErrorCode.BROKER_ID_NOT_REGISTERED),
        (-1, ErrorCode.BROKER_ID_NOT_REGISTERED),
    ],
)
def test_live_and_unknown_brokers_are_refused(
    client: Connection, number: int, code: ErrorCode
) -> None:
    answer = unregister(client, number)

    assert answer.error_code == code
    assert f"broker={number}" in (answer.error_message or "")


def test_it_needs_alter_on_the_cluster(running: Running, client: Connection) -> None:
    deny(running, Operation.ALTER)

    assert unregister(client, 7).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@pytest.mark.slow
def test_a_broker_that_is_gone_is_forgotten_once_its_partitions_are_taken_over() -> None:
    with running_cluster(2) as brokers, brokers[1].connect() as client:
        one, other = brokers[1], brokers[2]
        make(brokers, client, "taken", [2, 1])
        chain = other.log.epoch
        assert unregister(client, 2).error_code == ErrorCode.INVALID_REQUEST
        other.stop()
        one.wait_until(lambda: 2 not in one.log.live_brokers())
        too_soon = unregister(client, 2)
        with controlled(one):
            one.wait_until(lambda: 0 in one.log.topics["taken"].leaders)
            rows = one.shared.rows
            sealed = ChainStatus.SEALED.value
            one.wait_until(lambda: rows.peek("chain", f"{chain:020d}")["status"] == sealed)
            answer = unregister(client, 2)
        one.wait_until(lambda: 2 not in one.log.brokers)
        request = DescribeClusterRequest(include_fenced_brokers=True)
        shown: DescribeClusterResponse = client.call(DESCRIBE_CLUSTER, request, 2)
        again = unregister(client, 2)

        later = Running({}, 1 << 24, broker=2, rack="b", shared=one.shared)
        later.start()
        brokers[2] = later
        meet(one, brokers)
        later.stop()

    assert ErrorCode(too_soon.error_code).retriable
    assert (answer.error_code, answer.error_message) == (0, None)
    assert [broker.broker_id for broker in shown.brokers] == [1]
    assert again.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
