"""Start and end of a read: a caller's bounds, resolved to offsets of each partition. Pure."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Literal

from logstore.errors import Invalid, Refused
from logstore.formats.offset_range import OffsetRange
from logstore.formats.topic_partition import TopicPartition
from logstore.reading.planning.extents import Extent, TopicExtent, TopicRange

Bound = int | datetime | Literal["earliest", "latest"]
"""An offset, a time, or an end of the log."""

Bounds = Bound | Mapping[int, Bound] | None
"""One for every partition, or by partition; None: everything."""

OffsetForTime = Callable[[int, int], int | None]
"""(partition, time in ms) → offset of the first record at or after it; None without one."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FORMS = 'give "earliest", "latest", a datetime, or a dict of these and offsets by partition'


def ranges_of(
    topic: str, extent: TopicExtent, start: Bounds, end: Bounds, offset_for_time: OffsetForTime
) -> list[TopicRange]:
    """Offsets [start, end) of every partition that has some, by partition.

    Raises `Invalid` for a bound that means nothing, `Refused` for offsets that are not there.
    """
    ranges = []
    begins, ends = (
        _by_partition("start", topic, extent, start),
        _by_partition("end", topic, extent, end),
    )
    for number, there in sorted(extent.partitions.items()):
        where = f"topic={topic} partition={number}"

        def at_time(time_ms: int, number: int = number) -> int | None:
            return offset_for_time(number, time_ms)

        first = _offset(begins.get(number, "earliest"), there, f"start {where}", at_time)
        beyond = _offset(ends.get(number, "latest"), there, f"end {where}", at_time)
        if first > beyond:
            raise Invalid(f"the start is after the end: {where} start={first} end={beyond}")
        if first < beyond:
            partition = TopicPartition(extent.topic_id, number)
            ranges.append(TopicRange(topic, OffsetRange(partition, first, beyond)))
    return ranges


def _by_partition(
    name: str, topic: str, extent: TopicExtent, bounds: Bounds
) -> Mapping[int, Bound]:
    if bounds is None:
        return {}
    if isinstance(bounds, Mapping):
        if unknown := sorted(str(number) for number in bounds if number not in extent.partitions):
            raise Invalid(
                f"{name} names partitions that do not exist: topic={topic} "
                f"partitions={', '.join(unknown)} existing=0 to {len(extent.partitions) - 1}"
            )
        return bounds
    if isinstance(bounds, int):
        raise Invalid(
            f"{name} is an offset without a partition: {name}={bounds}; offsets are counted by "
            f"partition: write {name}={{0: {bounds}}}"
        )
    return dict.fromkeys(extent.partitions, bounds)


def _offset(
    bound: Bound, there: Extent, what: str, offset_for_time: Callable[[int], int | None]
) -> int:
    if bound == "earliest":
        return there.start
    if bound == "latest":
        return there.end
    if isinstance(bound, datetime):
        offset = offset_for_time(_time_ms(bound, what))
        return there.end if offset is None else offset
    if type(bound) is not int:
        raise Invalid(f"{what} means nothing: {bound!r}; {_FORMS}")
    if not there.start <= bound <= there.end:
        raise Refused(
            f"{what} is not in the log: offset={bound} there=[{there.start}, {there.end}); what "
            "is below was deleted by retention or DeleteRecords, what is above is not written yet"
        )
    return bound


def _time_ms(time: datetime, what: str) -> int:
    """Rounded up, so that no record before `time` is meant."""
    if time.tzinfo is None:
        raise Invalid(f"{what} is a time without a time zone: {time}; write tzinfo=datetime.UTC")
    return max(0, -((_EPOCH - time) // timedelta(milliseconds=1)))
