"""How much a batch takes: at most so many offsets, and none before enough have come. Pure."""

import math
from dataclasses import dataclass

from spark_source.planning.offsets import Position, TopicPosition, ranges_between


@dataclass(slots=True)
class TriggerPace:
    """Whether the next batch is due: `minOffsetsPerTrigger` offsets, or `maxTriggerDelay` later.

    The first batch of a run waits for nothing, as with Spark's Kafka source. Times are of a
    monotonic clock.
    """

    offsets_min: int | None
    delay_s: float
    last_s: float = -math.inf
    """When a batch was let go for the last time."""

    def is_due(self, backlog: int, now_s: float) -> bool:
        if self.offsets_min is None or backlog >= self.offsets_min:
            return True
        return now_s - self.last_s >= self.delay_s


def backlog(start: Position, end: Position) -> int:
    """Offsets from `start` to `end`, over all partitions."""
    return sum(one.offsets.end - one.offsets.start for one in ranges_between(start, end))


def limit_offsets(start: Position, end: Position, offsets_max: int) -> Position:
    """At most `offsets_max` beyond `start`, shared by backlog, and at least one where there is any.

    So it may be exceeded by as many as there are partitions with a backlog.
    """
    waiting = backlog(start, end)
    return end if waiting <= offsets_max else scale(start, end, offsets_max, waiting)


def scale(start: Position, end: Position, part: int, whole: int) -> Position:
    """The position `part` / `whole` of the way from `start` to `end`, one offset each at least."""
    reached = {
        (topic, partition.partition): first + max(1, (beyond - first) * part // whole)
        for topic, (partition, first, beyond) in ranges_between(start, end)
    }
    return {
        name: TopicPosition(
            topic.topic_id,
            {number: reached.get((name, number), until) for number, until in topic.next.items()},
        )
        for name, topic in end.items()
    }
