"""ACLs of a running cluster: made, shown, deleted as in Kafka; in force for the next request."""

import logging
import threading
from collections.abc import Iterator

import pytest

from broker.network.authorizer import ANONYMOUS
from logstore.errors import OutcomeUnknown, Unavailable
from logstore.security.acls import CLUSTER, Operation, PatternKind, Permission, ResourceKind
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.create_acls import AclCreation, CreateAclsRequest
from logstore.wire.messages.init_producer_id import InitProducerIdRequest
from tests.broker.acl_calls import (
    ADMIN,
    ALICE,
    CREATE_ACLS,
    MATCH,
    SECURED,
    acl,
    acls_in,
    create,
    creation,
    delete,
    describe,
    exactly,
    filter_of,
    make,
)
from tests.broker.handlers.test_incremental_alter_configs import BROKER, SET, alter, resource
from tests.broker.running import (
    FETCH,
    INIT_PRODUCER_ID,
    Running,
    batch_of,
    fetch,
    fetch_request,
    produce,
    running_broker,
)
from tests.broker.running_cluster import running_cluster
from tests.broker.session_consumer import SessionConsumer
from tools.full_wire import Connection

DENY = Permission.DENY
GROUP, TXN = ResourceKind.GROUP, ResourceKind.TRANSACTIONAL_ID


@pytest.fixture(scope="module")
def shared() -> Iterator[Running]:
    with running_broker(SECURED) as running:
        yield running


@pytest.fixture
def running(shared: Running) -> Iterator[Running]:
    """Without ACLs at its beginning."""
    yield shared
    with shared.connect() as client:
        shared.log_in(client, ADMIN)
        delete(client, filter_of())


@pytest.fixture
def admin(running: Running) -> Iterator[Connection]:
    with running.connect() as client:
        running.log_in(client, ADMIN)
        yield client


@pytest.fixture
def alice(running: Running) -> Iterator[Connection]:
    with running.connect() as client:
        running.log_in(client, ALICE)
        yield client


@pytest.fixture
def topic(running: Running, request: pytest.FixtureRequest) -> str:
    name: str = request.node.name[:60].replace("[", "-").replace("]", "")
    running.create_topic(name)
    return name


def test_acls_are_made_shown_and_deleted_in_every_version(admin: Connection) -> None:
    some = {acl("a"), acl("a", Operation.WRITE), acl("b", pattern=PatternKind.PREFIXED)}
    for version in (1, 2, 3):
        assert [one.error_code for one in create(admin, *sorted(some), version=version)] == [0] * 3
        assert describe(admin, version=version) == some
        assert describe(admin, filter_of("a"), version=version) == {
            acl("a"),
            acl("a", Operation.WRITE),
        }
        (result,) = delete(admin, filter_of("bcd", pattern=MATCH), version=version)
        assert acls_in(result) == {acl("b", pattern=PatternKind.PREFIXED)}
        (result,) = delete(admin, filter_of(), version=version)
        assert acls_in(result) == {acl("a"), acl("a", Operation.WRITE)}
        assert describe(admin, version=version) == set()


def test_one_that_is_there_is_made_and_one_that_is_not_is_deleted_by_none(
    admin: Connection,
) -> None:
    make(admin, acl("a"), acl("a"))
    make(admin, acl("a"))
    assert describe(admin) == {acl("a")}
    first, second = delete(admin, exactly(acl("a")), exactly(acl("a")))
    assert acls_in(first) == acls_in(second) == {acl("a")}, "as in Kafka, both say it"
    (result,) = delete(admin, exactly(acl("a")))
    assert (result.error_code, result.matching_acls) == (0, [])


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"resource_type": 1}, "one kind of resource"),
        ({"resource_type": 99}, "one kind of resource"),
        ({"resource_pattern_type": 1}, "LITERAL or PREFIXED"),
        ({"resource_pattern_type": 2}, "LITERAL or PREFIXED"),
        ({"operation": 1}, "one operation, or ALL"),
        ({"operation": 99}, "one operation, or ALL"),
        ({"permission_type": 1}, "ALLOW or DENY"),
        ({"resource_name": ""}, "name of a resource is empty"),
        ({"resource_type": 4}, "only name of the cluster is kafka-cluster"),
        ({"principal": "alice"}, "write User:NAME"),
        ({"principal": "User:"}, "write User:NAME"),
        ({"host": "10.0.0.0/8"}, "write an IP address"),
        ({"host": ""}, "write an IP address"),
    ],
)
def test_an_acl_that_makes_no_sense_is_refused_beside_others(
    admin: Connection, changes: dict[str, int | str], text: str
) -> None:
    wrong: AclCreation = creation(acl("wrong"))
    for name, value in changes.items():
        setattr(wrong, name, value)
    request = CreateAclsRequest([creation(acl("a")), wrong, creation(acl("b"))])
    codes = admin.call(CREATE_ACLS, request, 3).results

    assert [one.error_code for one in codes] == [0, ErrorCode.INVALID_REQUEST, 0]
    assert text in codes[1].error_message
    assert describe(admin) == {acl("a"), acl("b")}


