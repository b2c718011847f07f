"""AlterReplicaLogDirs, versions 1 and 2: a broker has one log directory, the log's URL.

So a move to it is done already where this broker has a replica of the partition, and any other
directory is unknown, as Kafka answers for one that is not in `log.dirs`.
"""

from broker.answers.broker import Broker
from broker.network.authorizer import CLUSTER, Operation
from broker.network.call import Call
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)


async def alter_replica_log_dirs(
    broker: Broker, call: Call, request: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    is_allowed = broker.allows(call, Operation.ALTER, *CLUSTER)
    paths: dict[str, dict[int, str]] = {}
    async for directory in call.each(request.dirs):
        async for topic in call.each(directory.topics):
            numbers = paths.setdefault(topic.name, {})
            numbers.update(dict.fromkeys(topic.partitions, directory.path))
    response = AlterReplicaLogDirsResponse()
    async for name, wanted in call.each(paths.items()):
        result = AlterReplicaLogDirTopicResult(name)
        response.results.append(result)
        async for number, path in call.each(wanted.items()):
            code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            if is_allowed:
                code = _code_of(broker, name, number, path)
            result.partitions.append(AlterReplicaLogDirPartitionResult(number, code))
    return response


def _code_of(broker: Broker, name: str, partition: int, path: str) -> ErrorCode:
    if path != broker.log.url:
        return ErrorCode.LOG_DIR_NOT_FOUND
    topic = broker.log.topics.get(name)
    if topic is None or not (partition in topic.leaders or partition in topic.followers):
        return ErrorCode.REPLICA_NOT_AVAILABLE
    return ErrorCode.NONE
