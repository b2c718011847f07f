"""DescribeUserScramCredentials: there are no users."""

from broker.network.authorizer import Operation
from logstore.wire.errors import ErrorCode
from logstore.wire.framing.client import Connection
from logstore.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from tests.broker.network.test_authorizer import deny
from tests.broker.running import Running

DESCRIBE_USER_SCRAM_CREDENTIALS = 50


def ask(client: Connection, names: list[str] | None) -> DescribeUserScramCredentialsResponse:
    request = DescribeUserScramCredentialsRequest()
    request.users = None if names is None else [UserName(name) for name in names]
    response: DescribeUserScramCredentialsResponse = client.call(
        DESCRIBE_USER_SCRAM_CREDENTIALS, request, 0
    )
    return response


def test_there_are_no_users(client: Connection) -> None:
    everything: list[list[str] | None] = [None, []]
    for names in everything:
        response = ask(client, names)
        assert (response.error_code, response.results) == (0, [])


def test_each_user_that_is_named_has_an_error(client: Connection) -> None:
    results = ask(client, ["a", "b", "a"]).results

    assert [(one.user, one.error_code) for one in results] == [
        ("a", ErrorCode.DUPLICATE_RESOURCE),
        ("b", ErrorCode.RESOURCE_NOT_FOUND),
    ]


def test_it_needs_describe_on_the_cluster(running: Running, client: Connection) -> None:
    deny(running, Operation.DESCRIBE)

    assert ask(client, None).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
