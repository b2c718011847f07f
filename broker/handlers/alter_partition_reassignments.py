"""AlterPartitionReassignments, versions 0 and 1: each partition has its own outcome (KIP-455).

Null instead of replicas cancels. Fewer replicas than the topic was made with lower the whole
topic's replication factor, or the controller would fill the list up again; longer lists stay. The
answer leaves when the request is in the registry; a change of the leader may take a moment more,
and ListPartitionReassignments shows it.
"""

from dataclasses import replace
from functools import partial

from broker.answers.error_codes import code_of
from broker.answers.placement_changes import PlacementChange, change_all, find_partition
from broker.answers.replica_requests import cancel, reassign
from broker.answers.services import Services
from broker.network.authorizer import CLUSTER, Operation
from broker.network.call import Call
from logstore.errors import LogstoreError
from logstore.formats.feed_row import FeedChange
from logstore.formats.partition_row import PartitionRow
from logstore.formats.topic_row import TopicRow
from logstore.protocol.replica_changes import Decide, Placement
from logstore.protocol.topic_change import change_topic
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


def handle(broker: Services, call: Call, request: AlterPartitionReassignmentsRequest) -> None:
    if not broker.allows(call, Operation.ALTER, *CLUSTER):
        code, why = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "not allowed to reassign partitions"
        call.answer(AlterPartitionReassignmentsResponse(error_code=code, error_message=why))
        return
    broker.start(call, partial(_alter_all, broker, call, request), broker.changes)


async def _alter_all(
    broker: Services, call: Call, request: AlterPartitionReassignmentsRequest
) -> None:
    answer = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change
    )
    wanted: list[PlacementChange] = []
    results: list[ReassignablePartitionResponse] = []
    for asked in request.topics:
        topic_answer = ReassignableTopicResponse(asked.name)
        answer.responses.append(topic_answer)
        for one in asked.partitions:
            result = ReassignablePartitionResponse(one.partition_index)
            topic_answer.partitions.append(result)
            try:
                topic = find_partition(broker, asked.name, one.partition_index)
            except LogstoreError as error:
                _set_error(result, error)
            else:
                wanted.append(
                    PlacementChange(topic, one.partition_index, _decision(broker, one, request))
                )
                results.append(result)
    await _lower_factors(broker, request)
    outcomes = await change_all(broker, wanted, request.timeout_ms / 1000)
    for result, outcome in zip(results, outcomes, strict=True):
        if isinstance(outcome, LogstoreError):
            _set_error(result, outcome)
    call.answer(answer)


async def _lower_factors(broker: Services, request: AlterPartitionReassignmentsRequest) -> None:
    """Raises as the registry does: nothing has been reassigned then."""
    if not request.allow_replication_factor_change:
        return
    live = broker.log.live_brokers().keys()
    for asked in request.topics:
        topic = broker.log.topics.get(asked.name)
        lists = [set(one.replicas) for one in asked.partitions if one.replicas]
        fewest = min((len(one) for one in lists if one <= live), default=0)
        if topic is None or not 0 < fewest < topic.replicas:
            continue

        def lower(row: TopicRow, replicas: int = fewest) -> TopicRow:
            return replace(row, replicas=min(row.replicas, replicas))

        await broker.log.runner.run(change_topic(topic.name, topic.topic_id, lower))
        await broker.log.publish([FeedChange(topic.name, topic.topic_id)])


def _decision(
    broker: Services, asked: ReassignablePartition, request: AlterPartitionReassignmentsRequest
) -> Decide:
    number, replicas = asked.partition_index, asked.replicas
    live = frozenset(broker.log.live_brokers())
    known = live | broker.log.brokers.keys()
    may_resize = request.allow_replication_factor_change

    def decide(row: PartitionRow) -> Placement:
        if replicas is None:
            return cancel(row)
        return reassign(row, number, replicas, known=known, live=live, may_resize=may_resize)

    return decide


def _set_error(result: ReassignablePartitionResponse, error: LogstoreError) -> None:
    result.error_code, result.error_message = code_of(error), str(error)
