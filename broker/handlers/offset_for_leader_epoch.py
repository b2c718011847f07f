"""OffsetForLeaderEpoch, versions 2 to 4: where a leader epoch ended (KIP-101, KIP-320).

A consumer whose partition got a new leader asks with the epoch of the last record it has, to see
whether those records are still there. Here they always are: only committed records are served.
Only the leader answers.
"""

from broker.answers.broker import Broker
from broker.answers.partitions import (
    check_epoch,
    end_of_epoch,
    find_leader,
    has_unknown_epoch,
)
from broker.network.authorizer import CLUSTER, Operation, ResourceKind
from broker.network.call import Call
from broker.requests.fencing import fence_code
from logstore.epoch.log import Topic
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)


async def offset_for_leader_epoch(
    broker: Broker, call: Call, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    topics: list[OffsetForLeaderTopicResult] = []
    is_sure = broker.log.has_read_lease
    if is_sure:
        topics = await _ends(broker, call, request, ErrorCode.NONE)
        is_sure = not await call.finish(has_unknown_epoch(topics)) and broker.log.has_read_lease
    if not is_sure:
        topics = await _ends(broker, call, request, await fence_code(broker))
    return OffsetForLeaderEpochResponse(0, topics)


async def _ends(
    broker: Broker, call: Call, request: OffsetForLeaderEpochRequest, refusal: ErrorCode
) -> list[OffsetForLeaderTopicResult]:
    return [await _topic(broker, call, asked, refusal) async for asked in call.each(request.topics)]


async def _topic(
    broker: Broker, call: Call, asked: OffsetForLeaderTopic, refusal: ErrorCode
) -> OffsetForLeaderTopicResult:
    topic = broker.log.topics.get(asked.topic)
    code = refusal or (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic is None else ErrorCode.NONE)
    if not (
        broker.sees(call, Operation.CLUSTER_ACTION, *CLUSTER)  # brokers may ask, too
        or broker.allows(call, Operation.DESCRIBE, ResourceKind.TOPIC, asked.topic)
    ):
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    answers = [
        EpochEndOffset(code, wanted.partition)
        if topic is None or code
        else _partition(broker, topic, wanted)
        async for wanted in call.each(asked.partitions)
    ]
    return OffsetForLeaderTopicResult(asked.topic, answers)


def _partition(broker: Broker, topic: Topic, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    leader, code = find_leader(broker, topic, wanted.partition)
    if leader is not None:
        code = check_epoch(leader, wanted.current_leader_epoch)
    if leader is None or code:
        return EpochEndOffset(code, wanted.partition)
    epoch, end = end_of_epoch(leader, wanted.leader_epoch)
    return EpochEndOffset(ErrorCode.NONE, wanted.partition, epoch, end)
