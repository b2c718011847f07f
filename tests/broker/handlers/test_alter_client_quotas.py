"""AlterClientQuotas: kept, shown, checked as Kafka does; each entity has its own outcome."""

import pytest

from broker.network.authorizer import Operation
from logstore.formats.quota_row import QuotaEntity
from logstore.wire.errors import ErrorCode
from tests.broker.network.test_authorizer import deny
from tests.broker.quota_calls import all_quotas, alter, entry, set_quota
from tests.broker.running import Running
from tests.broker.running_cluster import running_cluster
from tools.full_wire import Connection

INVALID = ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", [0, 1])
def test_quotas_are_set_changed_and_removed(client: Connection, version: int) -> None:
    mine = {"user": "me", "client-id": f"app-{version}"}
    key = tuple(mine.items())
    changes: list[dict[str, float | None]] = [
        {"producer_byte_rate": 1e6, "request_percentage": 12.5},
        {"producer_byte_rate": 2e6, "consumer_byte_rate": 5.0},
        {"request_percentage": None, "controller_mutation_rate": 0.5},
    ]
    for change in changes:
        (result,) = alter(client, entry(mine, **change), version=version)
        assert (result.error_code, result.error_message) == (0, None)
        assert [(one.entity_type, one.entity_name) for one in result.entity] == list(key)
    expected = {
        "producer_byte_rate": 2e6,
        "consumer_byte_rate": 5.0,
        "controller_mutation_rate": 0.5,
    }
    assert all_quotas(client)[key] == expected

    set_quota(client, mine, **dict.fromkeys(expected))
    assert key not in all_quotas(client)


def test_every_kind_of_entity_has_quotas(client: Connection) -> None:
    entities: list[dict[str, str | None]] = [
        {"user": "every/kind"},
        {"user": None},
        {"client-id": "=every&kind"},
        {"client-id": None},
        {"user": "every", "client-id": None},
        {"user": None, "client-id": "every"},
        {"user": None, "client-id": None},
    ]
    results = alter(
        client,
        *(entry(one, consumer_byte_rate=1e9) for one in entities),
        entry({"ip": None}, connection_creation_rate=1e6),
        entry({"ip": "::ffff:10.1.2.3"}, connection_creation_rate=7),
    )

    assert [one.error_code for one in results] == [0] * 9
    shown = all_quotas(client)
    assert {tuple(one.items()) for one in entities} <= shown.keys()
    assert shown[(("ip", "10.1.2.3"),)], "an address has one text"
    removals = [entry(one, consumer_byte_rate=None) for one in entities]
    ips = [entry({"ip": ip}, connection_creation_rate=None) for ip in (None, "10.1.2.3")]
    assert {one.error_code for one in alter(client, *removals, *ips)} == {0}
    assert not shown.keys() & all_quotas(client).keys()


@pytest.mark.parametrize(
    ("entity", "values", "text"),
    [
        ({}, {}, "empty"),
        ({"group": "a"}, {}, "no such entity type"),
        ({"user": ""}, {}, "empty user is not supported"),
        ({"user": "a", "ip": "10.0.0.1"}, {}, "no users"),
        ({"ip": "broker.example"}, {"connection_creation_rate": 1.0}, "not an IP address"),
        ({"ip": "10.0.0.1"}, {"producer_byte_rate": 1.0}, "no such quota"),
        ({"user": "a"}, {"connection_creation_rate": 1.0}, "no such quota"),
        ({"user": "a"}, {"bytes": 1.0}, "no such quota: name=bytes"),
        ({"user": "a"}, {"producer_byte_rate": 1.5}, "whole number"),
        ({"user": "a"}, {"producer_byte_rate": -1.0}, "from 0 on"),
        ({"user": "a"}, {"request_percentage": float("nan")}, "from 0 on"),
        ({"user": "a"}, {"request_percentage": float("inf")}, "from 0 on"),
        ({"user": "a"}, {"producer_byte_rate": 1e30}, "whole number"),
    ],
)
def test_what_makes_no_sense_is_refused(
    client: Connection, entity: dict[str, str | None], values: dict[str, float], text: str
) -> None:
    good = entry({"user": "beside"}, request_percentage=100.0)
    bad, done = alter(client, entry(entity, **values), good)

    assert bad.error_code == INVALID
    assert text in (bad.error_message or "")
    assert done.error_code == 0
    set_quota(client, {"user": "beside"}, request_percentage=None)


