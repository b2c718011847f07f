"""OffsetDelete, version 0: committed offsets go, but for topics that members subscribe to."""

from broker.answers.group_requests import coordinator_for
from broker.answers.services import Services
from broker.groups.decisions.offsets import Place
from broker.network.authorizer import Operation, ResourceKind
from broker.network.call import Call
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def handle(broker: Services, call: Call, request: OffsetDeleteRequest) -> None:
    coordinator = coordinator_for(broker, call, request.group_id, Operation.DELETE)
    if isinstance(coordinator, ErrorCode):
        call.answer(OffsetDeleteResponse(coordinator, 0, []))
        return
    codes = _check(broker, call, request)
    wanted = [place for place, code in codes.items() if not code]
    code, outcomes = coordinator.delete_offsets(request.group_id, wanted)
    codes.update(outcomes)
    response = OffsetDeleteResponse(code, 0, [] if code else _topics(request, codes))

    def done(code: ErrorCode) -> None:
        call.answer(OffsetDeleteResponse(code, 0, []) if code else response)

    coordinator.when_safe(done)


def _check(broker: Services, call: Call, request: OffsetDeleteRequest) -> dict[Place, ErrorCode]:
    codes: dict[Place, ErrorCode] = {}
    for topic in request.topics or ():
        is_allowed = broker.allows(call, Operation.READ, ResourceKind.TOPIC, topic.name)
        code = ErrorCode.NONE if is_allowed else ErrorCode.TOPIC_AUTHORIZATION_FAILED
        for one in topic.partitions or ():
            codes[topic.name, one.partition_index] = code
    return codes


def _topics(
    request: OffsetDeleteRequest, codes: dict[Place, ErrorCode]
) -> list[OffsetDeleteResponseTopic]:
    return [
        OffsetDeleteResponseTopic(
            topic.name,
            [
                OffsetDeleteResponsePartition(
                    one.partition_index, codes[topic.name, one.partition_index]
                )
                for one in topic.partitions or ()
            ],
        )
        for topic in request.topics or ()
    ]
