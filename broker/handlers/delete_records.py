"""DeleteRecords, versions 0 to 2: each partition has its own outcome.

Records below the offset are gone for every reader when the answer leaves; -1 stands for the high
watermark. Only the partition's leader may do it, and only on topics that delete at all. Before the
answer that there is no such offset comes a fencing check: clients do not ask again
(`broker.answers.fence_check`).
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from broker.answers.broker import Broker
from broker.answers.client_changes import listed, log_change
from broker.answers.creation import begin_and_wait
from broker.answers.decisions.budgets import over_budget
from broker.answers.decisions.refuse import Refuse
from broker.answers.decisions.shown_cluster import INTERNAL_TOPICS
from broker.answers.error_codes import code_of
from broker.answers.fence_check import fence_check_of
from broker.answers.log_starts import NewStart, raise_led
from broker.network.authorizer import Operation, ResourceKind
from broker.network.call import Call
from logstore.config.topics import topic_value
from logstore.epoch.leader import Leader
from logstore.epoch.log import Topic
from logstore.errors import LogstoreError
from logstore.formats.partition_row import StartReason
from logstore.protocol.deletion.records_deletion import OffsetOutOfRange, new_log_start
from logstore.protocol.topics.life import UnknownTopic
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
)

UNKNOWN = -1


class _Wanted(NamedTuple):
    topic: Topic
    leader: Leader
    offset: int
    result: DeleteRecordsPartitionResult


async def delete_records(
    broker: Broker, call: Call, request: DeleteRecordsRequest
) -> DeleteRecordsResponse:
    topics: list[DeleteRecordsTopicResult] = []
    wanted: list[_Wanted] = []
    doubtful: list[DeleteRecordsPartitionResult] = []
    refusal = over_budget(call.api.key, sum(len(asked.partitions) for asked in request.topics))
    async for asked, one in call.each(_partitions(request, topics)):
        if one is None:
            continue
        result = DeleteRecordsPartitionResult(one.partition_index, UNKNOWN)
        topics[-1].partitions.append(result)
        if refusal is not None:
            result.error_code = refusal.code
            continue
        try:
            topic = _find(broker, call, asked.name, one.partition_index)
            wanted.append(_plan(topic, one, result))
        except LogstoreError as error:
            result.error_code = code_of(error)
            if isinstance(error, OffsetOutOfRange):
                doubtful.append(result)
    fence_check = await fence_check_of(broker.log) if doubtful else ErrorCode.NONE
    for result in doubtful:
        result.error_code = fence_check or result.error_code
    outcomes = await begin_and_wait(broker, _raise(broker, call, wanted), request.timeout_ms / 1000)
    if isinstance(outcomes, LogstoreError):
        outcomes = [outcomes] * len(wanted)
    for plan, failure in zip(wanted, outcomes, strict=True):
        if failure is None:
            plan.result.low_watermark = plan.leader.log_start
        else:
            plan.result.error_code = code_of(failure)
    return DeleteRecordsResponse(0, topics)


def _partitions(
    request: DeleteRecordsRequest, topics: list[DeleteRecordsTopicResult]
) -> Iterator[tuple[DeleteRecordsTopic, DeleteRecordsPartition | None]]:
    """All of the request; a topic, with None, gets its place in `topics` before its partitions."""
    for asked in request.topics:
        topics.append(DeleteRecordsTopicResult(asked.name))
        yield asked, None
        for one in asked.partitions:
            yield asked, one


def _find(broker: Broker, call: Call, name: str, partition: int) -> Topic:
    if not broker.allows(call, Operation.DELETE, ResourceKind.TOPIC, name):
        raise Refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "not allowed to delete records")
    topic = broker.log.topics.get(name)
    if topic is None or not 0 <= partition < topic.partition_count:
        raise UnknownTopic(f"no such partition: topic={name} partition={partition}")
    if name in INTERNAL_TOPICS:
        raise Refuse(
            ErrorCode.INVALID_TOPIC_EXCEPTION, "records of internal topics cannot be deleted"
        )
    policy = topic_value("cleanup.policy", topic.configs, broker.settings.topic_defaults)
    if isinstance(policy, tuple) and "delete" not in policy:
        raise Refuse(
            ErrorCode.POLICY_VIOLATION,
            f"cleanup.policy of topic {name} is compact: records are not deleted by offset; set it "
            "to compact,delete first",
        )
    return topic


def _plan(
    topic: Topic, asked: DeleteRecordsPartition, result: DeleteRecordsPartitionResult
) -> _Wanted:
    leader = topic.leaders.get(asked.partition_index)
    if leader is None or leader.is_released:
        raise _other_leader()
    offset = new_log_start(asked.offset, high_watermark=leader.high_watermark)
    return _Wanted(topic, leader, offset, result)


async def _raise(
    broker: Broker, call: Call, wanted: Sequence[_Wanted]
) -> Sequence[LogstoreError | None]:
    """Raise log starts in the registry, then here; for each what went wrong."""
    plans = [one for one in wanted if one.offset > one.leader.log_start]
    starts = [NewStart(topic, leader, offset) for topic, leader, offset, _ in plans]
    outcomes = await raise_led(broker.log, starts, StartReason.RECORDS_DELETED)
    errors: dict[int, LogstoreError] = {}
    deleted: dict[str, dict[int, int]] = {}
    for plan, outcome in zip(plans, outcomes, strict=True):
        if not isinstance(outcome, int):
            errors[id(plan.result)] = _other_leader() if outcome is None else outcome
        else:
            deleted.setdefault(plan.topic.name, {})[plan.leader.partition] = outcome
    for name, offsets in deleted.items():
        log_change(call, "records deleted: topic=%s before_offsets=%s", name, listed(offsets))
    return [errors.get(id(one.result)) for one in wanted]


def _other_leader() -> Refuse:
    return Refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another broker leads this partition")
