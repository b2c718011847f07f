"""DescribeQuorum, versions 0 to 2: the controller, its term, and the feed that brokers follow.

Every broker answers, from what it has seen (`broker.answers.decisions.shown_quorum`). Where it
knows no live controller it refuses with the code after which clients ask again.
"""

from broker.answers.broker import Broker
from broker.answers.decisions.repeats import merge_topics
from broker.answers.decisions.shown_quorum import (
    METADATA_PARTITION,
    METADATA_TOPIC,
    ShownQuorum,
    ShownReplica,
    show_quorum,
)
from broker.network.call import Call
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)


async def describe_quorum(
    broker: Broker, call: Call, request: DescribeQuorumRequest
) -> DescribeQuorumResponse:
    if not _is_about_metadata(request):
        return await _refuse_each(call, request)
    return _describe(broker)


def _is_about_metadata(request: DescribeQuorumRequest) -> bool:
    if len(request.topics) != 1 or request.topics[0].topic_name != METADATA_TOPIC:
        return False
    return [one.partition_index for one in request.topics[0].partitions[:2]] == [METADATA_PARTITION]


async def _refuse_each(call: Call, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    response = DescribeQuorumResponse()
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    asked = (
        (one.topic_name, (p.partition_index for p in one.partitions)) for one in request.topics
    )
    merged = await call.finish(merge_topics(asked))
    async for name, numbers in call.each(merged.items()):
        answer = ResponseTopicData(name)
        response.topics.append(answer)
        async for number in call.each(numbers):
            answer.partitions.append(ResponsePartitionData(number, unknown))
    return response


def _describe(broker: Broker) -> DescribeQuorumResponse:
    lease, log = broker.controller_lease, broker.log
    live = log.live_brokers()
    if lease is None or lease.owner not in live:
        code, why = ErrorCode.NOT_LEADER_OR_FOLLOWER, "no live broker is known to be the controller"
        answer = ResponsePartitionData(METADATA_PARTITION, code, why)
        return DescribeQuorumResponse(topics=[ResponseTopicData(METADATA_TOPIC, [answer])])
    shown = show_quorum(
        lease.owner,
        lease.epoch,
        log.feed_version,
        log.brokers,
        live.keys(),
        me=broker.node_id,
        now_ms=broker.clock.now_ms(),
    )
    return _encode(shown)


def _encode(shown: ShownQuorum) -> DescribeQuorumResponse:
    partition = ResponsePartitionData(
        METADATA_PARTITION,
        ErrorCode.NONE,
        None,
        shown.leader,
        shown.leader_epoch,
        shown.high_watermark,
        [_replica(one) for one in shown.voters],
        [_replica(one) for one in shown.observers],
    )
    listeners = [Listener(name, *address) for name, address in shown.listeners.items()]
    return DescribeQuorumResponse(
        topics=[ResponseTopicData(METADATA_TOPIC, [partition])],
        nodes=[Node(shown.leader, listeners)],
    )


def _replica(shown: ShownReplica) -> ReplicaState:
    return ReplicaState(
        shown.broker,
        log_end_offset=shown.log_end_offset,
        last_fetch_timestamp=shown.seen_ms,
        last_caught_up_timestamp=shown.seen_ms,
    )
