"""Split wanted offsets by count: for `maxRecordsPerPartition`, and `minPartitions` of few segments.

Segments are the natural unit of a task, since each is fetched once, by one task. For smaller tasks
segments are fetched by several. Pure.
"""

from collections.abc import Iterable, Iterator, Sequence

from logstore.formats.offset_range import OffsetRange
from logstore.reading.planning.extents import TopicRange


def split_ranges(ranges: Iterable[TopicRange], records_max: int) -> list[list[TopicRange]]:
    """The same offsets in groups of at most `records_max`, in order, each range split evenly.

    No group holds a partition twice.
    """
    groups: list[list[TopicRange]] = []
    left = 0
    for one in ranges:
        for part in _parts(one, records_max):
            size = part.offsets.end - part.offsets.start
            if size > left or _is_of(part, groups[-1][-1]):
                groups.append([])
                left = records_max
            groups[-1].append(part)
            left -= size
    return groups


def records_per_task(
    ranges: Sequence[TopicRange], task_count: int, tasks_min: int | None, records_max: int | None
) -> int | None:
    """Records at most in a task, if `task_count` tasks split by segments are not what was asked
    for.

    With `tasks_min` there are at least as many tasks, unless there are fewer records.
    """
    total = sum(one.offsets.end - one.offsets.start for one in ranges)
    limits = [] if records_max is None else [records_max]
    if tasks_min is not None and task_count < tasks_min and total:
        limits.append(max(1, total // tasks_min))
    return min(limits) if limits else None


def _parts(one: TopicRange, records_max: int) -> Iterator[TopicRange]:
    partition, first, beyond = one.offsets
    size = beyond - first
    count = -(-size // records_max)
    for number in range(count):
        start = first + size * number // count
        end = first + size * (number + 1) // count
        yield TopicRange(one.topic, OffsetRange(partition, start, end))


def _is_of(first: TopicRange, second: TopicRange) -> bool:
    return first.offsets.partition == second.offsets.partition
