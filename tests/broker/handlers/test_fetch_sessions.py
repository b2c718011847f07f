"""Fetch sessions at a broker: what is answered, what is looked at, and how they end."""

from collections.abc import Iterator
from typing import Any

import pytest

from broker.answers.fetch_attempt import FetchAttempt
from broker.network.authorizer import Operation
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.fetch import (
    FetchPartition,
)
from tests.broker.held_turns import HeldTurns
from tests.broker.running import Running, batch_of, produce
from tests.broker.session_consumer import SessionConsumer, numbers
from tools.full_wire import Connection

PARTITIONS = 150
LONG_MS = 60_000
ONE_BYTES = len(batch_of(b"x"))


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Every look at a partition, in order."""
    seen: list[int] = []
    answer = FetchAttempt._answer_partition

    def watched(self: FetchAttempt, topic: Any, wanted: Any, key: tuple[int, int]) -> Any:
        seen.append(wanted.partition)
        return answer(self, topic, wanted, key)

    monkeypatch.setattr(FetchAttempt, "_answer_partition", watched)
    return seen


@pytest.fixture
def polling(running: Running) -> Iterator[Connection]:
    with running.connect() as connection:
        connection.negotiate()
        yield connection


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    name: str = request.node.name[:60]
    return name


def test_an_idle_fetch_looks_at_no_partition(
    running: Running, polling: Connection, looks: list[int], name: str
) -> None:
    running.create_topic(name, PARTITIONS)
    consumer = SessionConsumer(polling, name)
    assert numbers(consumer.open(PARTITIONS)) == list(range(PARTITIONS))
    assert looks == list(range(PARTITIONS))

    for _ in range(3):
        assert consumer.fetch() == []
    assert len(looks) == PARTITIONS


def test_a_record_between_two_fetches_is_answered_by_the_next(
    running: Running, client: Connection, polling: Connection, looks: list[int], name: str
) -> None:
    running.create_topic(name, PARTITIONS)
    consumer = SessionConsumer(polling, name)
    consumer.open(PARTITIONS)
    looks.clear()
    produce(client, name, batch_of(b"x"), partition=77)

    (data,) = consumer.fetch()
    assert (data.partition_index, data.high_watermark, bool(data.records)) == (77, 1, True)
    assert looks == [77]
    assert numbers(consumer.fetch()) == [77], "it was not consumed"
    assert consumer.fetch_at(1, 77) == []
    assert consumer.fetch() == []


def test_a_fetch_that_waits_is_woken_by_a_partition_that_it_did_not_name(
    running: Running, client: Connection, polling: Connection, looks: list[int], name: str
) -> None:
    running.create_topic(name, PARTITIONS)
    consumer = SessionConsumer(polling, name)
    consumer.open(PARTITIONS)
    looks.clear()
    consumer.send(max_wait_ms=LONG_MS, min_bytes=2 * ONE_BYTES)
    produce(client, name, batch_of(b"x"), partition=3)
    produce(client, name, batch_of(b"x"), partition=140)

    response = consumer.receive()
    assert {one.partition_index for one in response.responses[0].partitions} == {3, 140}
    assert set(looks) == {3, 140}


def test_a_change_while_the_first_fetch_looks_at_others_is_answered_by_the_next(
    running: Running,
    client: Connection,
    polling: Connection,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = running.create_topic(name, PARTITIONS)
    produce(client, name, batch_of(b"x"))
    answer = FetchAttempt._answer_partition

    def changing(self: FetchAttempt, topic: Any, wanted: Any, key: tuple[int, int]) -> Any:
        if wanted.partition == PARTITIONS - 1:
            topic.leaders[0].raise_log_start(1)
        return answer(self, topic, wanted, key)

    monkeypatch.setattr(FetchAttempt, "_answer_partition", changing)
    partitions = [FetchPartition(n, partition_max_bytes=1 << 20) for n in range(PARTITIONS)]
    partitions[0].fetch_offset = 1
    consumer = SessionConsumer(polling, name)
    first = consumer.fetch(*partitions)

    assert topic.leaders[0].log_start == 1
    assert first[0].log_start_offset == 0
    assert [(one.partition_index, one.log_start_offset) for one in consumer.fetch()] == [(0, 1)]


def test_a_session_of_many_partitions_is_opened_in_slices(
    running: Running, polling: Connection, name: str
) -> None:
    running.create_topic(name, PARTITIONS)
    before, turns = running.broker.turns, HeldTurns(running)
    turns.is_held = False
    running.broker.turns = turns
    try:
        assert numbers(SessionConsumer(polling, name).open(PARTITIONS)) == list(range(PARTITIONS))
    finally:
        running.broker.turns = before

    assert turns.taken_count >= PARTITIONS // 2, "taken up, placed, looked at, answered"


def test_a_forgotten_partition_wakes_and_fills_no_answer(
    running: Running, client: Connection, polling: Connection, name: str
) -> None:
    running.create_topic(name, 3)
    consumer = SessionConsumer(polling, name)
    consumer.open(3)
    assert consumer.fetch(forgotten=[0]) == []
    assert not running.do(lambda: running.log.topics[name].leaders[0]._watchers)
    produce(client, name, batch_of(b"x"), partition=0)
    produce(client, name, batch_of(b"x"), partition=1)

    assert numbers(consumer.fetch()) == [1]


def test_a_raised_log_start_and_a_deleted_topic_are_answered_by_the_next(
    running: Running, client: Connection, polling: Connection, name: str
) -> None:
    topic = running.create_topic(name, 2)
    produce(client, name, batch_of(b"x"))
    consumer = SessionConsumer(polling, name, topic.topic_id)
    consumer.open(2)
    assert consumer.fetch_at(1) == []

    running.do(lambda: running.log.topics[name].leaders[0].raise_log_start(1))
    (data,) = consumer.fetch()
    assert (data.partition_index, data.error_code, data.log_start_offset) == (0, 0, 1)

    running.delete_topic(name)
    answers = consumer.fetch(max_wait_ms=LONG_MS)
    assert {one.error_code for one in answers} == {ErrorCode.UNKNOWN_TOPIC_ID}
    assert sorted(numbers(answers)) == [0, 1]


def test_a_waiting_fetch_ends_where_log_start_moves_past_it(
    running: Running, client: Connection, polling: Connection, name: str
) -> None:
    running.create_topic(name)
    produce(client, name, batch_of(b"x"))
    running.do(lambda: setattr(running.log.topics[name].leaders[0], "high_watermark", 0))
    consumer = SessionConsumer(polling, name)
    consumer.session = (0, -1)
    consumer.send(FetchPartition(0), max_wait_ms=LONG_MS)
    leader = running.log.topics[name].leaders[0]
    running.wait_until(lambda: bool(leader._watchers))

    running.do(lambda: leader.raise_log_start(1))
    data = consumer.receive().responses[0].partitions[0]
    assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


class NoReading:
    def authorize(
        self,
        principal: str,
        host: str,
        operation: Operation,
        resource: object,
        groups: tuple[str, ...] = (),
    ) -> bool:
        return operation is not Operation.READ


def test_rights_that_change_are_in_force_for_the_next_fetch(
    running: Running, polling: Connection, name: str
) -> None:
    running.create_topic(name, 2)
    consumer = SessionConsumer(polling, name)
    consumer.open(2)
    allowed, running.authorizer.rule = running.authorizer.rule, NoReading()
    denied = consumer.fetch(max_wait_ms=LONG_MS)
    running.authorizer.rule = allowed

    assert {one.error_code for one in denied} == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    assert sorted(numbers(denied)) == [0, 1]
    assert [one.error_code for one in consumer.fetch()] == [0, 0]
    assert consumer.fetch() == []


def test_a_wrong_session_or_epoch_or_kind_of_names_is_refused(
    running: Running, client: Connection, polling: Connection, name: str
) -> None:
    running.create_topic(name)
    consumer = SessionConsumer(polling, name)
    consumer.open(1)
    session_id, epoch = consumer.session

    assert consumer.refused((session_id, epoch + 1)) == (71, 0)
    assert consumer.refused((session_id + 1, epoch)) == (70, 0)
    assert consumer.refused((session_id, epoch), version=13) == (106, 0)
    client.negotiate()
    assert SessionConsumer(client, name).refused((session_id, epoch)) == (70, 0), "another's"
    consumer.session, consumer.version = (session_id, epoch), 12
    assert consumer.fetch() == []


def test_a_session_ends_with_its_connection(running: Running, name: str) -> None:
    running.create_topic(name, 2)
    sessions = running.broker.fetch_sessions
    running.wait_until(lambda: not len(sessions))
    with running.connect() as connection:
        connection.negotiate()
        consumer = SessionConsumer(connection, name)
        consumer.open(2)
        consumer.send(max_wait_ms=LONG_MS)
        assert running.do(lambda: (len(sessions), sessions.partition_count)) == (1, 2)

    running.wait_until(lambda: not len(sessions))
    leaders = running.log.topics[name].leaders.values()
    assert not running.do(lambda: any(leader._watchers for leader in leaders))
    assert running.do(lambda: sessions.partition_count) == 0


def test_an_evicted_session_answers_the_fetch_that_waits(
    running: Running, polling: Connection, name: str
) -> None:
    running.create_topic(name, 2)
    consumer = SessionConsumer(polling, name)
    consumer.open(2)
    clients, sessions = running.broker.clients, running.broker.fetch_sessions
    running.wait_until(lambda: len(sessions) == 1)
    (connection,) = [c for c in running.do(lambda: list(clients.connections)) if c.fetch_session]
    session = connection.fetch_session
    assert session is not None
    consumer.send(max_wait_ms=LONG_MS)
    running.wait_until(lambda: bool(connection._calls))
    running.do(session.end)

    assert consumer.receive().responses == []
    assert consumer.refused(consumer.session) == (70, 0)


def test_records_without_room_come_with_the_next_fetch(
    running: Running, client: Connection, polling: Connection, name: str
) -> None:
    running.create_topic(name, 3)
    consumer = SessionConsumer(polling, name)
    consumer.open(3)
    for partition in range(3):
        produce(client, name, batch_of(b"x"), partition=partition)

    served = []
    for _ in range(3):
        answers = consumer.fetch(max_bytes=1)
        served += [one.partition_index for one in answers if one.records]
    assert served == [0, 1, 2]
