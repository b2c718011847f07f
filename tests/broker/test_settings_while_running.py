"""Settings of brokers that are changed while they run: shown as Kafka does, in force at once."""

import logging
from collections.abc import Iterator

import pytest

from broker.network.authorizer import AllowAll, Operation
from logstore.formats.config_row import ALL_BROKERS, CONFIG, CONFIGS_CHANGED, ConfigRow
from logstore.protocol.steps import PutRow, Steps
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.broker.handlers.test_alter_configs import alter as alter_whole
from tests.broker.handlers.test_alter_configs import resource as whole_resource
from tests.broker.handlers.test_describe_configs import describe, synonyms
from tests.broker.handlers.test_incremental_alter_configs import (
    APPEND,
    BROKER,
    DELETE,
    SET,
    TOPIC,
    alter,
    resource,
)
from tests.broker.network.test_authorizer import deny
from tests.broker.running import CREATE_TOPICS, Running, batch_of, produce, running_broker
from tests.broker.running_cluster import running_cluster
from tools.full_wire import Connection

LOGGER = 8
OF_TOPIC, DYNAMIC, DYNAMIC_DEFAULT, STATIC, DEFAULT, OF_LOGGER = 1, 2, 3, 4, 5, 6
GIVEN = {"num.partitions": "2", "log.retention.ms": "1000"}


@pytest.fixture(scope="module")
def shared() -> Iterator[Running]:
    with running_broker(GIVEN) as running:
        yield running


@pytest.fixture(autouse=True)
def _back(running: Running) -> Iterator[None]:
    yield
    running.authorizer.rule = AllowAll()
    with running.connect() as client:
        for name in ("1", ALL_BROKERS):
            assert alter_whole(client, whole_resource(BROKER, name))[0].error_code == 0


def set_one(client: Connection, broker: str, name: str, text: str | None) -> None:
    change = (name, DELETE if text is None else SET, text)
    (result,) = alter(client, resource(BROKER, broker, change))
    assert result.error_code == 0, result.error_message


def test_the_own_value_prevails_over_that_of_all_and_the_one_of_the_start(
    running: Running, client: Connection
) -> None:
    set_one(client, ALL_BROKERS, "num.partitions", "5")
    set_one(client, "1", "num.partitions", "7")
    (shown,) = describe(client, BROKER, "1", "num.partitions").configs

    assert (shown.value, shown.config_source, shown.read_only) == ("7", DYNAMIC, False)
    assert synonyms(shown) == [
        ("num.partitions", "7", DYNAMIC),
        ("num.partitions", "5", DYNAMIC_DEFAULT),
        ("num.partitions", "2", STATIC),
        ("num.partitions", "1", DEFAULT),
    ]
    assert running.do(lambda: running.broker.settings.number("num.partitions")) == 7
    (of_all,) = describe(client, BROKER, ALL_BROKERS).configs
    assert (of_all.name, of_all.value, of_all.config_source) == (
        "num.partitions",
        "5",
        DYNAMIC_DEFAULT,
    )
    for broker, expected in (("1", "5"), (ALL_BROKERS, "2")):
        set_one(client, broker, "num.partitions", None)
        (shown,) = describe(client, BROKER, "1", "num.partitions").configs
        assert shown.value == expected


def test_topics_inherit_what_was_changed(running: Running, client: Connection) -> None:
    running.create_topic("inherits")
    batch = batch_of(b"x" * 1000)
    assert produce(client, "inherits", batch).error_code == 0
    set_one(client, ALL_BROKERS, "message.max.bytes", "100")

    assert produce(client, "inherits", batch).error_code == ErrorCode.MESSAGE_TOO_LARGE
    (shown,) = describe(client, TOPIC, "inherits", "max.message.bytes").configs
    assert (shown.value, shown.config_source) == ("100", DYNAMIC_DEFAULT)
    set_one(client, ALL_BROKERS, "message.max.bytes", None)
    assert produce(client, "inherits", batch).error_code == 0


