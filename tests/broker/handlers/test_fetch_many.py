"""A fetch of many partitions looks at them in slices, and then at those that changed alone."""

from collections.abc import Iterator
from typing import Any

import pytest

from broker.answers.fetch_attempt import FetchAttempt
from broker.answers.fetch_interest import AT_ONCE_MAX
from broker.network.call import Call
from logstore.wire.framing.apis import decode_response_header, encode_request_frame
from logstore.wire.framing.parts import PART_ITEMS
from logstore.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tests.broker.held_turns import HeldTurns
from tests.broker.running import FETCH, Running, batch_of, produce
from tools.full_wire import APIS, Connection

PARTITIONS = 3 * AT_ONCE_MAX
VERSION = 12
ONE_BYTES = len(batch_of(b"x"))


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Every look at a partition, in order."""
    seen: list[tuple[int, int]] = []
    answer = FetchAttempt._answer_partition

    def watched(self: FetchAttempt, topic: Any, wanted: Any, key: tuple[int, int]) -> Any:
        seen.append(key)
        return answer(self, topic, wanted, key)

    monkeypatch.setattr(FetchAttempt, "_answer_partition", watched)
    return seen


@pytest.fixture
def polling(running: Running) -> Iterator[Connection]:
    with running.connect() as connection:
        connection.negotiate()
        yield connection


def poll(client: Connection, topic: str, *, min_bytes: int = 1, max_wait_ms: int = 60_000) -> None:
    partitions = [FetchPartition(n, partition_max_bytes=1 << 20) for n in range(PARTITIONS)]
    request = FetchRequest(
        -1, max_wait_ms, min_bytes, 1 << 20, topics=[FetchTopic(topic, partitions=partitions)]
    )
    client.send_raw(b"".join(encode_request_frame(5, APIS[FETCH], VERSION, "me", request)))


def answered(client: Connection) -> set[int]:
    """The partitions with records in the next answer."""
    frame = memoryview(client.read_frame())
    _, at = decode_response_header(frame, APIS[FETCH], VERSION)
    response: FetchResponse = APIS[FETCH].decode_response(VERSION, frame, at)
    return {one.partition_index for one in response.responses[0].partitions if one.records}


def is_watched(running: Running, topic: str, partition: int) -> bool:
    return bool(running.log.topics[topic].leaders[partition]._watchers)


def test_a_wake_up_looks_at_the_partitions_that_changed(
    running: Running, client: Connection, polling: Connection, looks: list[tuple[int, int]]
) -> None:
    running.create_topic("held", PARTITIONS)
    poll(polling, "held", min_bytes=4 * ONE_BYTES)
    running.wait_until(lambda: is_watched(running, "held", PARTITIONS - 1))
    assert len(looks) == PARTITIONS

    for partition in (7, 200, 7):
        produce(client, "held", batch_of(b"x"), partition=partition)
    running.wait_until(lambda: len(looks) >= PARTITIONS + 3)
    assert looks[PARTITIONS:] == [(0, 7), (0, 200), (0, 7)]

    produce(client, "held", batch_of(b"x"), partition=9)
    assert answered(polling) == {7, 9, 200}
    assert len(looks) == 2 * PARTITIONS + 4
    assert not running.do(lambda: is_watched(running, "held", 7))


def test_a_commit_between_two_slices_of_a_look_is_not_missed(
    running: Running, client: Connection, polling: Connection
) -> None:
    running.create_topic("between", PARTITIONS)
    before, held = running.broker.turns, HeldTurns(running)
    running.broker.turns = held
    try:
        poll(polling, "between")
        running.wait_until(lambda: bool(held.steps))
        produce(client, "between", batch_of(b"x"), partition=0)
        running.do(held.let_go)

        assert answered(polling) == {0}
    finally:
        running.broker.turns = before


def test_many_partitions_are_looked_at_in_slices(
    running: Running, client: Connection, polling: Connection
) -> None:
    running.create_topic("sliced", PARTITIONS)
    produce(client, "sliced", batch_of(b"x"), partition=PARTITIONS - 1)
    before, turns = running.broker.turns, HeldTurns(running)
    turns.is_held = False
    running.broker.turns = turns
    try:
        poll(polling, "sliced")
        assert answered(polling) == {PARTITIONS - 1}
    finally:
        running.broker.turns = before

    assert turns.taken_count >= PARTITIONS // 8


def test_an_answer_about_many_partitions_is_encoded_in_slices(
    running: Running, client: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    running.create_topic("encoded", 2)
    produce(client, "encoded", batch_of(b"x"), partition=1)
    partitions = [FetchPartition(n, partition_max_bytes=1 << 20) for n in (0, 1)]
    topics = [FetchTopic("encoded", partitions=partitions * (2 * PART_ITEMS))]
    request = FetchRequest(-1, 60_000, 1, 1 << 20, topics=topics)
    encoded: list[object] = []
    monkeypatch.setattr(Call, "answer", lambda _, response: encoded.append(response))

    response: FetchResponse = client.call(FETCH, request, VERSION)

    answers = response.responses[0].partitions
    assert [one.partition_index for one in answers] == [0, 1] * (2 * PART_ITEMS)
    assert [len(one.records or b"") for one in answers] == [0, ONE_BYTES] * (2 * PART_ITEMS)
    assert not encoded, "all of it was encoded at once"


def test_nothing_of_a_look_that_its_client_left_is_kept(
    running: Running, polling: Connection
) -> None:
    running.create_topic("left", PARTITIONS)
    before, held = running.broker.turns, HeldTurns(running)
    running.broker.turns = held
    try:
        poll(polling, "left")
        running.wait_until(lambda: bool(held.steps))
        assert running.do(lambda: is_watched(running, "left", 0))
        polling.close()
        running.wait_until(lambda: not running.broker.clients.connections)
        running.do(held.let_go)

        running.wait_until(lambda: not is_watched(running, "left", 0))
    finally:
        running.broker.turns = before


def test_a_wait_ends_empty_when_its_time_is_over(running: Running, polling: Connection) -> None:
    running.create_topic("over", PARTITIONS)
    poll(polling, "over", max_wait_ms=30)
    assert answered(polling) == set()


def test_an_answer_that_has_room_for_no_more_is_not_held_for_more(
    running: Running, client: Connection
) -> None:
    running.create_topic("full", 2)
    for partition in (0, 1):
        produce(client, "full", batch_of(b"x"), partition=partition)
    partitions = [FetchPartition(n, partition_max_bytes=1 << 20) for n in range(2)]
    room = ONE_BYTES + ONE_BYTES // 2
    topics = [FetchTopic("full", partitions=partitions)]
    request = FetchRequest(-1, 60_000, 1 << 20, room, topics=topics)

    response: FetchResponse = client.call(FETCH, request, VERSION)

    assert [bool(one.records) for one in response.responses[0].partitions] == [True, False]
