"""Checks that every request about one partition makes."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Protocol

from broker.answers.broker import Broker
from logstore.epoch.leader import Leader
from logstore.epoch.log import Topic
from logstore.reading.brokers.readable import Readable
from logstore.slices import Slices, parts_of
from logstore.wire.errors import ErrorCode

NO_EPOCH = -1
SLICE_PARTITIONS = 500


class PartitionAnswer(Protocol):
    error_code: int


class TopicAnswer(Protocol):
    @property
    def partitions(self) -> Sequence[PartitionAnswer]: ...


def find_leader(broker: Broker, topic: Topic, partition: int) -> tuple[Leader | None, ErrorCode]:
    """The leader of a partition, or why it cannot be asked here."""
    if not 0 <= partition < topic.partition_count:
        return None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    leader = topic.leaders.get(partition)
    if leader is None or leader.is_released or broker.clients.is_fenced:
        return None, ErrorCode.NOT_LEADER_OR_FOLLOWER
    return leader, ErrorCode.NONE


def check_epoch(partition: Readable, current_leader_epoch: int) -> ErrorCode:
    """Whether the client's leader epoch is ours (KIP-320)."""
    if current_leader_epoch in (NO_EPOCH, partition.leader_epoch):
        return ErrorCode.NONE
    if current_leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    return ErrorCode.UNKNOWN_LEADER_EPOCH


def epoch_at(partition: Readable, offset: int) -> int:
    """Leader epoch of the epoch range with `offset`; -1 where none is listed any more."""
    epoch_ranges = partition.epoch_ranges
    number = bisect_right(epoch_ranges, offset, key=lambda epoch_range: epoch_range.start) - 1
    return epoch_ranges[number].leader_epoch if number >= 0 else NO_EPOCH


def end_of_epoch(partition: Readable, leader_epoch: int) -> tuple[int, int]:
    """The newest leader epoch that is not above `leader_epoch`, and the offset where it ended.

    Kafka's LeaderEpochFileCache.endOffsetFor: an epoch before all that are known ended where those
    begin; of one after them nothing is known, nor of none, and that is (-1, -1). So an epoch whose
    records are in the table alone may be said to have ended late: nothing that a consumer has read
    is ever cut off, and that is what it asks for.
    """
    epoch_ranges = partition.epoch_ranges
    if leader_epoch == epoch_ranges[-1].leader_epoch:
        return leader_epoch, partition.log_end
    number = bisect_right(
        epoch_ranges, leader_epoch, key=lambda epoch_range: epoch_range.leader_epoch
    )
    if leader_epoch < 0 or number == len(epoch_ranges):
        return -1, -1
    epoch = epoch_ranges[number - 1].leader_epoch if number else leader_epoch
    return epoch, epoch_ranges[number].start


def has_unknown_epoch(topics: Sequence[TopicAnswer]) -> Slices[bool]:
    """Whether an answer says that a client knows a newer leader epoch than this broker."""
    for number, topic in enumerate(topics, 1):
        for part in parts_of(topic.partitions, SLICE_PARTITIONS):
            if any(one.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH for one in part):
                return True
            yield
        if number % SLICE_PARTITIONS == 0:  # topics may be without partitions
            yield
    return False
