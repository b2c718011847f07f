"""CreatePartitions, versions 0 to 3: topics grow; each has its own outcome.

`count` is how many partitions the topic is to have afterwards. New ones are placed as those of a
new topic are, or where an assignment says: brokers that are alive, as many per partition as the
topic has replicas. `validate_only` checks and creates nothing.

From version 3 on a topic beyond the client's quota of changes is refused
(THROTTLING_QUOTA_EXCEEDED); older requests are throttled afterwards.
"""

from collections.abc import Callable
from functools import partial

from broker.answers.broker import Broker
from broker.answers.client_changes import logged
from broker.answers.creation import (
    begin_and_wait,
    check_assignment,
    check_not_internal,
    check_same_length,
    make_placed,
)
from broker.answers.decisions.budgets import clamp_partitions, over_budget
from broker.answers.decisions.refuse import Refuse
from broker.answers.decisions.repeats import counted
from broker.answers.mutation_quota import MutationQuota
from broker.cluster.new_partitions import Assignments, hosts, place_partitions
from broker.network.authorizer import Operation, ResourceKind
from broker.network.call import Call
from broker.requests.refusals import errors_in
from logstore.epoch.log import Topic
from logstore.errors import LogstoreError
from logstore.protocol.topics.life import BadPartitionCount, UnknownTopic, check_partition_count
from logstore.slices import summed
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

STRICT_FROM = 3


async def create_partitions(
    broker: Broker, call: Call, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    often = await call.finish(counted(topic.name for topic in request.topics))
    deadline = broker.loop.time() + request.timeout_ms / 1000
    results: dict[str, CreatePartitionsTopicResult] = {}
    quota = MutationQuota(broker, call, STRICT_FROM)
    counts = (clamp_partitions(one.count) for one in request.topics)
    refusal = over_budget(call.api.key, await call.finish(summed(counts)))
    async for asked in call.each(request.topics):
        if asked.name in results:
            continue
        result = results[asked.name] = CreatePartitionsTopicResult(asked.name)
        with errors_in(result):
            if refusal is not None:
                raise refusal
            if often[asked.name] > 1:
                raise Refuse(ErrorCode.INVALID_REQUEST, f"topic named twice: name={asked.name}")
            topic = _find(broker, call, asked.name)
            assignments = _assignments(broker, topic, asked)
            if not request.validate_only:
                left_s = max(0.0, deadline - broker.loop.time())
                new = asked.count - topic.partition_count
                quota.take(new)
                again = partial(place_partitions, broker.log, new, topic.replicas, broker.load)
                is_given = asked.assignments is not None
                otherwise = None if is_given else again
                begin = partial(_grow, broker, topic, asked.count, assignments, otherwise)
                text = "partitions added: topic=%s before=%d now=%d"
                before = topic.partition_count
                work = logged(begin, call, text, topic.name, before, asked.count)
                outcome = await begin_and_wait(broker, work, left_s)
                if isinstance(outcome, LogstoreError):
                    raise outcome
    quota.end()
    return CreatePartitionsResponse(0, list(results.values()))


def _find(broker: Broker, call: Call, name: str) -> Topic:
    if not broker.allows(call, Operation.ALTER, ResourceKind.TOPIC, name):
        raise Refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "not allowed to change this topic")
    topic = broker.log.topics.get(name)
    if topic is None:
        raise UnknownTopic(f"no such topic: name={name}")
    check_not_internal(name, "grown")
    return topic


def _assignments(broker: Broker, topic: Topic, asked: CreatePartitionsTopic) -> Assignments:
    """Brokers of each new partition, after all that is said about them was checked."""
    now = topic.partition_count
    if asked.count <= now:
        raise BadPartitionCount(
            f"partitions can only be added: name={topic.name} partitions={now} asked={asked.count}"
        )
    check_partition_count(asked.count)
    if asked.assignments is None:
        return place_partitions(broker.log, asked.count - now, topic.replicas, broker.load)
    return _assigned(broker, topic, asked.count, asked.assignments)


def _assigned(
    broker: Broker, topic: Topic, count: int, assigned: list[CreatePartitionsAssignment]
) -> Assignments:
    now = topic.partition_count
    if len(assigned) != count - now:
        raise Refuse(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"replicas must be assigned for each new partition: new={count - now} "
            f"assigned={len(assigned)}",
        )
    live = hosts(broker.log)
    for number, one in enumerate(assigned, now):
        check_assignment(number, one.broker_ids, live)
    assignments = [one.broker_ids for one in assigned]
    check_same_length([topic.rows[0].replicas, *assignments])
    return assignments


async def _grow(
    broker: Broker,
    topic: Topic,
    count: int,
    assignments: Assignments,
    again: Callable[[], Assignments] | None,
) -> None:
    if topic.partition_count != count - len(assignments):
        raise BadPartitionCount(f"topic has grown during the request: name={topic.name}")
    make = partial(broker.log.create_partitions, topic.name, count)
    await make_placed(make, assignments, again)
