"""Group requests need Kafka's rights, and tell nothing to who lacks them."""

from collections.abc import Callable, Iterator

import pytest

from broker.network.authorizer import Operation, Resource, ResourceKind
from logstore.wire.errors import ErrorCode
from logstore.wire.framing.client import Connection
from logstore.wire.messages.delete_groups import DeleteGroupsRequest
from logstore.wire.messages.leave_group import LeaveGroupRequest
from logstore.wire.messages.list_groups import ListGroupsRequest
from logstore.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from logstore.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from logstore.wire.messages.sync_group import SyncGroupRequest
from tests.broker.group_calls import (
    DELETE_GROUPS,
    LEAVE_GROUP,
    LIST_GROUPS,
    OFFSET_DELETE,
    OFFSET_FETCH,
    SYNC_GROUP,
    commit,
    coordinating_broker,
    describe,
    fetch_offsets,
    find_coordinator,
    heartbeat,
    join,
)
from tests.broker.running import Running

DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
NAME = "rights"


class Without:
    """All rights but these on resources of one kind."""

    def __init__(self, kind: ResourceKind, *operations: Operation) -> None:
        self._kind = kind
        self._operations = operations

    def authorize(
        self,
        principal: str,
        host: str,
        operation: Operation,
        resource: Resource,
        groups: tuple[str, ...] = (),
    ) -> bool:
        return resource.kind is not self._kind or operation not in self._operations


@pytest.fixture(scope="module")
def shared() -> Iterator[Running]:
    with coordinating_broker() as running:
        running.create_topic("t")
        yield running


def _sync(client: Connection) -> int:
    code: int = client.call(SYNC_GROUP, SyncGroupRequest(NAME, 1, "m"), 4).error_code
    return code


def _leave(client: Connection) -> int:
    code: int = client.call(LEAVE_GROUP, LeaveGroupRequest(NAME, "m"), 2).error_code
    return code


def _fetch(client: Connection) -> int:
    wanted = OffsetFetchRequestGroup(
        NAME, topics=[OffsetFetchRequestTopics("t", partition_indexes=[0])]
    )
    code: int = client.call(OFFSET_FETCH, OffsetFetchRequest(groups=[wanted]), 9)
    return code.groups[0].error_code  # type: ignore[attr-defined, no-any-return]


def _delete(client: Connection) -> int:
    results = client.call(DELETE_GROUPS, DeleteGroupsRequest([NAME]), 2).results
    code: int = results[0].error_code
    return code


def _delete_offset(client: Connection) -> int:
    topics = [OffsetDeleteRequestTopic("t", [OffsetDeleteRequestPartition(0)])]
    code: int = client.call(OFFSET_DELETE, OffsetDeleteRequest(NAME, topics), 0).error_code
    return code


REQUESTS: dict[str, tuple[Operation, Callable[[Connection], int]]] = {
    "find": (Operation.DESCRIBE, lambda client: find_coordinator(client, NAME).error_code),
    "join": (Operation.READ, lambda client: join(client, NAME).error_code),
    "sync": (Operation.READ, _sync),
    "heartbeat": (Operation.READ, lambda client: heartbeat(client, NAME, "m")),
    "leave": (Operation.READ, _leave),
    "commit": (Operation.READ, lambda client: commit(client, NAME, 1)),
    "fetch": (Operation.DESCRIBE, _fetch),
    "describe": (Operation.DESCRIBE, lambda client: describe(client, NAME).error_code),
    "delete": (Operation.DELETE, _delete),
    "offset delete": (Operation.DELETE, _delete_offset),
}


@pytest.mark.parametrize("request_name", REQUESTS)
def test_a_request_needs_its_right_on_the_group(
    running: Running, client: Connection, request_name: str
) -> None:
    operation, ask = REQUESTS[request_name]
    running.authorizer.rule = Without(ResourceKind.GROUP, operation)
    assert ask(client) == DENIED
    others = {Operation.READ, Operation.DESCRIBE, Operation.DELETE} - {operation}
    running.authorizer.rule = Without(ResourceKind.GROUP, *others)
    assert ask(client) != DENIED


def test_offsets_of_topics_need_a_right_on_the_topic(running: Running, client: Connection) -> None:
    commit(client, "topics", 5)
    running.authorizer.rule = Without(ResourceKind.TOPIC, Operation.READ, Operation.DESCRIBE)

    assert commit(client, "topics", 6) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    found = fetch_offsets(client, "topics", {"t": [0]})["t", 0]
    assert (found.error_code, found.committed_offset) == (29, -1)
    assert fetch_offsets(client, "topics") == {}


def test_groups_that_a_client_may_not_see_are_not_listed(
    running: Running, client: Connection
) -> None:
    commit(client, "listed", 1)

    def listed() -> set[str]:
        response = client.call(LIST_GROUPS, ListGroupsRequest([], []), 5)
        return {group.group_id for group in response.groups}

    running.authorizer.rule = Without(ResourceKind.GROUP, Operation.DESCRIBE)
    assert "listed" in listed(), "who may describe the cluster sees all"

    class Neither:
        def authorize(
            self,
            principal: str,
            host: str,
            operation: Operation,
            resource: Resource,
            groups: tuple[str, ...] = (),
        ) -> bool:
            return operation is not Operation.DESCRIBE

    running.authorizer.rule = Neither()
    assert "listed" not in listed()
