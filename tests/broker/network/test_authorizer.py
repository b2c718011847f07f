"""A client that is not allowed to do something gets Kafka's code, and learns nothing else."""

from collections.abc import Callable

import pytest

from broker.network.authorizer import ANONYMOUS, AllowAll, Operation, Resource, ResourceKind
from logstore.errors import OutcomeUnknown
from logstore.wire.errors import ErrorCode
from logstore.wire.framing.client import Connection
from logstore.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from logstore.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from logstore.wire.messages.find_coordinator import FindCoordinatorRequest
from logstore.wire.messages.init_producer_id import InitProducerIdRequest
from logstore.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from logstore.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.running import (
    CREATE_TOPICS,
    DELETE_TOPICS,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    METADATA,
    PRODUCE,
    Running,
    batch_of,
    fetch,
    produce,
    produce_request,
)


class Denying:
    """Everything is allowed that `is_denied` does not name."""

    def __init__(self, is_denied: Callable[[Operation, Resource], bool]) -> None:
        self.principals: set[str] = set()
        self._is_denied = is_denied

    def authorize(
        self,
        principal: str,
        host: str,
        operation: Operation,
        resource: Resource,
        groups: tuple[str, ...] = (),
    ) -> bool:
        self.principals.add(principal)
        return not self._is_denied(operation, resource)


def deny(running: Running, *operations: Operation, kind: ResourceKind | None = None) -> Denying:
    def is_denied(operation: Operation, resource: Resource) -> bool:
        return operation in operations and kind in (None, resource.kind)

    rule = running.authorizer.rule = Denying(is_denied)
    return rule


@pytest.fixture
def name(running: Running, request: pytest.FixtureRequest) -> str:
    """A topic of this test alone."""
    name: str = request.node.name[:60].replace("[", "-").replace("]", "")
    running.create_topic(name)
    return name


def test_every_client_may_do_everything_by_default() -> None:
    assert AllowAll().authorize(ANONYMOUS, "", Operation.WRITE, Resource(ResourceKind.TOPIC, "t"))


def test_produce_needs_write(running: Running, client: Connection, name: str) -> None:
    rule = deny(running, Operation.WRITE)

    assert produce(client, name, batch_of(b"x")).error_code == 29
    assert produce(client, "nowhere", batch_of(b"x")).error_code == 29
    assert rule.principals == {ANONYMOUS}
    running.authorizer.rule = AllowAll()
    assert fetch(client, name).high_watermark == 0


def test_produce_by_id_needs_write(running: Running, client: Connection, name: str) -> None:
    topic = running.log.topics[name]
    deny(running, Operation.WRITE)
    request = produce_request("", batch_of(b"x"), topic_id=topic.topic_id)
    response = client.call(PRODUCE, request, 13)

    assert response.responses[0].partition_responses[0].error_code == 29
    assert response.responses[0].topic_id == topic.topic_id


def test_produce_with_a_transactional_id_needs_write_on_it(
    running: Running, client: Connection, name: str
) -> None:
    deny(running, Operation.WRITE, kind=ResourceKind.TRANSACTIONAL_ID)
    request = produce_request(name, batch_of(b"x"))
    request.transactional_id = "mine"
    response = client.call(PRODUCE, request, 11)

    assert response.responses[0].partition_responses[0].error_code == 53


def test_a_denied_produce_without_answer_closes(running: Running, name: str) -> None:
    deny(running, Operation.WRITE)
    with running.connect() as client, pytest.raises(OutcomeUnknown):
        client.call(PRODUCE, produce_request(name, batch_of(b"x"), acks=0), 9)


def test_fetch_needs_read(running: Running, client: Connection, name: str) -> None:
    topic = running.log.topics[name]
    deny(running, Operation.READ)
    denied = fetch(client, name)

    assert (denied.error_code, denied.high_watermark) == (29, -1)
    assert fetch(client, "nowhere").error_code == 29
    assert fetch(client, "", topic_id=topic.topic_id, version=13).error_code == 29
    assert fetch(client, "", topic_id=b"?" * 16, version=13).error_code == 100


