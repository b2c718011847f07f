"""Split wanted offsets by count: for `maxRecordsPerPartition`, and `minPartitions` of few segments.

Segments are the natural unit of a task, since each is fetched once, by one task. For smaller tasks
segments are fetched by several. Pure.
"""

from collections.abc import Iterable, Iterator, Sequence

from logstore.reading.planning.extents import OffsetRange


def split_ranges(ranges: Iterable[OffsetRange], records_max: int) -> list[list[OffsetRange]]:
    """The same offsets in groups of at most `records_max`, in order, each range split evenly.

    No group holds a partition twice.
    """
    groups: list[list[OffsetRange]] = []
    left = 0
    for one in ranges:
        for part in _parts(one, records_max):
            size = part.end - part.start
            if size > left or _is_of(part, groups[-1][-1]):
                groups.append([])
                left = records_max
            groups[-1].append(part)
            left -= size
    return groups


def records_per_task(
    ranges: Sequence[OffsetRange], task_count: int, tasks_min: int | None, records_max: int | None
) -> int | None:
    """Records at most in a task, if `task_count` tasks split by segments are not what was asked
    for.

    With `tasks_min` there are at least as many tasks, unless there are fewer records.
    """
    total = sum(one.end - one.start for one in ranges)
    limits = [] if records_max is None else [records_max]
    if tasks_min is not None and task_count < tasks_min and total:
        limits.append(max(1, total // tasks_min))
    return min(limits) if limits else None


def _parts(one: OffsetRange, records_max: int) -> Iterator[OffsetRange]:
    size = one.end - one.start
    count = -(-size // records_max)
    for number in range(count):
        start = one.start + size * number // count
        end = one.start + size * (number + 1) // count
        yield one._replace(start=start, end=end)


def _is_of(first: OffsetRange, second: OffsetRange) -> bool:
    return (first.topic_id, first.partition) == (second.topic_id, second.partition)
