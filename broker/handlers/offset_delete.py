"""OffsetDelete, version 0: committed offsets go, but for topics that members subscribe to.

Many offsets are deleted some at a time. An offset that is there can be deleted whether its topic is
there or not.
"""

from collections.abc import Mapping

from broker.answers.broker import Broker
from broker.answers.client_changes import listed, log_change
from broker.answers.group_requests import coordinator_for
from broker.groups.decisions.group import Group
from broker.groups.decisions.offsets import Place
from broker.network.authorizer import Operation, ResourceKind
from broker.network.call import Call
from logstore.slices import parts_of
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

AT_ONCE = 200
"""Offsets that are deleted in one step."""


async def offset_delete(
    broker: Broker, call: Call, request: OffsetDeleteRequest
) -> OffsetDeleteResponse:
    coordinator = coordinator_for(
        broker, call, request.group_id, Operation.DELETE, may_be_nameless=True
    )
    if isinstance(coordinator, ErrorCode):
        return OffsetDeleteResponse(coordinator, 0, [])
    codes = await _check(broker, call, request, coordinator.states.get(request.group_id))
    wanted = [place for place, code in codes.items() if not code]
    async for part in call.each(parts_of(wanted, AT_ONCE) if wanted else [[]]):
        code, outcomes = coordinator.delete_offsets(request.group_id, part)
        if coordinator.is_retired:
            code = ErrorCode.NOT_COORDINATOR
        if code:
            return OffsetDeleteResponse(code, 0, [])
        codes.update(outcomes)
    committed = coordinator.safe()
    call.let_later_begin()
    topics = await _topics(call, request, codes)
    if code := await committed:
        return OffsetDeleteResponse(code, 0, [])
    for name, partitions in _deleted(codes).items():
        text = "group offsets deleted: group=%s topic=%s partitions=%s"
        log_change(call, text, request.group_id, name, listed(partitions))
    return OffsetDeleteResponse(0, 0, topics)


def _deleted(codes: Mapping[Place, ErrorCode]) -> dict[str, list[int]]:
    """Partitions by topic."""
    deleted: dict[str, list[int]] = {}
    for (name, number), code in codes.items():
        if not code:
            deleted.setdefault(name, []).append(number)
    return deleted


async def _check(
    broker: Broker, call: Call, request: OffsetDeleteRequest, group: Group | None
) -> dict[Place, ErrorCode]:
    known = {} if group is None else group.offsets
    codes: dict[Place, ErrorCode] = {}
    async for topic in call.each(request.topics or ()):
        may = broker.allows(call, Operation.READ, ResourceKind.TOPIC, topic.name)
        is_there = topic.name in broker.log.topics
        async for one in call.each(topic.partitions or ()):
            place = (topic.name, one.partition_index)
            if not may:
                codes[place] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif is_there or place in known:
                codes[place] = ErrorCode.NONE
            else:
                codes[place] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return codes


async def _topics(
    call: Call, request: OffsetDeleteRequest, codes: dict[Place, ErrorCode]
) -> list[OffsetDeleteResponseTopic]:
    topics: list[OffsetDeleteResponseTopic] = []
    async for topic in call.each(request.topics or ()):
        partitions = [
            OffsetDeleteResponsePartition(
                one.partition_index, codes[topic.name, one.partition_index]
            )
            async for one in call.each(topic.partitions or ())
        ]
        topics.append(OffsetDeleteResponseTopic(topic.name, partitions))
    return topics
