"""A frame that is encoded in slices is, byte for byte, the frame encoded whole."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from broker.answers.nested_frames import nested_frame
from logstore.slices import finish
from logstore.wire.framing.apis import APIS, encode_frame
from logstore.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from logstore.wire.messages.describe_producers import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from logstore.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

Sizes = list[list[int]]
SLICE_ITEMS = 10
PATH = ("topics", "partitions")


def _offsets(sizes: Sizes) -> Any:
    topics = [
        ListOffsetsTopicResponse(
            f"tópic-{number}", [ListOffsetsPartitionResponse(one, 0) for one in range(len(counts))]
        )
        for number, counts in enumerate(sizes)
    ]
    return ListOffsetsResponse(9, topics)


def _producers(sizes: Sizes) -> Any:
    topics = [
        TopicResponse(
            f"t{number}",
            [
                PartitionResponse(one, 0, "é", [ProducerState(n, 1, n) for n in range(count)])
                for one, count in enumerate(counts)
            ],
        )
        for number, counts in enumerate(sizes)
    ]
    return DescribeProducersResponse(9, topics)


def _log_dirs(sizes: Sizes) -> Any:
    topics = [
        DescribeLogDirsTopic(
            f"t{number}", [DescribeLogDirsPartition(one, count) for one, count in enumerate(counts)]
        )
        for number, counts in enumerate(sizes)
    ]
    return DescribeLogDirsResponse(9, 0, [DescribeLogDirsResult(0, "/log", topics)])


CASES: dict[str, tuple[int, range, Callable[[Sizes], Any], tuple[str, ...]]] = {
    "ListOffsets": (2, range(1, 11), _offsets, PATH),
    "DescribeProducers": (61, range(1), _producers, ("topics", "partitions", "active_producers")),
    "DescribeLogDirs": (35, range(1, 6), _log_dirs, ("results", "topics", "partitions")),
}
SIZES: dict[str, Sizes] = {
    "none": [],
    "empty": [[], []],
    "small": [[1], [2, 3]],
    "many topics": [[1]] * 300,
    "one long topic": [[0] * 127],
    "between": [[1], [0] * 126, [], [40, 0, 11, 1], [1]],
    "one long partition": [[300]],
}


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("name", CASES)
def test_the_frame_is_that_of_the_whole_response(name: str, sizes: str) -> None:
    key, versions, make, path = CASES[name]
    for version in versions:
        response = make(SIZES[sizes])
        frame = finish(nested_frame(77, APIS[key], version, response, path, SLICE_ITEMS))

        expected = b"".join(encode_frame(77, APIS[key], version, make(SIZES[sizes])))
        assert b"".join(frame) == expected, version


def test_a_slice_encodes_few_items() -> None:
    response = _producers([[300], [0] * 50])
    path = ("topics", "partitions", "active_producers")

    assert sum(1 for _ in nested_frame(77, APIS[61], 0, response, path, SLICE_ITEMS)) >= 35


def test_items_are_let_go_of_as_they_are_encoded() -> None:
    response = _offsets([[1]] * 300)
    topics = response.topics
    left = [len(topics) for _ in nested_frame(77, APIS[2], 7, response, PATH, SLICE_ITEMS)]

    assert left[-1] == 0
    assert max(before - after for before, after in pairwise(left)) <= SLICE_ITEMS
    assert not response.topics


def test_items_below_one_are_let_go_of_as_they_are_encoded() -> None:
    response = _offsets([[1], [0] * 300])
    partitions = response.topics[1].partitions
    left = [len(partitions) for _ in nested_frame(77, APIS[2], 7, response, PATH, SLICE_ITEMS)]

    assert left[-1] == 0
    assert max(before - after for before, after in pairwise(left)) <= SLICE_ITEMS + 1
