"""Metadata, versions 0 to 13: the brokers that are alive, and who leads which partitions.

Version 0 asks for all topics with an empty list, later ones with null. From version 12 on topics
can be asked for by id. A topic that does not exist is created if the broker, the request and the
client's rights allow it; the answer is LEADER_NOT_AVAILABLE, and clients ask again.

The answer waits until every other broker has answered a question, and right after a broker's death
until its partitions have other leaders, at most 1.2 s (`broker.answers.leader_settling`).

Addresses are those of the listener the client came by. Replicas that are alive are in sync, since
the object store keeps the copies. Any broker serves the requests that only Kafka's controller
may, so any may be shown as it.
"""

from collections import Counter
from collections.abc import Iterator
from functools import partial

from broker.answers.broker import Broker
from broker.answers.creation import auto_create, check_new_name
from broker.answers.decisions.shown_cluster import show_brokers
from broker.answers.error_codes import code_of
from broker.answers.metadata_bytes import (
    NOT_ASKED,
    EncodedTopic,
    encode_topic,
    frame_with_topics,
)
from broker.answers.mutation_quota import may_change_cluster
from broker.network.authorizer import (
    CLUSTER,
    TOPIC_OPERATIONS,
    Operation,
    ResourceKind,
)
from broker.network.call import Call
from broker.requests.encoding import EncodedAnswer
from logstore.epoch.log import Topic
from logstore.errors import LogstoreError
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from logstore.wire.primitives import ZERO_UUID

EMPTY_MEANS_ALL = 0
NAMES_NULL_FROM = 12


async def metadata(broker: Broker, call: Call, request: MetadataRequest) -> EncodedAnswer:
    if not broker.leader_settling.is_settled():
        await broker.leader_settling.wait()
    listener = call.connection.listener
    live = broker.log.live_brokers()
    live_numbers = frozenset(live)
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(*shown)
            for shown in show_brokers(
                live, listener.name, broker.node_id, listener.address_for(call.connection)
            )
        ],
        cluster_id=broker.cluster_id,
        controller_id=broker.controller_id,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = broker.cluster_bits(call)
    encoded: list[bytes] = []
    errors: Counter[int] = Counter()
    async for topic in call.each(_topics(broker, call, request)):
        if topic is not None:
            # Before each topic: other answers go on between slices, and all of this one, brokers
            # and leaders, is to be of one moment.
            broker.metadata.see(live_numbers)
            data, its_errors = _encode(broker, call, request, topic)
            encoded.append(data)
            errors.update(its_errors)
    frame = partial(frame_with_topics, call.correlation_id, call.version, response, encoded)
    return EncodedAnswer(response, errors, frame)


def _topics(
    broker: Broker, call: Call, request: MetadataRequest
) -> Iterator[Topic | MetadataResponseTopic | None]:
    """The topics asked for; those that cannot be shown as an answer that says why, None if hidden.

    Topics that are made or deleted between two slices may be shown or not.
    """
    if request.topics is None or (call.version == EMPTY_MEANS_ALL and not request.topics):
        for topic in tuple(broker.log.topics.values()):
            may = broker.sees(call, Operation.DESCRIBE, ResourceKind.TOPIC, topic.name)
            yield topic if may and not topic.is_deleted else None
    else:
        seen: set[tuple[str | None, bytes]] = set()
        for asked in request.topics:
            name = asked.name, asked.topic_id
            if name in seen:
                continue
            seen.add(name)
            yield _find(broker, call, request, *name)


def _find(
    broker: Broker, call: Call, request: MetadataRequest, name: str | None, topic_id: bytes
) -> Topic | MetadataResponseTopic:
    if name is None:
        return _find_by_id(broker, call, topic_id)
    if not broker.allows(call, Operation.DESCRIBE, ResourceKind.TOPIC, name):
        return MetadataResponseTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name)
    topic = broker.log.topics.get(name)
    if topic is not None:
        return topic
    return MetadataResponseTopic(_missing(broker, call, request, name), name)


def _find_by_id(broker: Broker, call: Call, topic_id: bytes) -> Topic | MetadataResponseTopic:
    if call.version < NAMES_NULL_FROM or topic_id == ZERO_UUID:
        nameless = None if call.version >= NAMES_NULL_FROM else ""
        return MetadataResponseTopic(ErrorCode.INVALID_REQUEST, nameless, topic_id)
    topic = broker.log.topics_by_id.get(topic_id)
    if topic is None:
        return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id)
    if not broker.allows(call, Operation.DESCRIBE, ResourceKind.TOPIC, topic.name):
        # As in Kafka: the name stays hidden, an id is no secret.
        return MetadataResponseTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None, topic_id)
    return topic


def _missing(broker: Broker, call: Call, request: MetadataRequest, name: str) -> ErrorCode:
    """The code for a topic that does not exist; its creation may begin."""
    try:
        check_new_name(broker, name)
    except LogstoreError as error:
        return code_of(error)
    if not (
        request.allow_auto_topic_creation and broker.settings.flag("auto.create.topics.enable")
    ):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not (
        broker.sees(call, Operation.CREATE, *CLUSTER)
        or broker.allows(call, Operation.CREATE, ResourceKind.TOPIC, name)
    ):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if not may_change_cluster(broker, call, broker.settings.number("num.partitions")):
        return ErrorCode.LEADER_NOT_AVAILABLE  # clients ask again
    auto_create(broker, name)
    return ErrorCode.LEADER_NOT_AVAILABLE


def _encode(
    broker: Broker, call: Call, request: MetadataRequest, topic: Topic | MetadataResponseTopic
) -> EncodedTopic:
    if isinstance(topic, MetadataResponseTopic):
        return EncodedTopic(encode_topic(call.version, topic), {topic.error_code: 1})
    operations = NOT_ASKED
    if request.include_topic_authorized_operations:
        operations = broker.allowed_bits(call, TOPIC_OPERATIONS, ResourceKind.TOPIC, topic.name)
    return broker.metadata.topic(call.version, topic, operations)
