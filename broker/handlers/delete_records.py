"""DeleteRecords, versions 0 to 2: each partition has its own outcome.

Records below the offset are gone for every reader when the answer leaves; -1 stands for the high
watermark. Only the partition's leader may do it, and only on topics that delete at all.
"""

from functools import partial
from typing import TYPE_CHECKING

from broker.authorizer import Kind, Operation
from broker.call import Call
from broker.creation import begin_and_wait
from broker.errors import Refuse, code_of
from broker.shown_cluster import INTERNAL_TOPICS
from logstore.config.topics import topic_value
from logstore.errors import LogstoreError
from logstore.log.leader import Leader
from logstore.log.log import Topic
from logstore.log.records_deletion import new_log_start, raise_log_start
from logstore.log.topics import UnknownTopic
from logstore.rows import Change
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from broker.broker import Broker

UNKNOWN = -1


def handle(broker: "Broker", call: Call, request: DeleteRecordsRequest) -> None:
    broker.start(call, partial(_delete_all, broker, call, request), broker.changes)


async def _delete_all(broker: "Broker", call: Call, request: DeleteRecordsRequest) -> None:
    deadline = broker.loop.time() + request.timeout_ms / 1000
    topics = []
    for asked in request.topics:
        outcome = DeleteRecordsTopicResult(asked.name)
        topics.append(outcome)
        for one in asked.partitions:
            result = DeleteRecordsPartitionResult(one.partition_index, UNKNOWN)
            outcome.partitions.append(result)
            left_s = max(0.0, deadline - broker.loop.time())
            try:
                topic = _find(broker, call, asked.name, one.partition_index)
                result.low_watermark = await _delete(broker, topic, one, left_s)
            except LogstoreError as error:
                result.error_code = code_of(error)
    call.answer(DeleteRecordsResponse(0, topics))


def _find(broker: "Broker", call: Call, name: str, partition: int) -> Topic:
    if not broker.allows(call, Operation.DELETE, Kind.TOPIC, name):
        raise Refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "not allowed to delete records")
    topic = broker.log.topics.get(name)
    if topic is None or not 0 <= partition < topic.partition_count:
        raise UnknownTopic(f"no such partition: topic={name} partition={partition}")
    if name in INTERNAL_TOPICS:
        raise Refuse(ErrorCode.INVALID_TOPIC_EXCEPTION, "the cluster itself needs these records")
    policy = topic_value("cleanup.policy", topic.configs, broker.settings.topic_defaults)
    if isinstance(policy, tuple) and "delete" not in policy:
        raise Refuse(ErrorCode.POLICY_VIOLATION, f"this topic only compacts: name={name}")
    return topic


async def _delete(
    broker: "Broker", topic: Topic, asked: DeleteRecordsPartition, left_s: float
) -> int:
    leader = topic.leaders.get(asked.partition_index)
    if leader is None or leader.is_released:
        raise _other_leader()
    offset = new_log_start(asked.offset, high_watermark=leader.high_watermark)
    if offset > leader.log_start:
        outcome = await begin_and_wait(broker, _raise(broker, topic, leader, offset), left_s)
        if isinstance(outcome, LogstoreError):
            raise outcome
    return leader.log_start


async def _raise(broker: "Broker", topic: Topic, leader: Leader, offset: int) -> None:
    chain = leader.stretches[-1].chain
    log_start = await broker.log.performer.run(
        raise_log_start(leader.topic_id, leader.partition, chain, leader.leader_epoch, offset)
    )
    if log_start is None:
        raise _other_leader()
    leader.raise_log_start(log_start)
    await broker.log.publish([Change(topic.name, topic.topic_id, leader.partition)])


def _other_leader() -> Refuse:
    return Refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another broker leads this partition")
