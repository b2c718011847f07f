"""OffsetForLeaderEpoch: where an epoch ended, as Kafka's leader epoch cache would say."""

from dataclasses import dataclass

import pytest

from broker.answers.partitions import end_of_epoch
from broker.network.authorizer import AllowAll, Operation
from logstore.epoch.followed import Followed
from logstore.formats.partition_row import EpochEntry, PartitionRow
from logstore.wire.errors import ErrorCode
from logstore.wire.framing.client import Connection
from logstore.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.broker.running import Running, batch_of, produce

OFFSET_FOR_LEADER_EPOCH = 23


def ask(
    client: Connection, name: str, epoch: int, *, current: int = -1, partition: int = 0,
    version: int = 4,
) -> EpochEndOffset:  # fmt: skip
    asked = OffsetForLeaderTopic(name, [OffsetForLeaderPartition(partition, current, epoch)])
    request = OffsetForLeaderEpochRequest(-1, [asked])
    response = client.call(OFFSET_FOR_LEADER_EPOCH, request, version)
    answer: EpochEndOffset = response.topics[0].partitions[0]
    return answer


@pytest.mark.parametrize("version", [2, 3, 4])
def test_the_current_epoch_ends_where_the_log_does(
    running: Running, client: Connection, version: int
) -> None:
    running.create_topic(f"current-{version}")
    produce(client, f"current-{version}", batch_of(b"a", b"b"))
    answer = ask(client, f"current-{version}", 0, version=version)

    assert (answer.error_code, answer.leader_epoch, answer.end_offset) == (0, 0, 2)


@pytest.mark.parametrize("epoch", [-1, 1, 99])
def test_of_no_epoch_and_of_one_to_come_nothing_is_known(
    running: Running, client: Connection, epoch: int
) -> None:
    running.create_topic(f"unknown-{epoch}")
    answer = ask(client, f"unknown-{epoch}", epoch)

    assert (answer.error_code, answer.leader_epoch, answer.end_offset) == (0, -1, -1)


def test_errors_are_distinguished(running: Running, client: Connection) -> None:
    running.create_topic("errors")
    newer = ask(client, "errors", 0, current=1)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    assert newer.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert (newer.leader_epoch, newer.end_offset) == (-1, -1)
    assert ask(client, "errors", 0, partition=1).error_code == unknown
    assert ask(client, "nowhere", 0).error_code == unknown


@dataclass(frozen=True)
class NoDescribing(AllowAll):
    def authorize(
        self,
        principal: str,
        host: str,
        operation: Operation,
        resource: object,
        groups: tuple[str, ...] = (),
    ) -> bool:
        return operation not in (Operation.DESCRIBE, Operation.CLUSTER_ACTION)


def test_a_client_that_may_not_describe_the_topic_is_refused(
    running: Running, client: Connection
) -> None:
    running.create_topic("secret")
    running.authorizer.rule = NoDescribing()

    assert ask(client, "secret", 0).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


class Chain:
    """A chain of which nothing is known but that it is there."""

    error = None
    is_entered = is_at_tail = True

    def epoch_range(self, key: object) -> None:
        return None


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (0, (0, 0)),  # before all that are known: they began where it ended
        (1, (1, 0)),
        (2, (2, 10)),
        (3, (3, 25)),
        (4, (3, 25)),  # never led, or nothing was written and it was forgotten
        (5, (5, 40)),
        (6, (6, 40)),
        (7, (-1, -1)),
        (-1, (-1, -1)),
    ],
)
def test_an_epoch_ends_where_the_next_one_begins(asked: int, expected: tuple[int, int]) -> None:
    epoch_ranges = (EpochEntry(2, 7, 0), EpochEntry(3, 9, 10), EpochEntry(5, 7, 25))
    row = PartitionRow(
        broker=1, chain=8, leader_epoch=6, log_start=0,
        epoch_ranges=(*epoch_ranges, EpochEntry(6, 8, 40)),
    )  # fmt: skip

    assert end_of_epoch(Followed(bytes(16), 0, row, Chain()), asked) == expected
