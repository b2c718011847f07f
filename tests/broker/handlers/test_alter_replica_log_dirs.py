"""AlterReplicaLogDirs: there is one log directory, and no other."""

import itertools

import pytest

from broker.network.authorizer import Operation
from broker.network.turns import SLICE_S, Turns
from logstore.wire.errors import ErrorCode
from logstore.wire.framing.client import Connection
from logstore.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from tests.broker.network.test_authorizer import deny
from tests.broker.running import Running

ALTER_REPLICA_LOG_DIRS = 34


def alter(
    client: Connection, *asked: tuple[str, str, list[int]], version: int = 2
) -> dict[tuple[str, int], int]:
    """Error codes by topic and partition; `asked`: directory, topic, partitions."""
    dirs = [
        AlterReplicaLogDir(path, [AlterReplicaLogDirTopic(name, numbers)])
        for path, name, numbers in asked
    ]
    response: AlterReplicaLogDirsResponse = client.call(
        ALTER_REPLICA_LOG_DIRS, AlterReplicaLogDirsRequest(dirs), version
    )
    shown = [
        ((topic.topic_name, one.partition_index), one.error_code)
        for topic in response.results
        for one in topic.partitions
    ]
    assert len(dict(shown)) == len(shown), "answered twice"
    return dict(shown)


@pytest.mark.parametrize("version", [1, 2])
def test_only_the_log_itself_is_a_directory(
    running: Running, client: Connection, version: int
) -> None:
    name, here = f"stays-{version}", running.log.url
    running.create_topic(name, 2)
    asked = [(here, name, [0, 0, 5]), ("/elsewhere", name, [1]), (here, "nowhere", [0])]

    assert alter(client, *asked, version=version) == {
        (name, 0): 0,
        (name, 5): ErrorCode.REPLICA_NOT_AVAILABLE,
        (name, 1): ErrorCode.LOG_DIR_NOT_FOUND,
        ("nowhere", 0): ErrorCode.REPLICA_NOT_AVAILABLE,
    }
    assert alter(client, ("/elsewhere", name, [0]), (here, name, [0])) == {(name, 0): 0}


def test_directories_without_topics_take_turns(running: Running, client: Connection) -> None:
    ticks, count = itertools.count(), 40
    turns = Turns(
        running.broker.loop, running.broker.clients.holds, lambda: next(ticks) * SLICE_S / 4
    )
    running.broker.turns = turns
    dirs = [AlterReplicaLogDir(f"/{number}") for number in range(count)]

    response = client.call(ALTER_REPLICA_LOG_DIRS, AlterReplicaLogDirsRequest(dirs), 2)

    assert response.results == []
    assert turns.taken_count >= count // 4 - 1


def test_it_needs_alter_on_the_cluster(running: Running, client: Connection) -> None:
    deny(running, Operation.ALTER)

    assert alter(client, ("/elsewhere", "t", [0])) == {
        ("t", 0): ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    }
