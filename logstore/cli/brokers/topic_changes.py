"""Requests of `logstore topics` that change an existing topic."""

from collections.abc import Iterable, Mapping, Sequence

from logstore.cli.brokers.topic_calls import CALL_TIMEOUT_MS, check, look_up
from logstore.wire.errors import ErrorCode
from logstore.wire.framing.client import Connection
from logstore.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from logstore.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from logstore.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from logstore.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

CREATE_PARTITIONS, ELECT_LEADERS, INCREMENTAL_ALTER_CONFIGS = 37, 43, 44
ALTER_PARTITION_REASSIGNMENTS = 45
TOPIC_RESOURCE = 2
SET, DELETE = 0, 1
PREFERRED = 0


def add_partitions(connection: Connection, name: str, count: int) -> None:
    """`count` is how many there are to be."""
    request = CreatePartitionsRequest([CreatePartitionsTopic(name, count)], CALL_TIMEOUT_MS)
    result = connection.call(CREATE_PARTITIONS, request).results[0]
    check(result.error_code, result.error_message, f"add partitions to {name}")


def alter_configs(
    connection: Connection, name: str, sets: Mapping[str, str], unsets: Iterable[str]
) -> None:
    changes = [AlterableConfig(key, SET, value) for key, value in sets.items()]
    changes += [AlterableConfig(key, DELETE) for key in unsets]
    resource = AlterConfigsResource(TOPIC_RESOURCE, name, changes)
    response = connection.call(
        INCREMENTAL_ALTER_CONFIGS, IncrementalAlterConfigsRequest([resource])
    )
    result = response.responses[0]
    check(result.error_code, result.error_message, f"change settings of {name}")


def reassign(
    connection: Connection,
    name: str,
    partitions: Sequence[int] | None,
    replicas: Sequence[int] | None,
) -> list[int]:
    """Begin to move partitions to `replicas`, or cancel where that is None; `partitions` None: all.

    The partitions whose move was begun or cancelled; all that are cancelled are those with one. It
    does not wait for the moves. Raises for a named partition without one.
    """
    numbers = _numbers(connection, name, partitions)
    wanted = None if replicas is None else list(replicas)
    asked = [ReassignablePartition(number, wanted) for number in numbers]
    request = AlterPartitionReassignmentsRequest(
        CALL_TIMEOUT_MS, topics=[ReassignableTopic(name, asked)]
    )
    response = connection.call(ALTER_PARTITION_REASSIGNMENTS, request)
    check(response.error_code, response.error_message, f"reassign {name}")
    is_cancel_of_all = replicas is None and partitions is None
    done = []
    for one in response.responses[0].partitions:
        number = one.partition_index
        if is_cancel_of_all and one.error_code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS:
            continue
        check(one.error_code, one.error_message, f"reassign {name} partition={number}")
        done.append(number)
    return done


def elect(connection: Connection, name: str, partitions: Sequence[int] | None) -> list[int]:
    """Give leadership back to preferred leaders; which partitions have another one since."""
    numbers = _numbers(connection, name, partitions)
    request = ElectLeadersRequest(PREFERRED, [TopicPartitions(name, numbers)], CALL_TIMEOUT_MS)
    response = connection.call(ELECT_LEADERS, request)
    check(response.error_code, None, f"elect leaders of {name}")
    elected = []
    for topic in response.replica_election_results:
        for one in topic.partition_result:
            if one.error_code == ErrorCode.ELECTION_NOT_NEEDED:
                continue
            doing = f"elect a leader of {name} partition={one.partition_id}"
            check(one.error_code, one.error_message, doing)
            elected.append(one.partition_id)
    return elected


def _numbers(connection: Connection, name: str, partitions: Sequence[int] | None) -> list[int]:
    if partitions is not None:
        return list(partitions)
    return sorted(p.partition_index for p in look_up(connection, name)[1].partitions)
