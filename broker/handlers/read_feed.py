"""ReadFeed, version 0: our own request, between brokers (`logstore.wire.read_feed`).

A broker that changed topics has all others read the change feed now, and goes on when they say that
they have (safety rule 20). Reads are shared and paced, whatever is asked.
"""

from functools import partial

from broker.answers.services import Services
from broker.network.authorizer import CLUSTER, Operation
from broker.network.call import Call
from logstore.wire.errors import ErrorCode
from logstore.wire.read_feed import ReadFeedRequest, ReadFeedResponse


def handle(broker: Services, call: Call, request: ReadFeedRequest) -> None:
    if not broker.allows(call, Operation.CLUSTER_ACTION, *CLUSTER):
        call.answer(ReadFeedResponse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    elif broker.log.feed_version >= request.version:
        call.answer(ReadFeedResponse(0, broker.log.feed_version))
    else:
        broker.start(call, partial(_read, broker, call, request), None)


async def _read(broker: Services, call: Call, request: ReadFeedRequest) -> None:
    call.answer(ReadFeedResponse(0, await broker.log.read_feed(request.version)))
