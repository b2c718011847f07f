"""AlterPartitionReassignments, versions 0 and 1: each partition has its own outcome (KIP-455).

Null instead of replicas cancels. Fewer replicas than the topic was made with lower the whole
topic's replication factor, or the controller would fill the list up again; longer lists stay. The
answer leaves when the request is in the registry; a change of the leader may take a moment more,
and ListPartitionReassignments shows it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from broker.answers.broker import Broker
from broker.answers.client_changes import listed, log_change
from broker.answers.decisions.budgets import over_budget
from broker.answers.error_codes import code_of
from broker.answers.placement_changes import PlacementChange, change_all, find_partition
from broker.answers.replica_requests import cancel, reassign
from broker.network.call import Call
from broker.requests.refusals import errors_in
from logstore.errors import LogstoreError
from logstore.formats.feed_row import FeedChange
from logstore.formats.partition_row import PartitionRow
from logstore.formats.topic_row import TopicRow
from logstore.protocol.topics.replica_changes import Decide, Placement
from logstore.protocol.topics.topic_change import change_topic
from logstore.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopic,
    ReassignableTopicResponse,
)


async def alter_partition_reassignments(
    broker: Broker, call: Call, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    answer = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change
    )
    wanted: list[PlacementChange] = []
    results: list[ReassignablePartitionResponse] = []
    refusal = over_budget(call.api.key, sum(len(asked.partitions) for asked in request.topics))
    live = frozenset(broker.log.live_brokers())
    known = live | broker.log.brokers.keys()
    async for asked, one in call.each(_partitions(request, answer)):
        if one is None:
            continue
        result = ReassignablePartitionResponse(one.partition_index)
        answer.responses[-1].partitions.append(result)
        if refusal is not None:
            _set_error(result, refusal)
            continue
        with errors_in(result):
            topic = find_partition(broker, asked.name, one.partition_index)
            decide = _decision(one, request, known, live)
            wanted.append(PlacementChange(topic, one.partition_index, decide))
            results.append(result)
    if refusal is None:
        await _lower_factors(broker, call, request)
    outcomes = await change_all(broker, wanted, request.timeout_ms / 1000)
    for result, outcome in zip(results, outcomes, strict=True):
        if isinstance(outcome, LogstoreError):
            _set_error(result, outcome)
    _log(call, wanted, outcomes)
    return answer


def _log(
    call: Call,
    wanted: Sequence[PlacementChange],
    outcomes: Sequence[PartitionRow | LogstoreError],
) -> None:
    changed: dict[str, list[int]] = {}
    for one, outcome in zip(wanted, outcomes, strict=True):
        if isinstance(outcome, PartitionRow):
            changed.setdefault(one.topic.name, []).append(one.partition)
    for name, partitions in changed.items():
        log_change(call, "reassignment asked: topic=%s partitions=%s", name, listed(partitions))


def _partitions(
    request: AlterPartitionReassignmentsRequest, answer: AlterPartitionReassignmentsResponse
) -> Iterator[tuple[ReassignableTopic, ReassignablePartition | None]]:
    """All of the request; a topic, with None, gets its place in `answer` before its partitions."""
    for asked in request.topics:
        answer.responses.append(ReassignableTopicResponse(asked.name))
        yield asked, None
        for one in asked.partitions:
            yield asked, one


async def _lower_factors(
    broker: Broker, call: Call, request: AlterPartitionReassignmentsRequest
) -> None:
    """Raises as the registry does: nothing has been reassigned then."""
    if not request.allow_replication_factor_change:
        return
    live = broker.log.live_brokers().keys()
    async for asked in call.each(request.topics):
        topic = broker.log.topics.get(asked.name)
        fewest = 0
        async for one in call.each(asked.partitions):
            replicas = set(one.replicas or ())
            if replicas and replicas <= live:
                fewest = min(fewest or len(replicas), len(replicas))
        if topic is None or not 0 < fewest < topic.replicas:
            continue

        def lower(row: TopicRow, replicas: int = fewest) -> TopicRow:
            return replace(row, replicas=min(row.replicas, replicas))

        await broker.log.runner.run(change_topic(topic.name, topic.topic_id, lower))
        await broker.log.publish([FeedChange(topic.name, topic.topic_id)])


def _decision(
    asked: ReassignablePartition,
    request: AlterPartitionReassignmentsRequest,
    known: frozenset[int],
    live: frozenset[int],
) -> Decide:
    number, replicas = asked.partition_index, asked.replicas
    may_resize = request.allow_replication_factor_change

    def decide(row: PartitionRow) -> Placement:
        if replicas is None:
            return cancel(row)
        return reassign(row, number, replicas, known=known, live=live, may_resize=may_resize)

    return decide


def _set_error(result: ReassignablePartitionResponse, error: LogstoreError) -> None:
    result.error_code, result.error_message = code_of(error), str(error)
