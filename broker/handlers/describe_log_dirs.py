"""DescribeLogDirs, versions 1 to 5: the partitions that have a replica on this broker, by size.

A broker has one log directory, the log's URL. All replicas of a partition are the same objects, so
their sizes are alike (`broker.answers.partition_sizes`) and do not add up; a replica lags behind by
no offsets and is on no way to another directory. How large the store is and how much of it is free
is not known (-1).
"""

from broker.answers.broker import Broker
from broker.answers.decisions.repeats import merge_topics
from broker.answers.error_codes import code_of
from broker.network.call import Call
from logstore.epoch.log import Topic
from logstore.errors import LogstoreError
from logstore.reading.brokers.readable import Readable
from logstore.slices import Slices
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


async def describe_log_dirs(
    broker: Broker, call: Call, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:
    result = DescribeLogDirsResult(ErrorCode.NONE, broker.log.url)
    names: list[str] = []
    replicas: list[Readable] = []
    asked = await call.finish(_asked(broker, request))
    async for topic, number in call.each(asked):
        replica: Readable | None = topic.leaders.get(number) or topic.followers.get(number)
        if replica is not None:
            names.append(topic.name)
            replicas.append(replica)
    try:
        sizes = await broker.sizes.measure(replicas)
    except LogstoreError as error:
        result.error_code = code_of(error)
    else:
        topics: dict[str, DescribeLogDirsTopic] = {}
        shown = zip(names, replicas, sizes, strict=True)
        async for name, measured, size in call.each(shown):
            topic_answer = topics.setdefault(name, DescribeLogDirsTopic(name))
            answer = DescribeLogDirsPartition(measured.partition, size)
            topic_answer.partitions.append(answer)
        result.topics = list(topics.values())
    return DescribeLogDirsResponse(0, ErrorCode.NONE, [result])


def _asked(broker: Broker, request: DescribeLogDirsRequest) -> Slices[list[tuple[Topic, int]]]:
    known = broker.log.topics
    if request.topics is None:
        return [
            (topic, number)
            for topic in known.values()
            for number in (*topic.leaders, *topic.followers)
        ]
    asked = [(one.topic, one.partitions) for one in request.topics if one.topic in known]
    merged = yield from merge_topics(asked)
    return [
        (known[name], number)
        for name, numbers in merged.items()
        if name in known
        for number in numbers
    ]
