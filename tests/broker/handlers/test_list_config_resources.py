"""ListConfigResources: topics and brokers, each once."""

import pytest

from broker.network.authorizer import Operation
from logstore.wire.errors import ErrorCode
from logstore.wire.framing.client import Connection
from logstore.wire.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from tests.broker.network.test_authorizer import deny
from tests.broker.running import Running

LIST_CONFIG_RESOURCES = 74
TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32


def list_resources(
    client: Connection, *types: int, version: int = 1
) -> tuple[int, list[tuple[int, str]]]:
    request = ListConfigResourcesRequest(list(types))
    response: ListConfigResourcesResponse = client.call(LIST_CONFIG_RESOURCES, request, version)
    shown = sorted((one.resource_type, one.resource_name) for one in response.config_resources)
    return response.error_code, shown


def test_topics_and_brokers_are_listed(running: Running, client: Connection) -> None:
    running.create_topic("one")
    running.create_topic("two")
    everything = [(TOPIC, "one"), (TOPIC, "two"), (BROKER, "1"), (BROKER_LOGGER, "1")]

    assert list_resources(client) == (0, everything)
    assert list_resources(client, TOPIC, TOPIC) == (0, everything[:2])
    assert list_resources(client, BROKER) == (0, everything[2:3])
    assert list_resources(client, BROKER_LOGGER) == (0, everything[3:])
    assert list_resources(client, CLIENT_METRICS, GROUP) == (0, [])


def test_version_0_knows_client_metrics_alone(client: Connection) -> None:
    assert list_resources(client, version=0) == (0, [])


@pytest.mark.parametrize("kind", [0, 1, 3, 64, -1])
def test_an_unknown_type_is_refused(client: Connection, kind: int) -> None:
    assert list_resources(client, TOPIC, kind) == (ErrorCode.UNSUPPORTED_VERSION, [])


def test_it_needs_describe_configs_on_the_cluster(running: Running, client: Connection) -> None:
    deny(running, Operation.DESCRIBE_CONFIGS)

    assert list_resources(client) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [])
