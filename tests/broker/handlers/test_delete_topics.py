"""DeleteTopics: by name and by id, and nothing of the topic is seen afterwards."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from logstore.protocol.rows.view import RegistryUpdate
from logstore.wire.errors import ErrorCode
from logstore.wire.framing.client import Connection
from logstore.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from logstore.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.running import DELETE_TOPICS, METADATA, Running, batch_of, fetch, produce


def delete(
    client: Connection, *states: DeleteTopicState, version: int = 6
) -> list[DeletableTopicResult]:
    names = [state.name or "" for state in states]
    request = DeleteTopicsRequest(names, list(states), 9000)
    response: DeleteTopicsResponse = client.call(DELETE_TOPICS, request, version)
    return response.responses


@pytest.mark.parametrize("version", range(1, 7))
def test_every_version_deletes_by_name(running: Running, client: Connection, version: int) -> None:
    name = f"versions-{version}"
    topic = running.create_topic(name, 2)
    produce(client, name, batch_of(b"x"))
    (result,) = delete(client, DeleteTopicState(name), version=version)

    assert (result.name, result.error_code) == (name, 0)
    assert result.topic_id == (topic.topic_id if version >= 6 else bytes(16))
    wanted = MetadataRequest([MetadataRequestTopic(name=name)], False)
    assert client.call(METADATA, wanted, 9).topics[0].error_code == 3
    assert fetch(client, name).error_code == 3
    assert produce(client, name, batch_of(b"x")).error_code == 3


def test_a_topic_is_deleted_by_its_id(running: Running, client: Connection) -> None:
    topic = running.create_topic("by-id")
    (result,) = delete(client, DeleteTopicState(None, topic.topic_id))

    assert (result.name, result.topic_id, result.error_code) == ("by-id", topic.topic_id, 0)
    assert "by-id" not in running.log.topics


def test_what_is_not_there_is_reported(client: Connection) -> None:
    unknown = DeleteTopicState(None, b"?" * 16)
    results = delete(client, DeleteTopicState("nowhere"), unknown)

    assert [r.error_code for r in results] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ]
    assert results[1].topic_id == b"?" * 16


def test_name_and_id_together_and_twice_the_same_are_refused(
    running: Running, client: Connection
) -> None:
    topic = running.create_topic("stays")
    results = delete(
        client,
        DeleteTopicState("stays", topic.topic_id),
        DeleteTopicState("stays"),
        DeleteTopicState("stays"),
    )

    assert {r.error_code for r in results} == {ErrorCode.INVALID_REQUEST}
    assert "stays" in running.log.topics


def test_a_topic_can_be_created_again_at_once(running: Running, client: Connection) -> None:
    first = running.create_topic("again")
    produce(client, "again", batch_of(b"x"))
    delete(client, DeleteTopicState("again"))
    second = running.create_topic("again")

    assert first.topic_id != second.topic_id
    assert produce(client, "again", batch_of(b"y")).base_offset == 0


def test_internal_topics_are_deleted_by_no_client(running: Running, client: Connection) -> None:
    topic = running.create_topic("__consumer_offsets")
    asked = (DeleteTopicState("__consumer_offsets"), DeleteTopicState(None, topic.topic_id))
    for one in asked:
        (result,) = delete(client, one)
        assert result.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert "__consumer_offsets" in (result.error_message or "")

    assert running.log.topics["__consumer_offsets"] is topic


@pytest.mark.parametrize("by_id", [False, True])
def test_what_waits_for_its_commit_is_refused_once_the_topic_is_deleted(
    running: Running, client: Connection, by_id: bool
) -> None:
    name = f"in-flight-{by_id}"
    topic = running.create_topic(name)
    version = 13 if by_id else 9
    running.hold_store()
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(
            produce, client, name, batch_of(b"x"), version=version, topic_id=topic.topic_id
        )
        running.wait_until(lambda: running.log.writer.backlog_bytes > 0)
        gone = RegistryUpdate(running.log.feed_version, {name: None}, {})
        running.do(lambda: running.log._on_update(gone))
        running.let_store_go()
        code = waiting.result().error_code

    assert code == (ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
