"""How a query advances: where it starts, how far it may go now, what lies between two offsets.

Kept by a stream's driver process for as long as the query runs; a restart begins with a new one,
and replays the last batch before it asks for anything. So whatever is remembered here only saves
work, but for one thing: the start of a query that has no checkpoint yet.

    A query that starts at latest must not start elsewhere after a restart, and its start is not
    stored until a batch is. Therefore its first batch is empty: it stores the start and nothing
    else. Should it be replayed, its start is newer than its end, which is nothing to read, and the
    end is what counts.
"""

from collections.abc import Mapping

from logstore.errors import Invalid
from spark_source.offsets import (
    Extents,
    Json,
    Position,
    chosen,
    covers,
    farther,
    has_news,
    latest,
    limit_offsets,
    position_of_json,
    position_to_json,
    ranges_between,
    scale,
    settle,
    uses_latest,
)
from spark_source.options import ReadOptions
from spark_source.planning import ReadTask, object_bytes, plan_tasks
from spark_source.survey import Survey

LONG_POLL_S = 0.5
"""How long a question for news may wait for some. Spark asks again at once otherwise."""

FIRST_STEP_OFFSETS = 10_000
"""Where the search for a byte limit begins; four times as far until the limit is passed."""

Plan = tuple[list[ReadTask], Mapping[bytes, str]]
"""Tasks, and topic names by id."""


class Progress:
    def __init__(self, options: ReadOptions, survey: Survey, parallelism: int) -> None:
        self._options = options
        self._survey = survey
        self._parallelism = parallelism
        self._is_surveyed = False
        self._initial: Position | None = None
        self._first_batch_is_due = False
        self._target: Position | None = None
        self._step = FIRST_STEP_OFFSETS

    def batch(self) -> Plan:
        """Everything that `startingOffsets` and `endingOffsets` ask for."""
        extents = self._look(known={})
        start = chosen(extents, self._options.starting, "startingOffsets")
        end = chosen(extents, self._options.ending, "endingOffsets")
        return self._plan(self._settled(start, extents), self._settled(end, extents))

    def initial(self) -> Json:
        """Where a query without a checkpoint starts; the same however often it is asked."""
        if self._initial is None:
            extents = self._look(known={})
            start = chosen(extents, self._options.starting, "startingOffsets")
            self._initial = self._settled(start, extents)
            self._first_batch_is_due = uses_latest(self._options.starting)
        return position_to_json(self._initial)

    def fix_target(self) -> None:
        """From here on `latest` goes no further than what is committed now."""
        self._target = latest(self._survey.look())

    def latest(self, start: Json, *, is_limited: bool) -> Json:
        """How far to read after `start`. Waits a while where nothing is new."""
        since = position_of_json(start)
        if self._first_batch_is_due and since == self._initial:
            self._first_batch_is_due = False
            return start
        extents = self._news(since)
        begin = self._settled(since, extents)
        end = latest(extents)
        if self._target is not None:
            end = farther(begin, self._settled(self._target, extents))
        return position_to_json(self._limited(begin, end) if is_limited else end)

    def newest_known(self) -> Json | None:
        """The end of the log as last seen: a query's progress shows it beside its own offsets."""
        return position_to_json(latest(self._survey.extents())) if self._is_surveyed else None

    def between(self, start: Json, end: Json) -> Plan:
        """What a batch holds. Needs nothing that an earlier call left behind."""
        since, until = position_of_json(start), position_of_json(end)
        if not ranges_between(since, until):
            return [], {}
        extents = self._survey.extents()
        if not covers(extents, until):
            extents = self._look(known=until)
        return self._plan(self._settled(since, extents), self._settled(until, extents))

    def _look(self, known: Position) -> Extents:
        """Extents by the registry. Raises `Invalid` for topics neither there nor in `known`."""
        extents = self._survey.look()
        missing = [name for name in self._options.topics if name not in {**extents, **known}]
        if missing:
            raise Invalid(
                f"no such topic: {', '.join(missing)}; log={self._options.url}; create it first, "
                "or correct the option subscribe"
            )
        self._is_surveyed = True
        return extents

    def _news(self, since: Position) -> Extents:
        if not self._is_surveyed:
            self._look(known=since)
        if self._target is not None:
            return self._survey.extents()
        return self._survey.wait_for_news(lambda now: has_news(since, now), LONG_POLL_S)

    def _settled(self, position: Position, extents: Extents) -> Position:
        return settle(position, extents, fail_on_data_loss=self._options.fail_on_data_loss)

    def _limited(self, begin: Position, end: Position) -> Position:
        if self._options.offsets_max is not None:
            end = limit_offsets(begin, end, self._options.offsets_max)
        if self._options.bytes_max is not None:
            end = self._limit_bytes(begin, end, self._options.bytes_max)
        return end

    def _limit_bytes(self, begin: Position, end: Position, bytes_max: int) -> Position:
        """About as far as `bytes_max` of objects reach, looked up no further than needed."""
        while True:
            reach = limit_offsets(begin, end, self._step)
            pieces = self._survey.pieces(ranges_between(begin, reach))
            size_bytes = object_bytes(pieces, self._survey.segment_sizes)
            if size_bytes > bytes_max:
                self._step = max(FIRST_STEP_OFFSETS, self._step // 4)
                return scale(begin, reach, bytes_max, size_bytes)
            if reach == end:
                return end
            self._step *= 4

    def _plan(self, begin: Position, end: Position) -> Plan:
        ranges = ranges_between(begin, end)
        tasks = plan_tasks(
            self._survey.pieces(ranges),
            self._survey.segment_sizes,
            parallelism=self._parallelism,
            tasks_min=self._options.partitions_min,
        )
        return tasks, {one.topic_id: one.topic for one in ranges}
