"""CreateTopics, versions 2 to 7: each topic has its own outcome.

Partitions and replication factor of -1 are the broker's defaults, in old versions too, as in Kafka,
although its protocol says "from version 4": KafkaJS asks so in version 3. Any replication
factor is taken, since records live in the object store; the answer has the actual number: at most
one replica per broker that is alive. A manual assignment may name such brokers only. From version 5
the answer echoes partitions and configs, if the client may see them. `validate_only` checks and
creates nothing.

Creations that have begun go on after the time of their request; a bounded number does at once, and
topics that found no room in time are not begun (REQUEST_TIMED_OUT). More than 10,000 partitions in
one request are refused, as by Kafka (POLICY_VIOLATION).

From version 6 on a topic beyond the client's quota of changes is refused
(THROTTLING_QUOTA_EXCEEDED); older requests are throttled afterwards.

Not done: policies of one's own.
"""

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from broker.answers.broker import Broker
from broker.answers.client_changes import logged
from broker.answers.creation import (
    begin_and_wait,
    check_assignment,
    check_new_name,
    check_same_length,
    make_placed,
)
from broker.answers.decisions.budgets import clamp_partitions, over_budget
from broker.answers.decisions.refuse import Refuse
from broker.answers.decisions.repeats import counted
from broker.answers.decisions.shown_configs import show_topic_configs
from broker.answers.error_codes import code_of
from broker.answers.mutation_quota import MutationQuota
from broker.cluster.new_partitions import Assignments, hosts, place_partitions
from broker.network.authorizer import CLUSTER, Operation, ResourceKind
from broker.network.call import Call
from logstore.config.topics import check_topic_configs
from logstore.errors import LogstoreError
from logstore.protocol.topics.life import check_partition_count
from logstore.slices import summed
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

STRICT_FROM = 6
BROKER_DEFAULT = -1


class _Layout(NamedTuple):
    """`replicas` as asked for; there may be fewer brokers."""

    replicas: int
    assignments: Assignments


async def create_topics(
    broker: Broker, call: Call, request: CreateTopicsRequest
) -> CreateTopicsResponse:
    often = await call.finish(counted(topic.name for topic in request.topics))
    deadline = broker.loop.time() + request.timeout_ms / 1000
    results: dict[str, CreatableTopicResult] = {}
    quota = MutationQuota(broker, call, STRICT_FROM)
    count = await call.finish(summed(map(_partitions_of, request.topics)))
    refusal = over_budget(call.api.key, count)
    async for topic in call.each(request.topics):
        if topic.name in results:
            continue
        try:
            if refusal is not None:
                raise refusal
            if often[topic.name] > 1:
                raise Refuse(ErrorCode.INVALID_REQUEST, f"topic named twice: name={topic.name}")
            left_s = max(0.0, deadline - broker.loop.time())
            results[topic.name] = await _create(broker, call, request, topic, left_s, quota)
        except LogstoreError as error:
            results[topic.name] = CreatableTopicResult(
                topic.name, error_code=code_of(error), error_message=str(error), configs=[]
            )
    quota.end()
    return CreateTopicsResponse(0, list(results.values()))


def _partitions_of(asked: CreatableTopic) -> int:
    return clamp_partitions(max(asked.num_partitions, len(asked.assignments)))


async def _create(
    broker: Broker,
    call: Call,
    request: CreateTopicsRequest,
    asked: CreatableTopic,
    left_s: float,
    quota: MutationQuota,
) -> CreatableTopicResult:
    name = asked.name
    if not (
        broker.sees(call, Operation.CREATE, *CLUSTER)
        or broker.allows(call, Operation.CREATE, ResourceKind.TOPIC, name)
    ):
        raise Refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "not allowed to create this topic")
    check_new_name(broker, name)
    layout = _layout(broker, asked)
    partitions = len(layout.assignments)
    configs = _configs(asked, broker.settings.topic_defaults)
    result = CreatableTopicResult(name, configs=[])
    if not request.validate_only:
        quota.take(partitions)
        begin = partial(
            make_placed,
            lambda assignments: broker.log.create_topic(
                name, partitions, configs, replicas=layout.replicas, assignments=assignments
            ),
            layout.assignments,
            None
            if asked.assignments
            else partial(place_partitions, broker.log, partitions, layout.replicas, broker.load),
        )
        text = "topic created: name=%s partitions=%d replicas=%d configs=%s"
        shown = ",".join(f"{key}:{value}" for key, value in sorted(configs.items())) or "defaults"
        work = logged(begin, call, text, name, partitions, layout.replicas, shown)
        topic = await begin_and_wait(broker, work, left_s)
        if isinstance(topic, LogstoreError):
            raise topic
        result.topic_id = topic.topic_id
    if broker.allows(call, Operation.DESCRIBE_CONFIGS, ResourceKind.TOPIC, name):
        result.num_partitions = partitions
        result.replication_factor = len(layout.assignments[0])
        result.configs = _echo(broker, configs)
    else:
        result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return result


def _layout(broker: Broker, asked: CreatableTopic) -> _Layout:
    """Where the partitions are to be, after all that is said about them was checked."""
    if asked.assignments:
        return _assigned(broker, asked)
    count, replicas = asked.num_partitions, asked.replication_factor
    if count == BROKER_DEFAULT:
        count = broker.settings.number("num.partitions")
    if replicas == BROKER_DEFAULT:
        replicas = broker.settings.number("default.replication.factor")
    check_partition_count(count)
    if replicas < 1:
        raise Refuse(
            ErrorCode.INVALID_REPLICATION_FACTOR, f"replication factor below 1: {replicas}"
        )
    return _Layout(replicas, place_partitions(broker.log, count, replicas, broker.load))


def _assigned(broker: Broker, asked: CreatableTopic) -> _Layout:
    if asked.num_partitions != BROKER_DEFAULT or asked.replication_factor != BROKER_DEFAULT:
        raise Refuse(
            ErrorCode.INVALID_REQUEST,
            "partitions and replication factor must be -1 where replicas are assigned",
        )
    assigned = sorted(asked.assignments, key=lambda one: one.partition_index)
    if [one.partition_index for one in assigned] != list(range(len(assigned))):
        raise Refuse(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "assigned partitions are not 0, 1, 2 and so on",
        )
    live = hosts(broker.log)
    for one in assigned:
        check_assignment(one.partition_index, one.broker_ids, live)
    assignments = [one.broker_ids for one in assigned]
    check_same_length(assignments)
    check_partition_count(len(assignments))
    return _Layout(len(assignments[0]), assignments)


def _configs(asked: CreatableTopic, defaults: Mapping[str, str]) -> dict[str, str]:
    given: dict[str, str | None] = {}
    for config in asked.configs:
        if config.name in given:
            raise Refuse(ErrorCode.INVALID_CONFIG, f"configuration named twice: {config.name}")
        if config.value is None:
            raise Refuse(ErrorCode.INVALID_CONFIG, f"configuration without a value: {config.name}")
        given[config.name] = config.value
    return check_topic_configs(given, defaults)


def _echo(broker: Broker, configs: dict[str, str]) -> list[CreatableTopicConfigs]:
    """Every configuration, with where its value is from."""
    return [
        CreatableTopicConfigs(one.name, one.value, False, one.source, one.is_sensitive)
        for one in show_topic_configs(configs, broker.settings)
    ]
