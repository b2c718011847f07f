"""Answers about partitions are looked at in slices, whatever they hold."""

from broker.answers.partitions import SLICE_PARTITIONS, has_unknown_epoch
from logstore.slices import finish
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsTopicResponse,
)


def test_a_newer_epoch_of_a_client_is_found_in_any_topic() -> None:
    unknown = ListOffsetsPartitionResponse(0, ErrorCode.UNKNOWN_LEADER_EPOCH)
    topics = [ListOffsetsTopicResponse("t"), ListOffsetsTopicResponse("u", [unknown])]

    assert finish(has_unknown_epoch(topics))
    assert not finish(has_unknown_epoch(topics[:1]))


def test_topics_without_partitions_are_looked_at_in_slices() -> None:
    topics = [ListOffsetsTopicResponse(f"t{number}") for number in range(3 * SLICE_PARTITIONS)]

    assert sum(1 for _ in has_unknown_epoch(topics)) == 3
