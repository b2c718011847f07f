"""IncrementalAlterConfigs: a topic goes by its new configs when the answer leaves."""

import pytest

from broker.network.authorizer import Operation
from logstore.wire.errors import ErrorCode
from logstore.wire.framing.client import Connection
from logstore.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.broker.network.test_authorizer import deny
from tests.broker.running import Running, batch_of, produce

INCREMENTAL_ALTER_CONFIGS = 44
TOPIC, BROKER, CLIENT_METRICS = 2, 4, 16
SET, DELETE, APPEND, SUBTRACT = range(4)


def resource(kind: int, name: str, *changes: tuple[str, int, str | None]) -> AlterConfigsResource:
    return AlterConfigsResource(kind, name, [AlterableConfig(*change) for change in changes])


def alter(
    client: Connection,
    *resources: AlterConfigsResource,
    version: int = 1,
    validate_only: bool = False,
) -> list[AlterConfigsResourceResponse]:
    request = IncrementalAlterConfigsRequest(list(resources), validate_only)
    response: IncrementalAlterConfigsResponse = client.call(
        INCREMENTAL_ALTER_CONFIGS, request, version
    )
    return response.responses


@pytest.mark.parametrize("version", range(2))
def test_every_version_changes_what_the_topic_goes_by(
    running: Running, client: Connection, version: int
) -> None:
    name = f"versions-{version}"
    topic = running.create_topic(name, 1, {"segment.ms": "6"})
    assert produce(client, name, batch_of(b"x" * 100)).error_code == 0
    (result,) = alter(
        client,
        resource(TOPIC, name, ("max.message.bytes", SET, "50"), ("segment.ms", DELETE, None)),
        version=version,
    )

    assert (result.error_code, result.error_message) == (0, None)
    assert (result.resource_type, result.resource_name) == (TOPIC, name)
    assert topic.configs == {"max.message.bytes": "50"}
    assert produce(client, name, batch_of(b"x" * 100)).error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_lists_are_appended_to_and_subtracted_from(running: Running, client: Connection) -> None:
    topic = running.create_topic("lists")
    alter(client, resource(TOPIC, "lists", ("cleanup.policy", APPEND, "compact")))
    assert topic.configs == {"cleanup.policy": "delete,compact"}
    alter(client, resource(TOPIC, "lists", ("cleanup.policy", SUBTRACT, "delete")))
    assert topic.configs == {"cleanup.policy": "compact"}


def test_validation_alone_changes_nothing(running: Running, client: Connection) -> None:
    topic = running.create_topic("checked")
    fine = resource(TOPIC, "checked", ("retention.ms", SET, "5"))
    wrong = resource(TOPIC, "checked", ("retention.ms", SET, "soon"))

    assert alter(client, fine, validate_only=True)[0].error_code == 0
    assert alter(client, wrong, validate_only=True)[0].error_code == ErrorCode.INVALID_CONFIG
    assert topic.configs == {}


def test_of_several_changes_to_a_topic_all_are_made_or_none(
    running: Running, client: Connection
) -> None:
    topic = running.create_topic("whole")
    (result,) = alter(
        client,
        resource(TOPIC, "whole", ("retention.ms", SET, "5"), ("retentoin.bytes", SET, "5")),
    )

    assert result.error_code == ErrorCode.INVALID_CONFIG
    assert "did you mean retention.bytes?" in (result.error_message or "")
    assert topic.configs == {}


def test_each_resource_has_its_own_outcome(running: Running, client: Connection) -> None:
    topic = running.create_topic("mine")
    change = ("retention.ms", SET, "5")
    results = alter(
        client,
        resource(TOPIC, "mine", change),
        resource(TOPIC, "nowhere", change),
        resource(TOPIC, "a/b", change),
        resource(TOPIC, "twice", change),
        resource(TOPIC, "twice", change),
        resource(CLIENT_METRICS, "x", change),
    )

    assert [one.error_code for one in results] == [
        0,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
    ]
    assert topic.configs == {"retention.ms": "5"}


@pytest.mark.parametrize("broker", ["1", ""])
def test_some_settings_stay_and_it_says_what_to_do(client: Connection, broker: str) -> None:
    (result,) = alter(client, resource(BROKER, broker, ("logstore.segment.bytes", SET, "65536")))

    assert result.error_code == ErrorCode.INVALID_CONFIG
    assert result.error_message == (
        "settings of a broker that cannot be changed while it runs: logstore.segment.bytes; "
        "start it with --set"
    )


def test_a_broker_that_there_never_was_has_no_settings(client: Connection) -> None:
    (result,) = alter(client, resource(BROKER, "5", ("num.partitions", SET, "2")))

    assert result.error_code == ErrorCode.INVALID_REQUEST


def test_changes_need_alter_configs(running: Running, client: Connection) -> None:
    topic = running.create_topic("guarded")
    deny(running, Operation.ALTER_CONFIGS)
    change = ("retention.ms", SET, "5")
    results = alter(client, resource(TOPIC, "guarded", change), resource(BROKER, "1", change))

    assert [one.error_code for one in results] == [
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ]
    assert topic.configs == {}
