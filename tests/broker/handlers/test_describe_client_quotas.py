"""DescribeClientQuotas: there are none; a filter that makes no sense is refused."""

import pytest

from broker.network.authorizer import Operation
from logstore.wire.errors import ErrorCode
from logstore.wire.framing.client import Connection
from logstore.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from tests.broker.network.test_authorizer import deny
from tests.broker.running import Running

DESCRIBE_CLIENT_QUOTAS = 48
EXACT, DEFAULT, SPECIFIED = 0, 1, 2


def ask(
    client: Connection, *components: ComponentData, version: int = 1
) -> DescribeClientQuotasResponse:
    request = DescribeClientQuotasRequest(list(components))
    response: DescribeClientQuotasResponse = client.call(DESCRIBE_CLIENT_QUOTAS, request, version)
    return response


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(
    "components",
    [
        (),
        (ComponentData("user", SPECIFIED),),
        (ComponentData("user", EXACT, "me"), ComponentData("client-id", DEFAULT)),
        (ComponentData("ip", EXACT, "127.0.0.1"),),
    ],
)
def test_there_are_no_quotas(
    client: Connection, components: tuple[ComponentData, ...], version: int
) -> None:
    response = ask(client, *components, version=version)

    assert (response.error_code, response.entries) == (0, [])


@pytest.mark.parametrize(
    ("code", "components"),
    [
        (ErrorCode.INVALID_REQUEST, (ComponentData("", DEFAULT),)),
        (ErrorCode.INVALID_REQUEST, (ComponentData("user", EXACT),)),
        (ErrorCode.INVALID_REQUEST, (ComponentData("user", SPECIFIED, "me"),)),
        (ErrorCode.INVALID_REQUEST, (ComponentData("user", 3),)),
        (ErrorCode.INVALID_REQUEST, (ComponentData("user", DEFAULT),) * 2),
        (ErrorCode.INVALID_REQUEST, (ComponentData("ip", DEFAULT), ComponentData("user", DEFAULT))),
        (ErrorCode.UNSUPPORTED_VERSION, (ComponentData("group", DEFAULT),)),
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(
    client: Connection, code: ErrorCode, components: tuple[ComponentData, ...]
) -> None:
    response = ask(client, *components)

    assert (response.error_code, response.entries) == (code, None)
    assert response.error_message


def test_it_needs_describe_configs_on_the_cluster(running: Running, client: Connection) -> None:
    deny(running, Operation.DESCRIBE_CONFIGS)

    assert ask(client).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
