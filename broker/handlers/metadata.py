"""Metadata, versions 0 to 13: which topics there are, and that this broker leads all of them.

Version 0 asks for all topics with an empty list, later ones with null. From version 12 on topics
can be asked for by id. A topic that does not exist is created if the broker, the request and the
client's rights allow it; the answer is LEADER_NOT_AVAILABLE, and clients ask again.

Replicas are shown as they are: one, this broker; the object store keeps the copies. The address is
that of the listener the client came by.

Encoding a thousand partitions takes a millisecond, so the bytes of a topic are kept per version.
"""

from typing import TYPE_CHECKING

from broker.authorizer import (
    CLUSTER,
    CLUSTER_OPERATIONS,
    TOPIC_OPERATIONS,
    Kind,
    Operation,
)
from broker.call import Call
from broker.creation import auto_create, check_new_name
from broker.errors import code_of
from broker.metadata_bytes import frame_with_topics
from logstore.errors import LogstoreError
from logstore.log.log import Topic
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from logstore.wire.primitives import ZERO_UUID

if TYPE_CHECKING:
    from broker.broker import Broker

EMPTY_MEANS_ALL = 0
NAMES_NULL_FROM = 12
NOT_ASKED = -(2**31)


def handle(broker: "Broker", call: Call, request: MetadataRequest) -> None:
    host, port = call.connection.listener.address_for(call.connection)
    response = MetadataResponse(
        brokers=[MetadataResponseBroker(broker.node_id, host, port, broker.rack)],
        cluster_id=broker.cluster_id,
        controller_id=broker.node_id,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = broker.allowed_bits(
            call, CLUSTER_OPERATIONS, *CLUSTER
        )
    encoded = [_encode(broker, call, request, topic) for topic in _topics(broker, call, request)]
    call.answer_bytes(frame_with_topics(call.correlation_id, call.version, response, encoded))


def _topics(
    broker: "Broker", call: Call, request: MetadataRequest
) -> list[Topic | MetadataResponseTopic]:
    """The topics asked for; those that cannot be shown as an answer that says why."""
    if request.topics is None or (call.version == EMPTY_MEANS_ALL and not request.topics):
        return [
            topic
            for topic in broker.log.topics.values()
            if broker.allows(call, Operation.DESCRIBE, Kind.TOPIC, topic.name)
        ]
    return [_find(broker, call, request, asked) for asked in request.topics]


def _find(
    broker: "Broker", call: Call, request: MetadataRequest, asked: MetadataRequestTopic
) -> Topic | MetadataResponseTopic:
    name = asked.name
    if name is None:
        return _find_by_id(broker, call, asked.topic_id)
    if not broker.allows(call, Operation.DESCRIBE, Kind.TOPIC, name):
        return MetadataResponseTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name)
    topic = broker.log.topics.get(name)
    if topic is not None:
        return topic
    return MetadataResponseTopic(_missing(broker, call, request, name), name)


def _find_by_id(broker: "Broker", call: Call, topic_id: bytes) -> Topic | MetadataResponseTopic:
    if call.version < NAMES_NULL_FROM or topic_id == ZERO_UUID:
        nameless = None if call.version >= NAMES_NULL_FROM else ""
        return MetadataResponseTopic(ErrorCode.INVALID_REQUEST, nameless, topic_id)
    topic = broker.log.topics_by_id.get(topic_id)
    if topic is None:
        return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id)
    if not broker.allows(call, Operation.DESCRIBE, Kind.TOPIC, topic.name):
        return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id)
    return topic


def _missing(broker: "Broker", call: Call, request: MetadataRequest, name: str) -> ErrorCode:
    """What to say about a topic that does not exist; it may begin to."""
    try:
        check_new_name(broker.log, name)
    except LogstoreError as error:
        return code_of(error)
    if not (
        request.allow_auto_topic_creation and broker.settings.flag("auto.create.topics.enable")
    ):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not (
        broker.allows(call, Operation.CREATE, *CLUSTER)
        or broker.allows(call, Operation.CREATE, Kind.TOPIC, name)
    ):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    auto_create(broker, name)
    return ErrorCode.LEADER_NOT_AVAILABLE


def _encode(
    broker: "Broker", call: Call, request: MetadataRequest, topic: Topic | MetadataResponseTopic
) -> bytes:
    if isinstance(topic, MetadataResponseTopic):
        return broker.metadata.encode(call.version, topic)
    if request.include_topic_authorized_operations:
        answer = _describe(broker, topic)
        answer.topic_authorized_operations = broker.allowed_bits(
            call, TOPIC_OPERATIONS, Kind.TOPIC, topic.name
        )
        return broker.metadata.encode(call.version, answer)
    known = broker.metadata.get(topic.topic_id, call.version)
    if known is None:
        known = broker.metadata.keep(topic.topic_id, call.version, _describe(broker, topic))
    return known


def _describe(broker: "Broker", topic: Topic) -> MetadataResponseTopic:
    node = [broker.node_id]
    partitions = [
        MetadataResponsePartition(
            0, leader.partition, broker.node_id, leader.leader_epoch, node, node
        )
        for leader in topic.leaders
    ]
    return MetadataResponseTopic(0, topic.name, topic.topic_id, False, partitions)
