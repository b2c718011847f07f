"""A frame that is encoded in parts is, byte for byte, the frame encoded whole."""

import copy
import dataclasses
import random
import types
import typing
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest

from logstore.errors import Invalid
from logstore.slices import finish
from logstore.wire.framing.apis import APIS, Api, encode_frame
from logstore.wire.framing.parts import PART_ITEMS, encode_around, encode_frame_in_parts
from logstore.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
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
from logstore.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from logstore.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from logstore.wire.messages.list_transactions import ListTransactionsResponse
from logstore.wire.primitives import Array

Sizes = list[list[int]]
FEW = 10
LONG = [api for api in APIS.values() if any(map(api.response_arrays, range(20)))]
SIZES_OF_PARTS = (1, 2, 3, 7, PART_ITEMS)


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


CASES: dict[str, tuple[int, range, Callable[[Sizes], Any]]] = {
    "ListOffsets": (2, range(1, 11), _offsets),
    "DescribeProducers": (61, range(1), _producers),
    "DescribeLogDirs": (35, range(1, 6), _log_dirs),
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


@pytest.mark.parametrize("api", LONG, ids=lambda api: api.module)
def test_any_response_in_any_version_has_the_same_bytes_in_parts(oracle_of: Any, api: Api) -> None:
    rng = random.Random(f"parts of {api.module}")
    for version in range(api.version_min, api.version_max + 1):
        oracle = oracle_of(api.module, "response", version)
        for part_items in SIZES_OF_PARTS:
            entity = oracle.random(rng)
            expected = b"".join(encode_frame(77, api, version, oracle.translate(entity)))
            slices = encode_frame_in_parts(77, api, version, oracle.translate(entity), part_items)
            assert b"".join(finish(slices)) == expected, (version, part_items)


@pytest.mark.parametrize("api", LONG, ids=lambda api: api.module)
def test_long_arrays_of_any_response_have_the_same_bytes_in_parts(oracle_of: Any, api: Api) -> None:
    """On each level by itself: its array is long, those beside, above and below it are as drawn."""
    rng = random.Random(f"long arrays of {api.module}")
    version = api.version_max
    oracle = oracle_of(api.module, "response", version)
    for arrays in _ways(api.response_arrays(version)):
        for _ in range(9):
            response = oracle.translate(oracle.random(rng))
            if _lengthen(response, [array.field for array in arrays], 300):
                break
        else:
            pytest.fail(f"no message had items in {arrays}")
        expected = b"".join(encode_frame(77, api, version, response))
        slices = encode_frame_in_parts(77, api, version, copy.deepcopy(response), FEW)
        assert sum(1 for _ in slices) >= 300 / FEW
        frame = finish(encode_frame_in_parts(77, api, version, response, 100))
        assert b"".join(frame) == expected


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.module)
def test_every_array_of_strings_or_structs_of_a_response_is_known(oracle_of: Any, api: Api) -> None:
    for version in range(api.version_min, api.version_max + 1):
        declared = _arrays_of(oracle_of(api.module, "response", version).type)
        assert _fields(api.response_arrays(version)) == declared


def _fields(arrays: tuple[Array, ...]) -> dict[str, Any]:
    return {array.field: _fields(array.below) for array in arrays}


def _arrays_of(entity: Any) -> dict[str, Any]:
    """Returns those below each by name. A struct with records is encoded whole."""
    fields = [field for field in dataclasses.fields(entity) if "tag" not in field.metadata]
    if any(field.metadata.get("kafka_type") == "records" for field in fields):
        return {}
    kinds = {field.name: _item_type(field.type) for field in fields}
    return {
        name: {} if kind is str else _arrays_of(kind)
        for name, kind in kinds.items()
        if kind is str or dataclasses.is_dataclass(kind)
    }


def _item_type(annotation: Any) -> Any:
    """Returns the type of an array's items; None if it is no array."""
    options = typing.get_args(annotation) if isinstance(annotation, types.UnionType) else ()
    for option in options or (annotation,):
        if typing.get_origin(option) is tuple:
            return typing.get_args(option)[0]
    return None


def _ways(arrays: tuple[Array, ...]) -> Iterator[tuple[Array, ...]]:
    for array in arrays:
        yield (array,)
        yield from ((array, *way) for way in _ways(array.below))


