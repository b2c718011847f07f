"""AlterReplicaLogDirs, versions 1 and 2: a broker has one log directory, the log's URL.

So a move to it is done already where this broker has a replica of the partition, and any other
directory is unknown, as Kafka answers for one that is not in `log.dirs`.
"""

from broker.answers.nested_answers import answer_nested
from broker.answers.services import Services
from broker.network.authorizer import CLUSTER, Operation
from broker.network.call import Call
from logstore.slices import Slices, emptied
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)


def handle(broker: Services, call: Call, request: AlterReplicaLogDirsRequest) -> None:
    broker.turns.begin(call, _answer(broker, call, request))


def _answer(broker: Services, call: Call, request: AlterReplicaLogDirsRequest) -> Slices[None]:
    is_allowed = broker.allows(call, Operation.ALTER, *CLUSTER)
    paths: dict[str, dict[int, str]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            numbers = paths.setdefault(topic.name, {})
            for number in topic.partitions:
                numbers[number] = directory.path
            yield
        yield
    yield from emptied(request.dirs)
    response = AlterReplicaLogDirsResponse()
    for name, wanted in paths.items():
        result = AlterReplicaLogDirTopicResult(name)
        response.results.append(result)
        for number, path in wanted.items():
            code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            if is_allowed:
                code = _code_of(broker, name, number, path)
            result.partitions.append(AlterReplicaLogDirPartitionResult(number, code))
            yield
    yield from emptied(paths)
    yield from answer_nested(call, response, ("results", "partitions"))


def _code_of(broker: Services, name: str, partition: int, path: str) -> ErrorCode:
    if path != broker.log.url:
        return ErrorCode.LOG_DIR_NOT_FOUND
    topic = broker.log.topics.get(name)
    if topic is None or not (partition in topic.leaders or partition in topic.followers):
        return ErrorCode.REPLICA_NOT_AVAILABLE
    return ErrorCode.NONE