def test_new_topics_have_the_partitions_that_were_set(running: Running, client: Connection) -> None:
    set_one(client, "1", "num.partitions", "3")
    request = CreateTopicsRequest([CreatableTopic("sized", -1, -1)], 20_000)
    assert client.call(CREATE_TOPICS, request, 7).topics[0].num_partitions == 3


def test_what_was_read_at_the_start_follows(running: Running, client: Connection) -> None:
    for name, text in {
        "fetch.max.bytes": "2048",
        "max.connections": "11",
        "max.connections.per.ip": "10",
        "max.connections.per.ip.overrides": "10.0.0.1:3",
        "connections.max.idle.ms": "5000",
        "logstore.connection.requests.max": "33",
        "queued.max.request.bytes": "2097152",
        "logstore.flush.interval.ms": "7",
        "logstore.backlog.bytes": "3145728",
        "group.max.size": "4",
        "offset.metadata.max.bytes": "9",
        "offsets.retention.check.interval.ms": "1500",
    }.items():
        set_one(client, "1", name, text)

    def seen() -> list[object]:
        broker, clients = running.broker, running.broker.clients
        return [
            broker.fetch_bytes_max,
            clients._connections_max,
            clients._addresses._each_max,
            clients._addresses._overrides,
            clients._idle_s,
            clients.requests_max,
            clients.receive_budget._bytes_max,
            running.log.writer._settings.interval_s,
            running.log.writer._settings.backlog_bytes_max,
            broker.groups._limits.size_max,
            broker.groups.offset_metadata_bytes_max,
            broker.groups._sweep_s,
        ]

    assert running.do(seen) == [
        *(2048, 11, 10, {"10.0.0.1": 3}, 5.0, 33, 2 << 20, 0.007, 3 << 20),
        *(4, 9, 1.5),
    ]
    alter_whole(client, whole_resource(BROKER, "1"))
    assert running.do(seen)[-5:] == [0.001, 64 << 20, 10_000, 4096, 600.0]


