"""OffsetCommit, versions 2 to 9: remember how far a group has read; each partition has its code.

    v2-4 retention time    v6 leader epoch    v7 group instance id

A group without members may be committed to by anybody, with generation -1 and no member id.
"""

from broker.answers.group_requests import coordinator_for
from broker.answers.services import Services
from broker.groups.decisions.offsets import Committer, OffsetCommit
from broker.network.authorizer import Operation, ResourceKind
from broker.network.call import Call
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)


def handle(broker: Services, call: Call, request: OffsetCommitRequest) -> None:
    group_id = request.group_id
    coordinator = coordinator_for(broker, call, group_id, Operation.READ, may_be_nameless=True)
    if isinstance(coordinator, ErrorCode):
        call.answer(_refuse_all(request, coordinator))
        return
    who = Committer(
        request.member_id, request.group_instance_id, request.generation_id_or_member_epoch
    )
    code = coordinator.check_commit(group_id, who)
    if code:
        call.answer(_refuse_all(request, code))
        return
    wanted: list[OffsetCommit] = []
    response = OffsetCommitResponse(
        0, [_check_topic(broker, call, topic, wanted) for topic in request.topics or ()]
    )
    code = coordinator.check_room(group_id, wanted)
    if code:
        call.answer(_refuse_all(request, code))
        return
    coordinator.commit(group_id, wanted, request.retention_time_ms)

    def done(code: ErrorCode) -> None:
        call.answer(_refuse_all(request, code) if code else response)

    coordinator.when_safe(done)


def _check_topic(
    broker: Services, call: Call, asked: OffsetCommitRequestTopic, wanted: list[OffsetCommit]
) -> OffsetCommitResponseTopic:
    """The answer if all goes well; offsets that may be committed are added to `wanted`."""
    partitions: list[OffsetCommitResponsePartition] = []
    topic = broker.log.topics.get(asked.name)
    count = 0 if topic is None else topic.partition_count
    is_allowed = broker.allows(call, Operation.READ, ResourceKind.TOPIC, asked.name)
    bytes_max = broker.groups.offset_metadata_bytes_max
    for one in asked.partitions or ():
        metadata = one.committed_metadata or ""
        code = ErrorCode.NONE
        if not is_allowed:
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif topic is None or not 0 <= one.partition_index < count:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif len(metadata.encode()) > bytes_max:
            code = ErrorCode.OFFSET_METADATA_TOO_LARGE
        else:
            place = (asked.name, one.partition_index)
            epoch = one.committed_leader_epoch
            wanted.append(
                OffsetCommit(place, topic.topic_id, one.committed_offset, epoch, metadata)
            )
        partitions.append(OffsetCommitResponsePartition(one.partition_index, code))
    return OffsetCommitResponseTopic(asked.name, partitions)


def _refuse_all(request: OffsetCommitRequest, code: ErrorCode) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        0,
        [
            OffsetCommitResponseTopic(
                topic.name,
                [
                    OffsetCommitResponsePartition(one.partition_index, code)
                    for one in topic.partitions or ()
                ],
            )
            for topic in request.topics or ()
        ],
    )
