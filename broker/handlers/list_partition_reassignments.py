"""ListPartitionReassignments, version 0: running reassignments, as far as this broker knows.

Null instead of topics asks for all; partitions that are not being reassigned are left out. Until it
is done, the replicas are those from before and those to come.
"""

from collections.abc import Iterable

from broker.answers.broker import Broker
from broker.network.call import Call
from logstore.epoch.log import Topic
from logstore.formats.partition_row import PartitionRow
from logstore.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


async def list_partition_reassignments(
    broker: Broker, call: Call, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    topics = []
    async for topic, numbers in call.each(_asked(broker, request)):
        ongoing = [
            _describe(number, topic.rows[number])
            for number in numbers
            if 0 <= number < topic.partition_count and topic.rows[number].reassigning
        ]
        if ongoing:
            topics.append(OngoingTopicReassignment(topic.name, ongoing))
    return ListPartitionReassignmentsResponse(topics=topics)


def _asked(
    broker: Broker, request: ListPartitionReassignmentsRequest
) -> Iterable[tuple[Topic, Iterable[int]]]:
    known = broker.log.topics
    if request.topics is None:
        return [(topic, range(topic.partition_count)) for topic in known.values()]
    return [
        (known[asked.name], asked.partition_indexes)
        for asked in request.topics
        if asked.name in known
    ]


def _describe(number: int, row: PartitionRow) -> OngoingPartitionReassignment:
    adding = [broker for broker in row.reassigning if broker not in row.replicas]
    removing = [broker for broker in row.replicas if broker not in row.reassigning]
    return OngoingPartitionReassignment(number, [*row.reassigning, *removing], adding, removing)