def _lengthen(owner: Any, fields: list[str], count: int) -> bool:
    """Make the array at the end of `fields` long, in the last item of each above it."""
    items = getattr(owner, fields[0])
    if items and fields[1:]:
        return _lengthen(items[-1], fields[1:], count)
    if items:
        items *= count
        del items[count:]
    return bool(items)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("name", CASES)
def test_the_frame_is_that_of_the_whole_response(name: str, sizes: str) -> None:
    key, versions, make = CASES[name]
    for version in versions:
        response = make(SIZES[sizes])
        frame = finish(encode_frame_in_parts(77, APIS[key], version, response, FEW))

        expected = b"".join(encode_frame(77, APIS[key], version, make(SIZES[sizes])))
        assert b"".join(frame) == expected, version


@pytest.mark.parametrize("topics", [1, 600])
def test_a_value_that_the_version_cannot_carry_is_refused_as_in_the_whole(topics: int) -> None:
    response = _offsets([[1] * 600] * topics)
    response.topics[-1].partitions[-1].offset = 1 << 63
    with pytest.raises(Invalid) as whole:
        encode_frame(77, APIS[2], 7, response)
    with pytest.raises(Invalid) as in_parts:
        finish(encode_frame_in_parts(77, APIS[2], 7, response))

    assert str(in_parts.value) == str(whole.value)


def test_records_are_not_copied_in_parts() -> None:
    large, small = memoryview(bytes(5_000)), b"s" * 100
    partitions = [PartitionData(n, records=large if n % 9 == 0 else small) for n in range(60)]
    topics = [FetchableTopicResponse("one"), FetchableTopicResponse("t", partitions=partitions)]
    response = FetchResponse(responses=topics)
    expected = b"".join(encode_frame(77, APIS[1], 12, response))

    frame = finish(encode_frame_in_parts(77, APIS[1], 12, response, FEW))

    assert b"".join(frame) == expected
    assert sum(part is large for part in frame) == 7


def test_arrays_of_strings_are_encoded_in_parts() -> None:
    filters = [f"état-{number}" for number in range(300)]
    expected = b"".join(
        encode_frame(77, APIS[66], 2, ListTransactionsResponse(unknown_state_filters=filters))
    )
    response = ListTransactionsResponse(unknown_state_filters=list(filters))
    slices = encode_frame_in_parts(77, APIS[66], 2, response, FEW)
    steps = 0
    while True:
        try:
            next(slices)
            steps += 1
        except StopIteration as end:
            assert b"".join(end.value) == expected
            break
    assert steps == 30


def test_a_response_without_long_arrays_is_encoded_at_once() -> None:
    slices = encode_frame_in_parts(77, APIS[18], 3, ApiVersionsResponse(0, [ApiVersion(1, 0, 9)]))
    assert list(slices) == []


@pytest.mark.parametrize("count", [0, 1, 127])
def test_what_lies_around_an_array_is_that_of_the_whole_response(count: int) -> None:
    response, long = _offsets([]), _offsets([[1]] * count)
    front, tail = encode_around(77, APIS[2], 7, response, "topics", count)
    whole = b"".join(encode_frame(77, APIS[2], 7, long))

    assert whole[4:].startswith(front[4:])
    assert whole.endswith(tail)
    assert response.topics == []


def test_a_slice_encodes_few_items() -> None:
    response = _producers([[300], [0] * 50])
    assert sum(1 for _ in encode_frame_in_parts(77, APIS[61], 0, response, FEW)) >= 35


def test_items_are_let_go_of_as_they_are_encoded() -> None:
    response = _offsets([[1]] * 300)
    topics = response.topics
    left = [len(topics) for _ in encode_frame_in_parts(77, APIS[2], 7, response, FEW)]

    assert left[-1] == 0
    assert max(before - after for before, after in pairwise(left)) <= FEW
    assert not response.topics


def test_items_below_one_are_let_go_of_as_they_are_encoded() -> None:
    response = _offsets([[1], [0] * 300])
    partitions = response.topics[1].partitions
    left = [len(partitions) for _ in encode_frame_in_parts(77, APIS[2], 7, response, FEW)]

    assert left[-1] == 0
    assert max(before - after for before, after in pairwise(left)) <= FEW + 1
