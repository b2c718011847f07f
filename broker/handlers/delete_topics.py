"""DeleteTopics, versions 1 to 6: by name, from version 6 also by id; each has its own outcome.

When the answer leaves, Metadata no longer shows the topic and fetches that waited on it have been
answered. Its bytes go when the segments they lie in do.

From version 5 on a topic beyond the client's quota of changes is refused
(THROTTLING_QUOTA_EXCEEDED); older requests are throttled afterwards.
"""

from collections.abc import Iterable
from functools import partial

from broker.answers.broker import Broker
from broker.answers.client_changes import logged
from broker.answers.creation import begin_and_wait, check_not_internal
from broker.answers.decisions.budgets import over_budget
from broker.answers.decisions.refuse import Refuse
from broker.answers.decisions.repeats import counted
from broker.answers.mutation_quota import MutationQuota
from broker.network.authorizer import Operation, ResourceKind
from broker.network.call import Call
from broker.requests.refusals import errors_in
from logstore.epoch.log import Topic
from logstore.errors import LogstoreError
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from logstore.wire.primitives import ZERO_UUID

STRICT_FROM = 5
STATES_FROM = 6


async def delete_topics(
    broker: Broker, call: Call, request: DeleteTopicsRequest
) -> DeleteTopicsResponse:
    often = await call.finish(counted((one.name, one.topic_id) for one in _asked(call, request)))
    deadline = broker.loop.time() + request.timeout_ms / 1000
    results = []
    quota = MutationQuota(broker, call, STRICT_FROM)
    refusal = over_budget(call.api.key, often.total())
    async for one in call.each(_asked(call, request)):
        result = DeletableTopicResult(one.name, one.topic_id)
        results.append(result)
        with errors_in(result):
            if refusal is not None:
                raise refusal
            if often[one.name, one.topic_id] > 1:
                raise Refuse(ErrorCode.INVALID_REQUEST, "topic named twice")
            topic = _find(broker, call, one)
            result.name, result.topic_id = topic.name, topic.topic_id
            quota.take(topic.partition_count)
            left_s = max(0.0, deadline - broker.loop.time())
            await _delete(broker, call, topic, left_s)
    quota.end()
    return DeleteTopicsResponse(0, results)


def _asked(call: Call, request: DeleteTopicsRequest) -> Iterable[DeleteTopicState]:
    if call.version >= STATES_FROM:
        return request.topics
    return map(DeleteTopicState, request.topic_names)


def _find(broker: Broker, call: Call, asked: DeleteTopicState) -> Topic:
    """The topic, if it is there and the client may delete it."""
    if asked.name is not None and asked.topic_id != ZERO_UUID:
        raise Refuse(ErrorCode.INVALID_REQUEST, "give the name or the id of a topic, not both")
    by_id = asked.name is None
    if asked.name is None:
        topic = broker.log.topics_by_id.get(asked.topic_id)
    else:
        topic = broker.log.topics.get(asked.name)
    name = asked.name if topic is None else topic.name
    seen = name is not None and broker.allows(call, Operation.DESCRIBE, ResourceKind.TOPIC, name)
    if name is not None and not (
        seen and broker.allows(call, Operation.DELETE, ResourceKind.TOPIC, name)
    ):
        raise Refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "not allowed to delete this topic")
    if topic is None and by_id:
        raise Refuse(ErrorCode.UNKNOWN_TOPIC_ID, "no topic has this id")
    if topic is None:
        raise Refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"no such topic: name={asked.name}")
    check_not_internal(topic.name, "deleted")
    return topic


async def _delete(broker: Broker, call: Call, topic: Topic, left_s: float) -> None:
    begin = partial(broker.log.delete_topic, topic.name)
    work = logged(begin, call, "topic deleted: name=%s", topic.name)
    outcome = await begin_and_wait(broker, work, left_s)
    if isinstance(outcome, LogstoreError):
        raise outcome
