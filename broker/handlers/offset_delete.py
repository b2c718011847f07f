"""OffsetDelete, version 0: committed offsets go, but for topics that members subscribe to.

Many offsets are deleted some at a time. An offset that is there can be deleted whether its topic is
there or not.
"""

from collections.abc import Mapping

from broker.answers.client_changes import listed, log_change
from broker.answers.group_requests import coordinator_for
from broker.answers.nested_answers import answer_nested
from broker.answers.services import Services
from broker.groups.decisions.group import Group
from broker.groups.decisions.offsets import Place
from broker.network.authorizer import Operation, ResourceKind
from broker.network.call import Call
from logstore.slices import Slices, parts_of
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

AT_ONCE = 200
"""Offsets that are deleted in one step."""


def handle(broker: Services, call: Call, request: OffsetDeleteRequest) -> None:
    broker.turns.begin(call, _delete(broker, call, request), in_order=True)


def _delete(broker: Services, call: Call, request: OffsetDeleteRequest) -> Slices[None]:
    coordinator = coordinator_for(
        broker, call, request.group_id, Operation.DELETE, may_be_nameless=True
    )
    if isinstance(coordinator, ErrorCode):
        call.answer(OffsetDeleteResponse(coordinator, 0, []))
        return
    codes = yield from _check(broker, call, request, coordinator.states.get(request.group_id))
    wanted = [place for place, code in codes.items() if not code]
    for part in parts_of(wanted, AT_ONCE) if wanted else [[]]:
        code, outcomes = coordinator.delete_offsets(request.group_id, part)
        if coordinator.is_retired:
            code = ErrorCode.NOT_COORDINATOR
        if code:
            call.answer(OffsetDeleteResponse(code, 0, []))
            return
        codes.update(outcomes)
        yield
    response = OffsetDeleteResponse(0, 0, (yield from _topics(request, codes)))

    def done(code: ErrorCode) -> None:
        if code:
            call.answer(OffsetDeleteResponse(code, 0, []))
        else:
            for name, partitions in _deleted(codes).items():
                text = "group offsets deleted: group=%s topic=%s partitions=%s"
                log_change(call, text, request.group_id, name, listed(partitions))
            broker.turns.begin(call, answer_nested(call, response, ("topics", "partitions")))

    coordinator.when_safe(done)


def _deleted(codes: Mapping[Place, ErrorCode]) -> dict[str, list[int]]:
    """Partitions by topic."""
    deleted: dict[str, list[int]] = {}
    for (name, number), code in codes.items():
        if not code:
            deleted.setdefault(name, []).append(number)
    return deleted


def _check(
    broker: Services, call: Call, request: OffsetDeleteRequest, group: Group | None
) -> Slices[dict[Place, ErrorCode]]:
    known = {} if group is None else group.offsets
    codes: dict[Place, ErrorCode] = {}
    for topic in request.topics or ():
        may = broker.allows(call, Operation.READ, ResourceKind.TOPIC, topic.name)
        is_there = topic.name in broker.log.topics
        for one in topic.partitions or ():
            place = (topic.name, one.partition_index)
            if not may:
                codes[place] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif is_there or place in known:
                codes[place] = ErrorCode.NONE
            else:
                codes[place] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            yield
        yield
    return codes


def _topics(
    request: OffsetDeleteRequest, codes: dict[Place, ErrorCode]
) -> Slices[list[OffsetDeleteResponseTopic]]:
    topics: list[OffsetDeleteResponseTopic] = []
    for topic in request.topics or ():
        partitions: list[OffsetDeleteResponsePartition] = []
        for one in topic.partitions or ():
            number = one.partition_index
            partitions.append(OffsetDeleteResponsePartition(number, codes[topic.name, number]))
            yield
        topics.append(OffsetDeleteResponseTopic(topic.name, partitions))
        yield
    return topics
