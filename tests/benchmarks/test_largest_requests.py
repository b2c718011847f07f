"""Every array of every request that a broker serves can be made as large as it may be."""

from operator import attrgetter
from typing import Any

import pytest

from benchmarks.largest_requests import FRAME_BYTES_MAX, Largest, largest, of_size, paths
from broker.answers.decisions.budgets import ITEMS_MAX
from broker.handlers.served_requests import HANDLERS
from logstore.wire.framing.apis import decode_request_header


def items_of(request: Largest) -> list[Any]:
    """Those of its array, as a broker decodes them."""
    frame = memoryview(request.frame())[4:]
    key, version, _, _, at = decode_request_header(frame)
    found = HANDLERS[key].api.decode_request(version, frame, at, HANDLERS[key].items_max)
    *above, field = request.path.split(".")
    for name in above:
        (found,) = getattr(found, name)
    return list(attrgetter(field)(found))


@pytest.mark.parametrize(("key", "path"), [*paths()])
def test_an_array_of_any_request_can_be_filled(key: int, path: str) -> None:
    assert len(items_of(of_size(key, path, 3))) == 3


def test_the_largest_request_is_as_large_as_a_frame_may_be() -> None:
    request = largest(3, "topics")

    assert FRAME_BYTES_MAX - 1000 < len(request.frame()) - 4 <= FRAME_BYTES_MAX
    assert len(items_of(request)) == request.item_count


@pytest.mark.slow
def test_the_largest_request_has_no_more_items_than_are_decoded() -> None:
    assert largest(2, "topics.partitions").item_count < ITEMS_MAX
    assert largest(47, "topics.partitions").item_count == ITEMS_MAX
