"""Every request asks for its right: without it, with a denial beside it, with it; Kafka's codes."""

from collections.abc import Iterator
from typing import Any

import pytest

from broker.handlers.served_requests import HANDLERS
from logstore.security.acls import Acl, Operation, PatternKind, Permission, Resource
from logstore.wire.adopt import ADOPT_KEY, AdoptOutcome
from logstore.wire.read_feed import READ_FEED_KEY
from tests.broker.acl_calls import ADMIN, ALICE, SECURED, delete, filter_of, make
from tests.broker.group_calls import SETTINGS, member_of, prepare
from tests.broker.rights_table import (
    ASKS_NOTHING,
    GROUP,
    REFUSALS,
    TABLE,
    TOPIC,
    Asked,
)
from tests.broker.running import Running, running_broker
from tests.broker.staging import connect, staging
from tools.full_wire import Connection

ADOPTED_ELSEWHERE = {ADOPT_KEY}


@pytest.fixture(scope="module")
def shared() -> Iterator[Running]:
    with running_broker({**SETTINGS, **SECURED}) as running:
        with running.connect() as admin:
            running.log_in(admin, ADMIN)
            prepare(running)
            running.create_topic(TOPIC.name)
            member_of(admin, GROUP.name)
        yield running


@pytest.fixture
def running(shared: Running) -> Running:
    return shared


@pytest.fixture
def admin(running: Running) -> Iterator[Connection]:
    with running.connect() as client:
        running.log_in(client, ADMIN)
        delete(client, filter_of())
        yield client


@pytest.fixture
def alice(running: Running) -> Iterator[Connection]:
    with running.connect() as client:
        running.log_in(client, ALICE)
        yield client


def test_every_handler_is_asked_for_its_rights() -> None:
    asked = {one.key for one in TABLE} | ASKS_NOTHING.keys() | ADOPTED_ELSEWHERE
    assert not HANDLERS.keys() - asked, "add a row to rights_table.py"
    assert not {one.key for one in TABLE} & ASKS_NOTHING.keys()


def answer(running: Running, client: Connection, asked: Asked) -> Any:
    topic = running.log.topics.get(TOPIC.name) or running.create_topic(TOPIC.name)
    request = asked.request(topic.topic_id)
    if asked.key == READ_FEED_KEY:
        with connect(running) as plain:
            running.log_in(plain, ALICE)
            return plain.call(asked.key, request, asked.version)
    return client.call(asked.key, request, asked.version)


def may(operation: Operation, on: Resource, permission: Permission = Permission.ALLOW) -> Acl:
    return Acl(on.kind, on.name, PatternKind.LITERAL, ALICE, "*", operation, permission)


def codes_of(response: Any) -> set[int]:
    """Returns all error codes anywhere in a response."""
    codes: set[int] = set()
    if isinstance(response, list):
        for one in response:
            codes |= codes_of(one)
    for name in getattr(type(response), "__slots__", ()):
        value = getattr(response, name)
        if name == "error_code":
            codes.add(value)
        elif isinstance(value, list) or hasattr(type(value), "__slots__"):
            codes |= codes_of(value)
    return codes - {0}


def check_refused(response: Any, asked: Asked) -> None:
    if asked.seen is not None:
        assert not codes_of(response)
        assert not asked.seen(response)
    else:
        assert codes_of(response) & REFUSALS == {asked.refusal}


@pytest.mark.parametrize("asked", TABLE, ids=str)
def test_a_client_without_the_right_gets_kafkas_code(
    running: Running, admin: Connection, alice: Connection, asked: Asked
) -> None:
    make(admin, *(may(*one) for one in asked.beside))
    check_refused(answer(running, alice, asked), asked)

    everything = Operation.ALL if not asked.beside else asked.needs
    denials = [may(everything, asked.on, Permission.DENY)]
    make(admin, may(asked.needs, asked.on), *denials)
    check_refused(answer(running, alice, asked), asked)

    delete(admin, filter_of(permission=Permission.DENY))
    response = answer(running, alice, asked)
    assert not codes_of(response) & REFUSALS
    assert asked.seen is None or asked.seen(response)


def test_a_sink_needs_to_write(running: Running, admin: Connection) -> None:
    topic = running.log.topics.get(TOPIC.name) or running.create_topic(TOPIC.name)
    found = staging(running, topic, "guarded")
    found.small_task({0: [["a"]]})
    found.put(running.shared.objects)

    def outcome() -> int:
        with connect(running) as client:
            running.log_in(client, ALICE)
            response = client.call(ADOPT_KEY, found.request(), 0)
            answered: int = response.topics[0].partitions[0].outcome
            return answered

    assert outcome() == AdoptOutcome.NOT_ALLOWED
    make(admin, may(Operation.WRITE, TOPIC), may(Operation.WRITE, TOPIC, Permission.DENY))
    assert outcome() == AdoptOutcome.NOT_ALLOWED
    delete(admin, filter_of(permission=Permission.DENY))
    assert outcome() == AdoptOutcome.ADOPTED


@pytest.mark.parametrize(
    "asked", [one for one in TABLE if one.key in (3, 20, 75) and one.on is TOPIC], ids=str
)
def test_a_topic_that_may_not_be_seen_is_not_named_by_its_id_nor_the_other_way(
    running: Running, admin: Connection, alice: Connection, asked: Asked
) -> None:
    response = answer(running, alice, asked)
    for one in response.responses if asked.key == 20 else response.topics:
        is_by_id = "id" in asked.what
        assert one.name == (None if is_by_id else TOPIC.name)
        assert is_by_id or one.topic_id == bytes(16)