def test_a_filter_of_unknown_numbers_deletes_and_finds_nothing(admin: Connection) -> None:
    make(admin, acl("a"))
    (result,) = delete(admin, filter_of(operation=99))
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert describe(admin, filter_of(operation=99)) == set()
    assert describe(admin) == {acl("a")}


def test_acls_are_seen_and_changed_by_right_alone(
    running: Running, admin: Connection, alice: Connection
) -> None:
    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert [one.error_code for one in create(alice, acl("a"))] == [refused]
    assert [one.error_code for one in delete(alice, filter_of())] == [refused]
    make(admin, acl(CLUSTER.name, Operation.DESCRIBE, kind=ResourceKind.CLUSTER))
    assert len(describe(alice)) == 1
    assert [one.error_code for one in create(alice, acl("a"))] == [refused]
    make(admin, acl(CLUSTER.name, Operation.ALTER, kind=ResourceKind.CLUSTER))
    make(alice, acl("a"))


def test_a_right_ends_with_the_answer_to_its_deletion(
    admin: Connection, alice: Connection, topic: str
) -> None:
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert produce(alice, topic, batch_of(b"x")).error_code == denied
    make(admin, acl(topic, Operation.WRITE))
    assert produce(alice, topic, batch_of(b"x")).error_code == 0
    make(admin, acl(topic[:5], Operation.WRITE, DENY, pattern=PatternKind.PREFIXED))
    assert produce(alice, topic, batch_of(b"x")).error_code == denied
    delete(admin, filter_of(permission=DENY))
    assert produce(alice, topic, batch_of(b"x")).error_code == 0
    delete(admin, exactly(acl(topic, Operation.WRITE)))
    assert produce(alice, topic, batch_of(b"x")).error_code == denied


def test_a_group_of_the_login_has_its_rights(
    running: Running, admin: Connection, alice: Connection, topic: str
) -> None:
    make(admin, acl(topic, principal="Group:ops"))
    assert fetch(alice, topic).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    running.log_in(alice, ALICE, groups=("Group:ops",))
    assert fetch(alice, topic).error_code == 0


def test_the_address_of_the_client_counts(admin: Connection, alice: Connection, topic: str) -> None:
    make(admin, acl(topic, host="10.9.9.9"))
    assert fetch(alice, topic).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    make(admin, acl(topic, host="127.0.0.1"))
    assert fetch(alice, topic).error_code == 0


def test_a_client_that_has_not_logged_in_is_anonymous(
    running: Running, admin: Connection, topic: str
) -> None:
    with running.connect() as stranger:
        assert fetch(stranger, topic).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        make(admin, acl(topic, principal=ANONYMOUS))
        assert fetch(stranger, topic).error_code == 0


@pytest.mark.parametrize("in_session", [False, True])
def test_a_fetch_that_waits_is_judged_again_when_rights_change(
    running: Running, admin: Connection, alice: Connection, topic: str, in_session: bool
) -> None:
    make(admin, acl(topic))
    outcome: list[int] = []
    waiting_s = 60.0

    def wait() -> None:
        request = fetch_request(topic, max_wait_ms=int(waiting_s * 1000))
        if in_session:
            request.session_epoch = 0
        response = alice.call(FETCH, request, 12)
        outcome.extend(p.error_code for t in response.responses for p in t.partitions)

    thread = threading.Thread(target=wait)
    thread.start()
    running.wait_until(lambda: len(running.broker.waiting_fetches) == 1)
    delete(admin, filter_of())
    thread.join(waiting_s / 6)
    assert not thread.is_alive(), "it was not woken"
    assert outcome in ([ErrorCode.TOPIC_AUTHORIZATION_FAILED], [0], [])
    assert fetch(alice, topic).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert produce(admin, topic, batch_of(b"secret")).error_code == 0
    denied = fetch(alice, topic)
    assert denied.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert not denied.records