def test_an_entity_or_a_value_that_is_named_twice_is_refused(client: Connection) -> None:
    one, other = entry({"user": "twice"}, request_percentage=1.0), entry({"user": "twice"})
    (result,) = alter(client, one, other)
    assert result.error_code == INVALID

    both = entry({"user": "twice"}, request_percentage=1.0)
    both.ops += both.ops
    assert alter(client, both)[0].error_code == INVALID
    kinds = entry({"user": "twice"}, request_percentage=1.0)
    kinds.entity += kinds.entity
    assert alter(client, kinds)[0].error_code == INVALID
    assert not all_quotas(client)


def test_thousands_of_entities_are_changed_in_one_request(client: Connection) -> None:
    users = [{"user": f"user-{number}"} for number in range(3_000)]
    results = alter(client, *(entry(one, consumer_byte_rate=1e9) for one in users))
    assert {one.error_code for one in results} == {0}
    assert len(all_quotas(client)) == 3_000
    results = alter(client, *(entry(one, consumer_byte_rate=None) for one in users))
    assert {one.error_code for one in results} == {0}
    assert not all_quotas(client)


def test_more_than_fit_are_refused_together(client: Connection) -> None:
    results = alter(client, *(entry({"user": f"u{number}"}) for number in range(10_001)))
    assert {one.error_code for one in results} == {ErrorCode.POLICY_VIOLATION}


def test_removing_what_is_not_there_is_no_error(client: Connection) -> None:
    assert alter(client, entry({"user": "never"}, unheard_of=None))[0].error_code == 0


def test_validate_only_checks_and_changes_nothing(client: Connection) -> None:
    good, bad = alter(
        client,
        entry({"user": "checked"}, request_percentage=1.0),
        entry({"user": "refused"}, producer_byte_rate=0.5),
        validate_only=True,
    )

    assert (good.error_code, bad.error_code) == (0, INVALID)
    assert not all_quotas(client)


def test_it_needs_alter_configs_on_the_cluster(running: Running, client: Connection) -> None:
    deny(running, Operation.ALTER_CONFIGS)

    (result,) = alter(client, entry({"user": "me"}, request_percentage=1.0))
    assert result.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert not all_quotas(client)


def test_all_brokers_go_by_quotas_that_one_of_them_took() -> None:
    with running_cluster(2) as brokers, brokers[1].connect() as client:
        set_quota(client, {"user": None}, producer_byte_rate=77)

        for one in brokers.values():
            one.wait_until(lambda one=one: one.broker.clients.quotas.is_active)  # type: ignore[misc]
            limit = one.do(lambda one=one: one.log.rows.quotas)  # type: ignore[misc]
            assert limit == {QuotaEntity(user=""): {"producer_byte_rate": 77.0}}
        set_quota(client, {"user": None}, producer_byte_rate=None)
        brokers[2].wait_until(lambda: not brokers[2].broker.clients.quotas.is_active)


def test_quotas_are_there_after_a_start() -> None:
    with running_cluster(1) as brokers:
        with brokers[1].connect() as client:
            set_quota(client, {"client-id": "me"}, consumer_byte_rate=5)
        again = Running({}, 1 << 24, broker=2, shared=brokers[1].shared)
        again.start()
        try:
            assert again.do(lambda: again.broker.clients.quotas.is_active)
        finally:
            again.stop()
