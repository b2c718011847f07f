"""DescribeClientQuotas: the quotas that match; a filter that makes no sense is refused."""

from collections.abc import Iterator

import pytest

from broker.network.authorizer import Operation
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.describe_client_quotas import ComponentData
from tests.broker.network.test_authorizer import deny
from tests.broker.quota_calls import DEFAULT, EXACT, SPECIFIED, alter, describe, entry
from tests.broker.running import Running
from tools.full_wire import Connection

U, UC, DU, UD, C, DC = "user", "user+client", "default user", "user+default", "client", "default"
ENTITIES: dict[str, dict[str, str | None]] = {
    U: {"user": "me"},
    UC: {"user": "me", "client-id": "app"},
    UD: {"user": "me", "client-id": None},
    DU: {"user": None},
    C: {"client-id": "app"},
    DC: {"client-id": None},
}
IP: dict[str, str | None] = {"ip": "10.0.0.1"}


@pytest.fixture
def quotas(client: Connection) -> Iterator[None]:
    ip = entry(IP, connection_creation_rate=100)
    alter(client, *(entry(one, consumer_byte_rate=1e9) for one in ENTITIES.values()), ip)
    yield
    ip = entry(IP, connection_creation_rate=None)
    alter(client, *(entry(one, consumer_byte_rate=None) for one in ENTITIES.values()), ip)


@pytest.mark.usefixtures("quotas")
@pytest.mark.parametrize(
    ("components", "strict", "expected"),
    [
        ((), False, {*ENTITIES, "ip"}),
        ((), True, set()),
        ((ComponentData("user", EXACT, "me"),), False, {U, UC, UD}),
        ((ComponentData("user", EXACT, "me"),), True, {U}),
        ((ComponentData("user", EXACT, "other"),), False, set()),
        ((ComponentData("user", DEFAULT),), False, {DU}),
        ((ComponentData("user", SPECIFIED),), True, {U, DU}),
        ((ComponentData("client-id", SPECIFIED),), False, {UC, UD, C, DC}),
        ((ComponentData("client-id", DEFAULT),), True, {DC}),
        (
            (ComponentData("user", SPECIFIED), ComponentData("client-id", EXACT, "app")),
            True,
            {UC},
        ),
        ((ComponentData("ip", SPECIFIED),), False, {"ip"}),
        ((ComponentData("ip", DEFAULT),), False, set()),
    ],
)
def test_a_filter_finds_what_it_names(
    client: Connection, components: tuple[ComponentData, ...], strict: bool, expected: set[str]
) -> None:
    response = describe(client, *components, strict=strict)

    assert (response.error_code, response.error_message) == (0, None)
    names = {tuple(entity.items()): name for name, entity in [*ENTITIES.items(), ("ip", IP)]}
    assert {
        names[tuple((part.entity_type, part.entity_name) for part in one.entity)]
        for one in response.entries or ()
    } == expected


@pytest.mark.usefixtures("quotas")
@pytest.mark.parametrize("version", [0, 1])
def test_values_are_shown_by_name(client: Connection, version: int) -> None:
    response = describe(client, ComponentData("ip", EXACT, "10.0.0.1"), version=version)

    assert response.entries is not None
    (one,) = response.entries
    assert [(value.key, value.value) for value in one.values] == [
        ("connection_creation_rate", 100.0)
    ]


@pytest.mark.parametrize(
    ("code", "components"),
    [
        (ErrorCode.INVALID_REQUEST, (ComponentData("", DEFAULT),)),
        (ErrorCode.INVALID_REQUEST, (ComponentData("user", EXACT),)),
        (ErrorCode.INVALID_REQUEST, (ComponentData("user", SPECIFIED, "me"),)),
        (ErrorCode.INVALID_REQUEST, (ComponentData("user", 3),)),
        (ErrorCode.INVALID_REQUEST, (ComponentData("user", DEFAULT),) * 2),
        (ErrorCode.INVALID_REQUEST, (ComponentData("ip", DEFAULT), ComponentData("user", DEFAULT))),
        (ErrorCode.UNSUPPORTED_VERSION, (ComponentData("group", DEFAULT),)),
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(
    client: Connection, code: ErrorCode, components: tuple[ComponentData, ...]
) -> None:
    response = describe(client, *components)

    assert (response.error_code, response.entries) == (code, None)
    assert response.error_message


def test_it_needs_describe_configs_on_the_cluster(running: Running, client: Connection) -> None:
    deny(running, Operation.DESCRIBE_CONFIGS)

    assert describe(client).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
