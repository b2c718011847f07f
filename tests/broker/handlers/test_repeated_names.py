"""An answer does not grow with how often a request names the same thing."""

from collections.abc import Iterator

import pytest

from logstore.wire.framing.client import Connection
from logstore.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from logstore.wire.messages.describe_groups import DescribeGroupsRequest
from logstore.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from logstore.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.broker.group_calls import (
    DESCRIBE_GROUPS,
    OFFSET_FETCH,
    commit,
    coordinating_broker,
)
from tests.broker.running import Running

METADATA, DESCRIBE_CONFIGS = 3, 32
TIMES = 500


@pytest.fixture(scope="module")
def shared() -> Iterator[Running]:
    with coordinating_broker() as running:
        running.create_topic("t", 3)
        yield running


def test_metadata_shows_a_topic_once(client: Connection, shared: Running) -> None:
    topic_id = shared.log.topics["t"].topic_id
    named, by_id = MetadataRequestTopic(name="t"), MetadataRequestTopic(topic_id, None)

    response = client.call(METADATA, MetadataRequest([named, by_id] * TIMES), 12)

    assert [topic.name for topic in response.topics] == ["t", "t"], "once by name, once by id"


def test_a_group_is_described_once(client: Connection) -> None:
    response = client.call(DESCRIBE_GROUPS, DescribeGroupsRequest(["g", "h"] * TIMES), 5)

    assert [group.group_id for group in response.groups] == ["g", "h"]


def test_offsets_of_a_group_are_fetched_once(client: Connection) -> None:
    commit(client, "g", 42)
    groups = [OffsetFetchRequestGroup("g")] * TIMES

    response = client.call(OFFSET_FETCH, OffsetFetchRequest(groups=groups), 8)

    (group,) = response.groups
    assert [topic.name for topic in group.topics] == ["t"]


def test_configs_of_a_topic_are_described_once_with_all_names_asked_for(
    client: Connection,
) -> None:
    keys = (["retention.ms"], ["segment.ms", "retention.ms"])
    some = [DescribeConfigsResource(2, "t", list(names)) for names in keys]

    response = client.call(DESCRIBE_CONFIGS, DescribeConfigsRequest(some * TIMES), 4)
    (result,) = response.results
    assert {config.name for config in result.configs} == {"retention.ms", "segment.ms"}

    request = DescribeConfigsRequest([*some, DescribeConfigsResource(2, "t", None), *some])
    (result,) = client.call(DESCRIBE_CONFIGS, request, 4).results
    assert len(result.configs) > 2
