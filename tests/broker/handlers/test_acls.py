"""DescribeAcls, CreateAcls, DeleteAcls: there are no ACLs, which is said and never hidden."""

from collections.abc import Callable
from typing import Any

import pytest

from broker.handlers.served_requests import HANDLERS
from broker.network.authorizer import Operation
from logstore.errors import OutcomeUnknown
from logstore.wire.errors import ErrorCode
from logstore.wire.framing.client import Connection
from logstore.wire.messages.create_acls import AclCreation, CreateAclsRequest
from logstore.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from logstore.wire.messages.describe_acls import DescribeAclsRequest
from tests.broker.network.test_authorizer import deny
from tests.broker.running import Running

DESCRIBE_ACLS, CREATE_ACLS, DELETE_ACLS = 29, 30, 31
TOPIC, LITERAL, READ, ALLOW = 2, 3, 3, 3


def creation(**fields: int) -> AclCreation:
    one = AclCreation(TOPIC, "t", LITERAL, "User:alice", "*", READ, ALLOW)
    for name, value in fields.items():
        setattr(one, name, value)
    return one


def a_filter(**fields: int) -> DeleteAclsFilter:
    one = DeleteAclsFilter(TOPIC, "t", LITERAL, None, None, READ, ALLOW)
    for name, value in fields.items():
        setattr(one, name, value)
    return one


def described(**fields: int) -> DescribeAclsRequest:
    one = DescribeAclsRequest(TOPIC, "t", LITERAL, None, None, READ, ALLOW)
    for name, value in fields.items():
        setattr(one, name, value)
    return one


REQUESTS: dict[int, tuple[Any, Callable[[Any], list[Any]]]] = {
    DESCRIBE_ACLS: (described(), lambda response: [response]),
    CREATE_ACLS: (CreateAclsRequest([creation()] * 3), lambda response: response.results),
    DELETE_ACLS: (DeleteAclsRequest([a_filter()] * 3), lambda response: response.filter_results),
}


@pytest.mark.parametrize("key", REQUESTS)
def test_every_version_says_that_there_is_no_security(client: Connection, key: int) -> None:
    request, items_of = REQUESTS[key]
    handler = HANDLERS[key]
    for version in range(handler.version_min, handler.version_max + 1):
        items = items_of(client.call(key, request, version))

        assert len(items) == (1 if key == DESCRIBE_ACLS else 3)
        assert {one.error_code for one in items} == {ErrorCode.SECURITY_DISABLED}
        assert all("no ACLs" in one.error_message for one in items)


def test_nothing_made_or_matched_is_no_error(client: Connection) -> None:
    assert client.call(CREATE_ACLS, CreateAclsRequest(), 3).results == []
    assert client.call(DELETE_ACLS, DeleteAclsRequest(), 3).filter_results == []


@pytest.mark.parametrize("key", REQUESTS)
def test_a_client_without_rights_is_refused_for_that(
    running: Running, client: Connection, key: int
) -> None:
    request, items_of = REQUESTS[key]
    deny(running, Operation.DESCRIBE if key == DESCRIBE_ACLS else Operation.ALTER)

    codes = {one.error_code for one in items_of(client.call(key, request, 3))}

    assert codes == {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}


@pytest.mark.parametrize(
    ("key", "request_of"),
    [
        (DESCRIBE_ACLS, lambda: described(operation=0)),
        (DESCRIBE_ACLS, lambda: described(pattern_type_filter=0)),
        (CREATE_ACLS, lambda: CreateAclsRequest([creation(), creation(resource_type=0)])),
        (DELETE_ACLS, lambda: DeleteAclsRequest([a_filter(), a_filter(permission_type=0)])),
    ],
)
def test_an_unknown_element_ends_the_connection(
    client: Connection, key: int, request_of: Callable[[], Any]
) -> None:
    with pytest.raises(OutcomeUnknown):
        client.call(key, request_of(), 3)
