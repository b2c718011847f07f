"""AlterConfigs: a topic's configs become those that the request names."""

import pytest

from broker.network.authorizer import Operation
from logstore.wire.errors import ErrorCode
from logstore.wire.framing.client import Connection
from logstore.wire.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from tests.broker.network.test_authorizer import deny
from tests.broker.running import Running, batch_of, produce

ALTER_CONFIGS = 33
TOPIC, BROKER, CLIENT_METRICS = 2, 4, 16


def resource(kind: int, name: str, *configs: tuple[str, str | None]) -> AlterConfigsResource:
    return AlterConfigsResource(kind, name, [AlterableConfig(*one) for one in configs])


def alter(
    client: Connection,
    *resources: AlterConfigsResource,
    version: int = 2,
    validate_only: bool = False,
) -> list[AlterConfigsResourceResponse]:
    request = AlterConfigsRequest(list(resources), validate_only)
    response: AlterConfigsResponse = client.call(ALTER_CONFIGS, request, version)
    return response.responses


@pytest.mark.parametrize("version", range(3))
def test_every_version_leaves_the_named_configs_alone(
    running: Running, client: Connection, version: int
) -> None:
    name = f"versions-{version}"
    topic = running.create_topic(name, 1, {"segment.ms": "6", "retention.ms": "5"})
    wanted = resource(TOPIC, name, ("max.message.bytes", "50"), ("retention.ms", "7"))
    (result,) = alter(client, wanted, version=version)

    assert (result.error_code, result.error_message) == (0, None)
    assert (result.resource_type, result.resource_name) == (TOPIC, name)
    assert topic.configs == {"max.message.bytes": "50", "retention.ms": "7"}
    assert produce(client, name, batch_of(b"x" * 100)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert alter(client, resource(TOPIC, name), version=version)[0].error_code == 0
    assert topic.configs == {}


@pytest.mark.parametrize("name", ["no.such.config", "retention.ms"])
def test_of_more_configs_than_a_topic_has_few_are_looked_at(
    running: Running, client: Connection, name: str
) -> None:
    """One of them is unknown, or named twice: the answer says so, and does not list them all."""
    topic = f"too-many-{name}"
    running.create_topic(topic)
    same = [(name, "5")] * 5_000
    others = [(f"{name}.{number}", "5") for number in range(5_000)]
    (twice,) = alter(client, resource(TOPIC, topic, *same))
    (unknown,) = alter(client, resource(TOPIC, topic, *others))
    (broker,) = alter(client, resource(BROKER, str(running.broker.node_id), *others))

    assert twice.error_code == ErrorCode.INVALID_REQUEST
    assert unknown.error_code == broker.error_code == ErrorCode.INVALID_CONFIG
    for one in (twice, unknown, broker):
        assert len(one.error_message or "") < 5_000
    assert running.log.topics[topic].configs == {}


def test_validation_alone_changes_nothing(running: Running, client: Connection) -> None:
    topic = running.create_topic("checked", 1, {"segment.ms": "6"})

    assert alter(client, resource(TOPIC, "checked"), validate_only=True)[0].error_code == 0
    assert topic.configs == {"segment.ms": "6"}


@pytest.mark.parametrize(
    ("configs", "code"),
    [
        ([("retention.ms", "soon")], ErrorCode.INVALID_CONFIG),
        ([("retentoin.ms", "5")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", None)], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", "5"), ("retention.ms", "6")], ErrorCode.INVALID_REQUEST),
    ],
    ids=["value", "name", "null", "twice"],
)
def test_a_wrong_config_changes_nothing(
    running: Running,
    client: Connection,
    configs: list[tuple[str, str | None]],
    code: ErrorCode,
) -> None:
    name = f"wrong-{configs[0][0]}-{configs[-1][1]}"
    topic = running.create_topic(name, 1, {"segment.ms": "6"})
    (result,) = alter(client, resource(TOPIC, name, ("flush.ms", "9"), *configs))

    assert result.error_code == code
    assert topic.configs == {"segment.ms": "6"}


def test_each_resource_has_its_own_outcome(running: Running, client: Connection) -> None:
    topic = running.create_topic("mine")
    change = ("retention.ms", "5")
    results = alter(
        client,
        resource(TOPIC, "mine", change),
        resource(TOPIC, "nowhere", change),
        resource(TOPIC, "twice", change),
        resource(TOPIC, "twice", change),
        resource(CLIENT_METRICS, "x", change),
        resource(BROKER, "1", change),
    )

    assert [one.error_code for one in results] == [
        0,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_CONFIG,
    ]
    assert topic.configs == {"retention.ms": "5"}


def test_changes_need_alter_configs(running: Running, client: Connection) -> None:
    topic = running.create_topic("guarded")
    deny(running, Operation.ALTER_CONFIGS)
    (result,) = alter(client, resource(TOPIC, "guarded", ("retention.ms", "5")))

    assert result.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert topic.configs == {}