def test_a_session_ends_for_what_may_be_read_no_more(
    running: Running, admin: Connection, alice: Connection, topic: str
) -> None:
    make(admin, acl(topic))
    consumer = SessionConsumer(alice, topic)
    assert [one.error_code for one in consumer.open(1)] == [0]
    delete(admin, filter_of())
    (partition,) = consumer.fetch()
    assert partition.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_ids_of_producers_are_given_to_whom_may_write_to_some_topic_there_or_not(
    admin: Connection, alice: Connection
) -> None:
    def code(transaction: str | None = None) -> int:
        request = InitProducerIdRequest(transaction, 60_000)
        answer: int = alice.call(INIT_PRODUCER_ID, request, 4).error_code
        return answer

    assert code() == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    make(admin, acl("not-there-yet-", Operation.WRITE, pattern=PatternKind.PREFIXED))
    assert code() == 0
    make(admin, acl("not", Operation.WRITE, DENY, pattern=PatternKind.PREFIXED))
    assert code() == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    make(admin, acl(CLUSTER.name, Operation.IDEMPOTENT_WRITE, kind=ResourceKind.CLUSTER))
    assert code() == 0
    assert code("t") == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    make(admin, acl("t", Operation.WRITE, kind=TXN))
    assert code("t") == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_stranger_cannot_keep_all_others_out(running: Running) -> None:
    with running.connect() as stranger:
        (result,) = alter(stranger, resource(BROKER, "", ("max.connections", SET, "1")))
        assert result.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    for _ in range(3):
        running.connect().close()


def test_each_change_is_logged_with_what_came_and_went(
    admin: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        make(admin, acl("orders"))
        delete(admin, exactly(acl("orders")))
    lines = [one.message for one in caplog.records if "ACLs" in one.message]
    text = "ALLOW User:alice READ on TOPIC LITERAL 'orders' from *"
    assert lines[0].startswith(f"ACLs made: count=1 acls={text} principal={ADMIN} peer=127.0.0.1:")
    assert lines[1].startswith(f"ACLs deleted: count=1 acls={text} principal={ADMIN} ")


def test_ten_thousand_acls_are_made_shown_and_deleted_at_once(
    running: Running, admin: Connection, alice: Connection, topic: str
) -> None:
    many = [acl(f"topic-{number}", principal=f"User:u{number % 50}") for number in range(10_000)]
    make(admin, *many)
    assert describe(admin) == set(many)
    make(admin, acl(topic))
    assert fetch(alice, topic).error_code == 0
    (result,) = delete(admin, filter_of(principal="User:u7"))
    assert len(result.matching_acls) == 200
    (result,) = delete(admin, filter_of())
    assert len(result.matching_acls) == 9_801
    too_many = create(admin, *many, acl("one-more"))
    assert {one.error_code for one in too_many} == {ErrorCode.POLICY_VIOLATION}
    assert describe(admin) == set()


def test_another_broker_goes_by_a_change_and_two_administrators_lose_nothing() -> None:
    with running_cluster(2, SECURED) as brokers, brokers[1].connect() as one:
        brokers[1].create_topic("orders")
        brokers[1].log_in(one, ADMIN)
        brokers[2].wait_until(lambda: "orders" in brokers[2].log.topics)
        with brokers[2].connect() as two:
            brokers[2].log_in(two, ADMIN)
            names = [f"t{number}" for number in range(30)]
            threads = [
                threading.Thread(target=make, args=(c, *map(acl, n)))
                for c, n in ((one, names[:15]), (two, names[15:]))
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            wanted = set(map(acl, names))
            for broker in brokers.values():
                broker.wait_until(
                    lambda broker=broker: (
                        {  # type: ignore[misc]
                            a for s in broker.log.rows.acls.values() for a in s.group.acls
                        }
                        == wanted
                    )
                )
            delete(one, filter_of())
            for broker in brokers.values():
                broker.wait_until(
                    lambda broker=broker: (
                        not any(  # type: ignore[misc]
                            s.group.acls for s in broker.log.rows.acls.values()
                        )
                    )
                )


def test_a_change_that_the_store_does_not_take_is_no_success(
    running: Running, admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> None:
        raise Unavailable("the store is away")

    make(admin, acl("before"))
    monkeypatch.setattr(running.store, "create", away)
    (result,) = create(admin, acl("a"))
    assert result.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    (gone,) = delete(admin, exactly(acl("before")))
    assert [one.error_code for one in gone.matching_acls] == [ErrorCode.KAFKA_STORAGE_ERROR]
    monkeypatch.undo()
    assert describe(admin) == {acl("before")}


def test_an_unknown_element_ends_the_connection(admin: Connection) -> None:
    with pytest.raises(OutcomeUnknown):
        create(admin, acl("a")._replace(kind=0))  # type: ignore[arg-type]
