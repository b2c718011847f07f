"""OffsetCommit, versions 2 to 10: remember how far a group has read; each partition has its code.

    v2-4 retention time    v6 leader epoch    v7 group instance id    v10 ids of topics, no names

A group without members may be committed to by anybody, with generation -1 and no member id.

Many offsets are committed some at a time, and the committer is checked before each part: where its
generation ends in between, the parts before are committed, and the rest has an error.
"""

from collections.abc import Sequence
from typing import NamedTuple

from broker.answers.broker import Broker
from broker.answers.client_changes import listed, log_change
from broker.answers.group_requests import coordinator_for
from broker.groups.coordinator import Coordinator
from broker.groups.decisions.offsets import Committer, OffsetCommit
from broker.network.authorizer import Operation, ResourceKind
from broker.network.call import Call
from logstore.slices import parts_of
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

TOPIC_IDS_FROM = 10
AT_ONCE = 200
"""Offsets that are committed in one step, some 2 ms."""


class _PendingOffset(NamedTuple):
    offset: OffsetCommit
    answer: OffsetCommitResponsePartition


async def offset_commit(
    broker: Broker, call: Call, request: OffsetCommitRequest
) -> OffsetCommitResponse:
    coordinator = _coordinator(broker, call, request)
    if isinstance(coordinator, ErrorCode):
        return await _refused(broker, call, request, coordinator)
    response, wanted = OffsetCommitResponse(), list[_PendingOffset]()
    async for topic in call.each(request.topics or ()):
        response.topics.append(await _check_topic(broker, call, topic, wanted))
    committed_count, code = 0, ErrorCode.NONE
    set_back: list[OffsetCommit] = []
    async for part in call.each(parts_of(wanted, AT_ONCE)):
        code = code or _commit_some(broker, call, request, coordinator, part, set_back)
        if code:
            for one in part:
                one.answer.error_code = code
        else:
            committed_count += len(part)
    if not code or committed_count:
        committed = coordinator.safe()
        call.let_later_begin()
        code = await committed
    if code:
        return await _refused(broker, call, request, code)
    _log_reset(call, request.group_id, set_back)
    return response


def _coordinator(
    broker: Broker, call: Call, request: OffsetCommitRequest
) -> Coordinator | ErrorCode:
    """The group's coordinator, if this member may commit."""
    group_id = request.group_id
    coordinator = coordinator_for(broker, call, group_id, Operation.READ, may_be_nameless=True)
    if isinstance(coordinator, ErrorCode):
        return coordinator
    who = Committer(
        request.member_id, request.group_instance_id, request.generation_id_or_member_epoch
    )
    return coordinator.check_commit(group_id, who) or coordinator


def _commit_some(
    broker: Broker,
    call: Call,
    request: OffsetCommitRequest,
    coordinator: Coordinator,
    part: Sequence[_PendingOffset],
    set_back: list[OffsetCommit],
) -> ErrorCode:
    """Commits `part`, if it may be; adds to `set_back` what a client outside the group lowers."""
    current = _coordinator(broker, call, request)
    if isinstance(current, ErrorCode):
        return current
    if current is not coordinator:
        return ErrorCode.NOT_COORDINATOR
    offsets = [one.offset for one in part]
    code = coordinator.check_room(request.group_id, offsets)
    if not code:
        if request.generation_id_or_member_epoch < 0:
            set_back += coordinator.set_back(request.group_id, offsets)
        coordinator.commit(request.group_id, offsets, request.retention_time_ms)
    return code


def _log_reset(call: Call, group_id: str, set_back: Sequence[OffsetCommit]) -> None:
    """An administrator has reset the group."""
    by_topic: dict[str, dict[int, int]] = {}
    for one in set_back:
        name, number = one.place
        by_topic.setdefault(name, {})[number] = one.offset
    for name, offsets in by_topic.items():
        text = "group set back: group=%s topic=%s offsets=%s"
        log_change(call, text, group_id, name, listed(offsets))


async def _check_topic(
    broker: Broker, call: Call, asked: OffsetCommitRequestTopic, wanted: list[_PendingOffset]
) -> OffsetCommitResponseTopic:
    """Returns the answer if all goes well; offsets that may be committed are added to `wanted`."""
    partitions: list[OffsetCommitResponsePartition] = []
    by_id, log = call.version >= TOPIC_IDS_FROM, broker.log
    topic = log.topics_by_id.get(asked.topic_id) if by_id else log.topics.get(asked.name)
    name = topic.name if by_id and topic is not None else asked.name
    is_nameless = by_id and topic is None
    count = 0 if topic is None else topic.partition_count
    is_allowed = _may_read(broker, call, asked)
    bytes_max = broker.groups.offset_metadata_bytes_max
    async for one in call.each(asked.partitions or ()):
        metadata = one.committed_metadata or ""
        answer = OffsetCommitResponsePartition(one.partition_index)
        partitions.append(answer)
        if not is_allowed:
            answer.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif is_nameless:
            answer.error_code = ErrorCode.UNKNOWN_TOPIC_ID
        elif topic is None or not 0 <= one.partition_index < count:
            answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif len(metadata.encode()) > bytes_max:
            answer.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
        else:
            place = (name, one.partition_index)
            epoch = one.committed_leader_epoch
            offset = OffsetCommit(place, topic.topic_id, one.committed_offset, epoch, metadata)
            wanted.append(_PendingOffset(offset, answer))
    return OffsetCommitResponseTopic(asked.name, asked.topic_id, partitions)


def _may_read(broker: Broker, call: Call, asked: OffsetCommitRequestTopic) -> bool:
    """Whether the client may read the topic; an id that no topic has is refused elsewhere."""
    if call.version < TOPIC_IDS_FROM:
        return broker.allows(call, Operation.READ, ResourceKind.TOPIC, asked.name)
    topic = broker.log.topics_by_id.get(asked.topic_id)
    return topic is None or broker.allows_on(call, Operation.READ, topic)


async def _refused(
    broker: Broker, call: Call, request: OffsetCommitRequest, code: ErrorCode
) -> OffsetCommitResponse:
    """As in Kafka, topics come before what a coordinator says, and rights on the group before."""
    response = OffsetCommitResponse()
    async for topic in call.each(request.topics or ()):
        refused = code
        if code is not ErrorCode.GROUP_AUTHORIZATION_FAILED and not _may_read(broker, call, topic):
            refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        partitions = [
            OffsetCommitResponsePartition(one.partition_index, refused)
            async for one in call.each(topic.partitions or ())
        ]
        response.topics.append(OffsetCommitResponseTopic(topic.name, topic.topic_id, partitions))
    return response
