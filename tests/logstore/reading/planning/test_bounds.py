"""Where a read begins and ends: what callers may say, and which errors they get otherwise."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from logstore.errors import Invalid, LogstoreError, Refused
from logstore.reading.planning.bounds import Bounds, ranges_of
from logstore.reading.planning.extents import Extent, TopicExtent

TOPIC = TopicExtent(b"t" * 16, {0: Extent(10, 50), 1: Extent(0, 0), 2: Extent(0, 7)})


def ranges(start: Bounds = None, end: Bounds = None) -> Mapping[int, tuple[int, int]]:
    def offset_for_time(partition: int, time_ms: int) -> int | None:
        """Record `n` is of second `n`."""
        offset = -(-time_ms // 1000)
        there = TOPIC.partitions[partition]
        return max(offset, there.start) if offset < there.end else None

    found = ranges_of("orders", TOPIC, start, end, offset_for_time)
    return {one.offsets.number: (one.offsets.start, one.offsets.end) for one in found}


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def test_everything_unless_something_is_said() -> None:
    assert ranges() == {0: (10, 50), 2: (0, 7)}
    assert ranges("earliest", "latest") == ranges()
    assert ranges("latest") == {}


def test_offsets_by_partition_leave_the_others_whole() -> None:
    assert ranges({0: 20}) == {0: (20, 50), 2: (0, 7)}
    assert ranges({0: 20, 2: "latest"}, {0: 30}) == {0: (20, 30)}
    assert ranges({}, {0: 10, 2: 1}) == {2: (0, 1)}


def test_times_mean_the_first_record_at_or_after_them() -> None:
    assert ranges(at(20)) == {0: (20, 50)}
    assert ranges(at(19.0001)) == {0: (20, 50)}
    assert ranges(at(3), at(20)) == {0: (10, 20), 2: (3, 7)}
    assert ranges({0: at(30)}, {2: at(5)}) == {0: (30, 50), 2: (0, 5)}
    assert ranges(at(-5)) == ranges()


@pytest.mark.parametrize(
    ("start", "end", "kind", "says"),
    [
        (20, None, Invalid, r"write start=\{0: 20\}"),
        ("first", None, Invalid, "means nothing: 'first'"),
        ({0: 1.5}, None, Invalid, "partition=0 means nothing: 1.5"),
        ({0: True}, None, Invalid, "means nothing: True"),
        ({3: 1}, None, Invalid, "partitions that do not exist.*existing=0 to 2"),
        (datetime(2026, 1, 1), None, Invalid, "without a time zone"),  # noqa: DTZ001
        ({0: 30}, {0: 20}, Invalid, "the start is after the end: .* start=30 end=20"),
        ({0: 9}, None, Refused, r"offset=9 there=\[10, 50\)"),
        (None, {0: 51}, Refused, r"end topic=orders partition=0 .* offset=51"),
    ],
)
def test_what_means_nothing_is_refused_with_what_to_write(
    start: Any, end: Any, kind: type[LogstoreError], says: str
) -> None:
    with pytest.raises(kind, match=says):
        ranges(start, end)
