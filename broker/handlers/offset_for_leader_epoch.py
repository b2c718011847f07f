"""OffsetForLeaderEpoch, versions 2 to 4: where a leader epoch ended (KIP-101, KIP-320).

A consumer whose partition got a new leader asks with the epoch of the last record it has, to see
whether those records are still there. Here they always are: only committed records are served.
Only the leader answers.
"""

from functools import partial

from broker.answers.fence_check import FenceCheck, answer_after_fence_check
from broker.answers.nested_answers import answer_nested
from broker.answers.partitions import (
    check_epoch,
    end_of_epoch,
    find_leader,
    has_unknown_epoch,
)
from broker.answers.services import Services
from broker.network.authorizer import Operation, ResourceKind
from broker.network.call import Call
from logstore.epoch.log import Topic
from logstore.slices import Slices
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)


def handle(broker: Services, call: Call, request: OffsetForLeaderEpochRequest) -> None:
    answer_after_fence_check(broker, call, partial(_answer, broker, call, request))


def _answer(
    broker: Services, call: Call, request: OffsetForLeaderEpochRequest, fence_check: FenceCheck
) -> Slices[bool]:
    topics: list[OffsetForLeaderTopicResult] = []
    for asked in request.topics:
        topics.append((yield from _topic(broker, call, asked, fence_check)))
        yield
    if fence_check is None and (
        (yield from has_unknown_epoch(topics)) or not broker.log.has_read_lease
    ):
        return False
    yield from answer_nested(
        call, OffsetForLeaderEpochResponse(0, topics), ("topics", "partitions")
    )
    return True


def _topic(
    broker: Services, call: Call, asked: OffsetForLeaderTopic, fence_check: FenceCheck
) -> Slices[OffsetForLeaderTopicResult]:
    topic = broker.log.topics.get(asked.topic)
    code = fence_check or (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic is None else ErrorCode.NONE
    )
    if not broker.allows(call, Operation.DESCRIBE, ResourceKind.TOPIC, asked.topic):
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    answers: list[EpochEndOffset] = []
    for wanted in asked.partitions:
        answers.append(
            EpochEndOffset(code, wanted.partition)
            if topic is None or code
            else _partition(broker, topic, wanted)
        )
        yield
    return OffsetForLeaderTopicResult(asked.topic, answers)


def _partition(broker: Services, topic: Topic, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    leader, code = find_leader(broker, topic, wanted.partition)
    if leader is not None:
        code = check_epoch(leader, wanted.current_leader_epoch)
    if leader is None or code:
        return EpochEndOffset(code, wanted.partition)
    epoch, end = end_of_epoch(leader, wanted.leader_epoch)
    return EpochEndOffset(ErrorCode.NONE, wanted.partition, epoch, end)
