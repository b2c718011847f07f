"""DescribeConfigs: every name with its value, where it is from and what else gave it one."""

from collections.abc import Iterator

import pytest

from broker.network.authorizer import AllowAll, Operation
from logstore.config.broker import BROKER_SETTINGS
from logstore.config.changeable import CHANGEABLE
from logstore.config.kinds import SettingKind, is_sensitive
from logstore.config.topics import TOPIC_SETTINGS
from logstore.wire.errors import ErrorCode
from logstore.wire.framing.client import Connection
from logstore.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from tests.broker.network.test_authorizer import deny
from tests.broker.running import Running, running_broker

DESCRIBE_CONFIGS = 32
TOPIC, BROKER, BROKER_LOGGER = 2, 4, 8
OF_TOPIC, STATIC, DEFAULT = 1, 4, 5


@pytest.fixture(scope="module")
def set_up() -> Iterator[Running]:
    settings = {"log.retention.ms": "1000", "num.partitions": "2"}
    with running_broker(settings) as running:
        yield running


@pytest.fixture
def configured(set_up: Running) -> Iterator[Connection]:
    if "t" not in set_up.log.topics:
        set_up.create_topic("t", 1, {"retention.ms": "5", "segment.ms": "6"})
    with set_up.connect() as client:
        yield client
    set_up.authorizer.rule = AllowAll()


def describe(
    client: Connection,
    kind: int,
    name: str,
    *keys: str,
    version: int = 4,
    everything: bool = True,
) -> DescribeConfigsResult:
    resource = DescribeConfigsResource(kind, name, list(keys) or None)
    request = DescribeConfigsRequest([resource], everything, everything)
    response: DescribeConfigsResponse = client.call(DESCRIBE_CONFIGS, request, version)
    return response.results[0]


def one(
    client: Connection, kind: int, name: str, key: str, version: int = 4
) -> DescribeConfigsResourceResult:
    (found,) = describe(client, kind, name, key, version=version).configs
    return found


def synonyms(shown: DescribeConfigsResourceResult) -> list[tuple[str, str | None, int]]:
    return [(synonym.name, synonym.value, synonym.source) for synonym in shown.synonyms]


@pytest.mark.parametrize("version", range(1, 5))
def test_every_version_shows_all_of_a_topic(configured: Connection, version: int) -> None:
    result = describe(configured, TOPIC, "t", version=version)

    assert (result.error_code, result.resource_type, result.resource_name) == (0, TOPIC, "t")
    assert [shown.name for shown in result.configs] == list(TOPIC_SETTINGS)
    for shown in result.configs:
        setting = TOPIC_SETTINGS[shown.name]
        assert not shown.read_only
        assert shown.config_type == (setting.kind.value if version >= 3 else 0)
        assert shown.documentation == (setting.documentation if version >= 3 else None)


def test_a_value_is_the_topics_else_the_brokers_else_the_default(configured: Connection) -> None:
    own = one(configured, TOPIC, "t", "retention.ms")
    alone = one(configured, TOPIC, "t", "segment.ms")
    default = one(configured, TOPIC, "t", "max.message.bytes")

    assert (own.value, own.config_source) == ("5", OF_TOPIC)
    assert synonyms(own) == [
        ("retention.ms", "5", OF_TOPIC),
        ("log.retention.ms", "1000", STATIC),
        ("log.retention.ms", "604800000", DEFAULT),
    ]
    assert synonyms(alone) == [
        ("segment.ms", "6", OF_TOPIC),
        ("segment.ms", "604800000", DEFAULT),
    ]
    assert (default.value, default.config_source) == ("1048588", DEFAULT)
    assert synonyms(default) == [("message.max.bytes", "1048588", DEFAULT)]


def test_all_of_this_broker_is_shown_and_whether_it_can_be_changed(configured: Connection) -> None:
    shown = {config.name: config for config in describe(configured, BROKER, "1").configs}

    assert set(shown) > set(BROKER_SETTINGS)
    assert {name for name, config in shown.items() if not config.read_only} == CHANGEABLE
    partitions, flush = shown["num.partitions"], shown["logstore.flush.interval.ms"]
    assert (partitions.value, partitions.config_source) == ("2", STATIC)
    assert synonyms(partitions) == [
        ("num.partitions", "2", STATIC),
        ("num.partitions", "1", DEFAULT),
    ]
    assert partitions.config_type == SettingKind.INT.value
    assert (flush.value, flush.config_source) == (None, DEFAULT)


def test_what_tools_look_up_of_a_broker_is_there_though_it_cannot_be_set(
    set_up: Running, configured: Connection
) -> None:
    shown = {config.name: config for config in describe(configured, BROKER, "1").configs}

    addresses, zone = shown["advertised.listeners"], shown["broker.rack"]
    (place,) = set_up.log.me.listeners.values()
    assert addresses.value == f"PLAINTEXT://{place.host}:{place.port}"
    assert addresses.config_source == STATIC
    assert shown["node.id"].value == "1"
    assert (zone.value, zone.config_source) == (None, DEFAULT)
    assert shown["log.cleaner.backoff.ms"].config_source == DEFAULT
    assert {"node.id", "delete.topic.enable"}.isdisjoint(CHANGEABLE | set(BROKER_SETTINGS))


def test_nothing_is_set_for_all_brokers(configured: Connection) -> None:
    result = describe(configured, BROKER, "")

    assert (result.error_code, result.configs) == (0, [])


def test_names_narrow_the_answer_and_unknown_ones_are_passed_over(configured: Connection) -> None:
    result = describe(configured, TOPIC, "t", "segment.ms", "nothing", everything=False)
    (shown,) = result.configs

    assert (shown.name, shown.synonyms, shown.documentation) == ("segment.ms", [], None)


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "one", ErrorCode.INVALID_REQUEST),
        (BROKER_LOGGER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER_LOGGER, "", ErrorCode.INVALID_REQUEST),
        (77, "x", ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_is_not_there_is_reported(
    configured: Connection, kind: int, name: str, code: ErrorCode
) -> None:
    result = describe(configured, kind, name)

    assert (result.error_code, result.configs) == (code, [])
    assert result.error_message


def test_configs_need_describe_configs(set_up: Running, configured: Connection) -> None:
    deny(set_up, Operation.DESCRIBE_CONFIGS)

    assert describe(configured, TOPIC, "t").error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert describe(configured, TOPIC, "nowhere").error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert describe(configured, BROKER, "1").error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_secrets_are_known_by_their_names() -> None:
    assert is_sensitive("ssl.keystore.password")
    assert is_sensitive("listener.name.sasl.jaas.config")
    assert not is_sensitive("retention.ms")
