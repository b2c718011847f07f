"""ReadFeed, version 0: our own request, between brokers (`logstore.wire.read_feed`).

A broker that changed topics has all others read the change feed now, and goes on when they say that
they have (safety rule 20). Reads are shared and paced, whatever is asked.
"""

from broker.answers.broker import Broker
from broker.network.call import Call
from logstore.wire.read_feed import ReadFeedRequest, ReadFeedResponse


async def read_feed(broker: Broker, call: Call, request: ReadFeedRequest) -> ReadFeedResponse:
    if broker.log.feed_version >= request.version:
        return ReadFeedResponse(0, broker.log.feed_version)
    return ReadFeedResponse(0, await broker.log.read_feed(request.version))