def test_list_offsets_needs_describe(running: Running, client: Connection, name: str) -> None:
    deny(running, Operation.DESCRIBE)
    topics = [ListOffsetsTopic(one, [ListOffsetsPartition(0)]) for one in (name, "nowhere")]
    response = client.call(LIST_OFFSETS, ListOffsetsRequest(-1, 0, topics), 9)

    assert [topic.partitions[0].error_code for topic in response.topics] == [29, 29]


def test_metadata_hides_what_may_not_be_seen(
    running: Running, client: Connection, name: str
) -> None:
    topic = running.log.topics[name]
    deny(running, Operation.DESCRIBE, kind=ResourceKind.TOPIC)
    named = MetadataRequest([MetadataRequestTopic(name=one) for one in (name, "nowhere")])
    by_id = MetadataRequest([MetadataRequestTopic(topic.topic_id, None)])

    assert client.call(METADATA, MetadataRequest(None), 12).topics == []
    for reported in client.call(METADATA, named, 12).topics:
        assert (reported.error_code, reported.topic_id, reported.partitions) == (29, bytes(16), [])
    (hidden,) = client.call(METADATA, by_id, 12).topics
    assert (hidden.error_code, hidden.name) == (29, None), "an id is no secret, a name is"
    assert not running.broker.being_created


def test_auto_creation_needs_create(running: Running, client: Connection) -> None:
    deny(running, Operation.CREATE)
    asked = MetadataRequest([MetadataRequestTopic(name="not-allowed")])

    assert client.call(METADATA, asked, 12).topics[0].error_code == 29
    assert "not-allowed" not in running.broker.being_created


def test_create_topics_needs_create_on_cluster_or_topic(
    running: Running, client: Connection
) -> None:
    def code(name: str) -> int:
        request = CreateTopicsRequest([CreatableTopic(name, 1, 1)])
        answer: int = client.call(CREATE_TOPICS, request, 7).topics[0].error_code
        return answer

    deny(running, Operation.CREATE)
    assert code("created-0") == 29
    deny(running, Operation.CREATE, kind=ResourceKind.CLUSTER)
    assert code("created-1") == 0
    deny(running, Operation.CREATE, kind=ResourceKind.TOPIC)
    assert code("created-2") == 0


def test_configs_are_echoed_only_to_who_may_see_them(running: Running, client: Connection) -> None:
    deny(running, Operation.DESCRIBE_CONFIGS)
    request = CreateTopicsRequest([CreatableTopic("secretive", 2, 1)])
    (result,) = client.call(CREATE_TOPICS, request, 7).topics

    assert (result.error_code, result.topic_config_error_code) == (0, 29)
    assert (result.num_partitions, result.replication_factor, result.configs) == (-1, -1, [])


def test_delete_topics_needs_delete_and_describe(
    running: Running, client: Connection, name: str
) -> None:
    topic_id = running.log.topics[name].topic_id

    def codes(*states: DeleteTopicState) -> list[int]:
        request = DeleteTopicsRequest([], list(states), 9000)
        return [one.error_code for one in client.call(DELETE_TOPICS, request, 6).responses]

    asked = [
        DeleteTopicState(name),
        DeleteTopicState("nowhere"),
        DeleteTopicState(None, topic_id),
    ]
    deny(running, Operation.DELETE)
    assert codes(*asked) == [29, 29, 29]
    deny(running, Operation.DESCRIBE)
    assert codes(*asked) == [29, 29, 29]
    assert name in running.log.topics


def test_producer_ids_need_some_right_to_write(
    running: Running, client: Connection, name: str
) -> None:
    def code(transaction: str | None) -> int:
        request = InitProducerIdRequest(transaction, 60_000)
        answer: int = client.call(INIT_PRODUCER_ID, request, 4).error_code
        return answer

    deny(running, Operation.IDEMPOTENT_WRITE)
    assert code(None) == 0, "a client that may write to a topic may do so idempotently"
    deny(running, Operation.IDEMPOTENT_WRITE, Operation.WRITE)
    assert code(None) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert code("mine") == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_coordinators_need_describe(running: Running, client: Connection) -> None:
    deny(running, Operation.DESCRIBE)
    codes = [
        client.call(FIND_COORDINATOR, FindCoordinatorRequest("", kind, ["k"]), 4)
        .coordinators[0]
        .error_code
        for kind in (0, 1)
    ]

    assert codes == [
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ]
