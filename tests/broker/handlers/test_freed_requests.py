"""Items of a long request are let go of in slices: to free 100,000 at once takes 10 to 20 ms."""

from collections.abc import Iterator
from typing import Any

import pytest

from broker.handlers import dispatch
from broker.handlers.served_requests import HANDLERS
from broker.network.call import Call
from logstore.wire.framing.client import Connection
from logstore.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from logstore.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    PartitionData,
    TopicData,
)
from logstore.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from logstore.wire.messages.list_groups import ListGroupsRequest
from tests.broker.group_calls import coordinating_broker
from tests.broker.running import Running

NAMES = [f"n{number}" for number in range(20)]
CASES: dict[str, tuple[int, int, Any, str]] = {
    "DescribeUserScramCredentials": (
        50,
        0,
        DescribeUserScramCredentialsRequest([UserName(name) for name in NAMES]),
        "users",
    ),
    "DescribeProducers": (
        61,
        0,
        DescribeProducersRequest([TopicRequest(name, [0]) for name in NAMES]),
        "topics",
    ),
    "DescribeQuorum": (
        55,
        2,
        DescribeQuorumRequest([TopicData(name, [PartitionData(0)]) for name in NAMES]),
        "topics",
    ),
    "ListGroups by state": (16, 5, ListGroupsRequest(NAMES), "states_filter"),
    "ListGroups by type": (16, 5, ListGroupsRequest([], NAMES), "types_filter"),
}


@pytest.fixture(scope="module")
def shared() -> Iterator[Running]:
    with coordinating_broker() as running:
        yield running


@pytest.mark.parametrize("name", CASES)
def test_a_request_has_no_items_left_when_it_is_answered(
    client: Connection, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, version, request, field = CASES[name]
    asked: list[Any] = []
    handler = HANDLERS[key]

    def handle(broker: Any, call: Call, decoded: Any) -> None:
        asked.append((decoded, len(getattr(decoded, field))))
        handler.begin(broker, call, decoded)

    monkeypatch.setattr(dispatch, "AT_ONCE_BYTES_MAX", 16)
    monkeypatch.setitem(HANDLERS, key, handler._replace(begin=handle))
    client.call(key, request, version)

    ((decoded, count),) = asked
    assert count == len(NAMES)
    assert getattr(decoded, field) == []
