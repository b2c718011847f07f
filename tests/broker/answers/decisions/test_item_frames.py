"""A frame put together item by item is, byte for byte, the frame encoded whole."""

from typing import Any

import pytest

from broker.answers.decisions.item_frames import ItemFrame
from logstore.wire.framing.apis import APIS, encode_frame
from logstore.wire.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from logstore.wire.messages.describe_groups import DescribedGroup, DescribeGroupsResponse
from logstore.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from logstore.wire.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)


def _configs(number: int) -> DescribeConfigsResult:
    shown = DescribeConfigsResourceResult(f"name-{number}", "1", True)
    return DescribeConfigsResult(0, None, 2, f"t{number}", [shown])


def _offsets(number: int) -> OffsetFetchResponseGroup:
    lines = [OffsetFetchResponsePartitions(number, 7, 1, "é")]
    return OffsetFetchResponseGroup(
        f"g{number}", [OffsetFetchResponseTopics("t", partitions=lines)]
    )


def _group(number: int) -> DescribedGroup:
    return DescribedGroup(0, None, f"g{number}", "Dead")


def _coordinator(number: int) -> Coordinator:
    return Coordinator(f"g{number}", 1, "localhost", 9092)


CASES = {
    "configs": (32, range(1, 5), DescribeConfigsResponse, "results", _configs),
    "groups": (15, range(7), DescribeGroupsResponse, "groups", _group),
    "offsets": (9, range(8, 10), OffsetFetchResponse, "groups", _offsets),
    "coordinators": (10, range(4, 7), FindCoordinatorResponse, "coordinators", _coordinator),
}


@pytest.mark.parametrize("count", [0, 1, 126, 127, 300])
@pytest.mark.parametrize("name", CASES)
def test_the_frame_is_that_of_the_whole_response(name: str, count: int) -> None:
    key, versions, kind, field, make = CASES[name]
    items: list[Any] = [make(number) for number in range(count)]
    for version in versions:
        whole = kind(9)
        setattr(whole, field, items)
        frame = ItemFrame(77, APIS[key], version, kind(9), field)
        for item in items:
            frame.add(item)

        expected = b"".join(encode_frame(77, APIS[key], version, whole))
        assert b"".join(frame.buffers()) == expected, version
        assert frame.byte_count <= len(expected)
        assert not count or frame.byte_count > 0.5 * (len(expected) - 50)
