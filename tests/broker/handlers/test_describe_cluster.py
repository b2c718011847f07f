"""DescribeCluster: who is there, who is fenced, and what kind of endpoint this is."""

import pytest

from logstore.wire.errors import ErrorCode
from logstore.wire.framing.client import Connection
from logstore.wire.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from tests.broker.running import Running

DESCRIBE_CLUSTER = 60
CLUSTER_OPERATIONS = sum(1 << n for n in (5, 7, 8, 9, 10, 11, 12))
NOT_ASKED = -(2**31)


def describe(client: Connection, version: int = 2, **fields: bool | int) -> DescribeClusterResponse:
    request = DescribeClusterRequest(**fields)  # type: ignore[arg-type]
    response: DescribeClusterResponse = client.call(DESCRIBE_CLUSTER, request, version)
    return response


@pytest.mark.parametrize("version", range(3))
def test_every_version_tells_brokers_and_controller(
    running: Running, client: Connection, version: int
) -> None:
    answer = describe(client, version)
    (broker,) = answer.brokers

    assert (answer.error_code, answer.error_message) == (0, None)
    assert (answer.cluster_id, answer.controller_id) == (running.broker.cluster_id, 1)
    assert (broker.broker_id, broker.host, broker.port) == (1, "127.0.0.1", running.listener.port)
    assert not broker.is_fenced
    assert answer.cluster_authorized_operations == NOT_ASKED


def test_allowed_operations_are_in_the_response_when_requested(client: Connection) -> None:
    answer = describe(client, include_cluster_authorized_operations=True)

    assert answer.cluster_authorized_operations == CLUSTER_OPERATIONS


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ],
)
def test_there_are_no_controllers_to_talk_to(
    client: Connection, kind: int, code: ErrorCode
) -> None:
    answer = describe(client, endpoint_type=kind)

    assert (answer.error_code, answer.brokers) == (code, [])
    assert answer.error_message