@pytest.mark.parametrize(
    ("broker", "change", "code"),
    [
        ("1", ("num.partitions", SET, "many"), ErrorCode.INVALID_CONFIG),
        ("1", ("num.partitions", SET, "0"), ErrorCode.INVALID_CONFIG),
        ("1", ("num.partitions", SET, None), ErrorCode.INVALID_REQUEST),
        ("1", ("num.partitions", APPEND, "3"), ErrorCode.INVALID_CONFIG),
        ("1", ("num.partitions", 9, "3"), ErrorCode.INVALID_REQUEST),
        ("1", ("no.such.setting", SET, "3"), ErrorCode.INVALID_CONFIG),
        ("1", ("log.cleanup.policy", SET, "compact"), ErrorCode.INVALID_CONFIG),
        ("1", ("max.connections.per.ip.overrides", SET, "host:3"), ErrorCode.INVALID_CONFIG),
        ("7", ("num.partitions", SET, "3"), ErrorCode.INVALID_REQUEST),
        ("one", ("num.partitions", SET, "3"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_makes_no_sense_is_refused(
    running: Running, client: Connection, broker: str, change: tuple[str, int, str], code: int
) -> None:
    (result,) = alter(client, resource(BROKER, broker, change, ("fetch.max.bytes", SET, "2048")))

    assert result.error_code == code
    assert result.error_message
    assert not running.do(lambda: any(running.log.rows.broker_configs.values()))


def test_validation_alone_changes_nothing(running: Running, client: Connection) -> None:
    change = resource(BROKER, "1", ("num.partitions", SET, "3"))
    assert alter(client, change, validate_only=True)[0].error_code == 0
    assert not running.do(lambda: any(running.log.rows.broker_configs.values()))


def test_it_needs_alter_configs_on_the_cluster(running: Running, client: Connection) -> None:
    deny(running, Operation.ALTER_CONFIGS)
    setting = resource(BROKER, "1", ("num.partitions", SET, "3"))
    level = resource(LOGGER, "1", ("root", SET, "ERROR"))

    assert {one.error_code for one in alter(client, setting, level)} == {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    }


def test_a_value_of_a_newer_version_leaves_the_one_before(
    running: Running, client: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    set_one(client, "1", "num.partitions", "3")
    version = running.do(lambda: running.shared.rows.peek(CONFIG, "broker=1"))["version"]
    assert isinstance(version, int)
    configs = {"num.partitions": "auto", "of.tomorrow": "1", "fetch.max.bytes": "4096"}

    def newer() -> Steps[None]:
        yield PutRow(CONFIG, "broker=1", ConfigRow(version + 1, configs).row(), [])

    with caplog.at_level(logging.WARNING, "broker.answers.broker"):
        running.wait_for(running.log.runner.run(newer()))
        running.wait_for(running.log.publish([CONFIGS_CHANGED]))
        running.wait_until(lambda: running.broker.fetch_bytes_max == 4096)

    assert running.do(lambda: running.broker.settings.number("num.partitions")) == 3
    assert "name=num.partitions" in caplog.text
    assert "name=of.tomorrow" in caplog.text


def test_all_brokers_follow_what_is_set_for_all_and_one_what_is_set_for_it() -> None:
    with running_cluster(2) as brokers, brokers[1].connect() as client:
        set_one(client, ALL_BROKERS, "num.partitions", "5")
        set_one(client, "2", "fetch.max.bytes", "2048")

        for one in brokers.values():
            settings = one.broker.settings
            one.wait_until(lambda settings=settings: settings.number("num.partitions") == 5)  # type: ignore[misc]
        brokers[2].wait_until(lambda: brokers[2].broker.fetch_bytes_max == 2048)
        assert brokers[1].do(lambda: brokers[1].broker.fetch_bytes_max) == 57_671_680


# Loggers


def test_levels_of_loggers_are_shown_set_and_put_back(client: Connection) -> None:
    name, logger = "broker.answers.broker", logging.getLogger("broker.answers.broker")
    before = logger.level
    (shown,) = describe(client, LOGGER, "1", name).configs
    assert (shown.config_source, shown.read_only) == (OF_LOGGER, False)

    (result,) = alter(client, resource(LOGGER, "1", (name, SET, "error")))
    assert (result.error_code, logger.level) == (0, logging.ERROR)
    (shown,) = describe(client, LOGGER, "1", name).configs
    assert shown.value == "ERROR"

    (result,) = alter(client, resource(LOGGER, "1", (name, DELETE, None)))
    assert (result.error_code, logger.level) == (0, before)
    names = {one.name for one in describe(client, LOGGER, "1").configs}
    assert {"root", name} <= names
    assert not [one for one in names if one.startswith("asyncio")]


@pytest.mark.parametrize(
    ("broker", "change", "code"),
    [
        ("1", ("broker.no.such", SET, "ERROR"), ErrorCode.INVALID_CONFIG),
        ("1", ("root", SET, "LOUD"), ErrorCode.INVALID_CONFIG),
        ("1", ("root", APPEND, "ERROR"), ErrorCode.INVALID_CONFIG),
        ("", ("root", SET, "ERROR"), ErrorCode.INVALID_REQUEST),
        ("2", ("root", SET, "ERROR"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_levels_that_make_no_sense_are_refused(
    client: Connection, broker: str, change: tuple[str, int, str], code: int
) -> None:
    root = logging.root.level
    (result,) = alter(client, resource(LOGGER, broker, change))

    assert result.error_code == code
    assert logging.root.level == root


def test_loggers_are_changed_by_name_alone(client: Connection) -> None:
    """As in Kafka: AlterConfigs would put back all that it does not name."""
    (result,) = alter_whole(client, whole_resource(LOGGER, "1", ("root", "ERROR")))

    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert describe(client, LOGGER, "").error_code == ErrorCode.INVALID_REQUEST
