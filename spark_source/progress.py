"""Progress of a query: its start, its current limit, the plan between two positions.

Kept by a stream's driver process for as long as the query runs; a restart begins with a new one,
and replays the last batch before it asks for anything. So whatever is remembered here only saves
work, but for one thing: the start of a query that has no checkpoint yet. Spark stores the end of
its first batch and not the start, and asks for the start again if it replays that batch.

    The end of the first batch says where the batch began (`spark_source.planning.offsets`). A
    replay reads from there, or ends the query where that is gone; the start asked for again counts
    for nothing.

    A query that starts at latest would start later still if it ended before its first batch is
    stored. Therefore its first batch is empty: it stores the start, at once, and nothing else.
    Should it be replayed, its start is newer than its end, which is nothing to read.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from logstore.errors import Corrupt, Invalid, NotFound, Refused
from logstore.formats.topic_partition import TopicPartition
from logstore.reading.direct.log_metadata import LogMetadata
from logstore.reading.direct.reader import BelowTrimPoint
from logstore.reading.planning.extents import Extents, TopicRange
from logstore.reading.planning.task_plan import (
    TASK_BYTES,
    TASK_BYTES_ANYWHERE,
    plan_tasks,
    wanted_bytes,
)
from logstore.reading.planning.tasks import ReadTask
from spark_source.options import ReadOptions
from spark_source.planning.choices import EARLIEST, Choice, OffsetChoice, TimeChoice
from spark_source.planning.filters import Condition, later, least_time_ms, narrow
from spark_source.planning.offsets import (
    Json,
    Position,
    begin_of_batch,
    begun,
    check_begun,
    check_order,
    chosen,
    covers,
    farther,
    has_new_offsets,
    latest,
    position_of_json,
    position_to_json,
    ranges_between,
    settle,
)
from spark_source.planning.pace import TriggerPace, backlog, limit_offsets, scale
from spark_source.planning.splitting import records_per_task, split_ranges
from spark_source.planning.vanished import check_fates, vanished

LOOK_AGE_S_MAX = 1.0
"""For so long a target is all that a query needs to begin: it was read from all rows and chains."""

LONG_POLL_S = 0.5
"""How long a question for news may wait for some. Spark asks again at once otherwise."""

FIRST_STEP_OFFSETS = 10_000
"""Where the search for a byte limit begins; four times as far until the limit is passed."""

T = TypeVar("T")

Plan = tuple[list[ReadTask], Mapping[bytes, str]]
"""Tasks, and topic names by id."""


class _Reach(NamedTuple):
    """How far a batch goes, and where those partitions begin whose first batch it is."""

    first: Position
    end: Position


class Progress:
    def __init__(self, options: ReadOptions, metadata: LogMetadata, core_count: int) -> None:
        """`core_count`: cores of this machine, for queries that do not say how many they have."""
        self._options = options
        self._metadata = metadata
        self._parallelism = options.parallelism or core_count
        self._task_bytes = TASK_BYTES if options.parallelism else TASK_BYTES_ANYWHERE
        self._is_loaded = False
        self._initial: Position | None = None
        self._first_batch_is_due = False
        self._target: Position | None = None
        self._target_at_s = -math.inf
        self._has_planned_history = False
        """Whether offsets of the last plan lie below a table's end, in files or in none."""
        self._step = FIRST_STEP_OFFSETS
        self._left_out: set[bytes] = set()
        self._pace = TriggerPace(options.offsets_min, options.trigger_delay_s)

    def batch(self, conditions: Sequence[Condition] = ()) -> Plan:
        """Everything from the options' start to their end that `conditions` may want."""
        return self._looking_again(
            lambda extents: self._batch(extents, conditions), self._read(known={})
        )

    def _batch(self, extents: Extents, conditions: Sequence[Condition]) -> Plan:
        start = self._start(extents)
        end = self._place(self._options.ending, extents, "endingOffsets")
        settled = self._settled(end, extents, "endingOffsets")
        check_order(start, settled)
        plan = self._plan(*self._narrowed(start, settled, conditions))
        if self._may_hide_deletions and isinstance(self._options.starting, OffsetChoice):
            self._start(self._metadata.look())
        return plan

    def _narrowed(
        self, start: Position, end: Position, conditions: Sequence[Condition]
    ) -> tuple[Position, Position]:
        if not conditions:
            return start, end
        begin, end = narrow(start, end, conditions)
        time_ms = least_time_ms(conditions)
        if time_ms is None:
            return begin, end
        names = {
            one.offsets.partition: (one.topic, one.offsets.number)
            for one in ranges_between(begin, end)
        }
        found = self._metadata.offsets_for_times(dict.fromkeys(names, time_ms))
        return later(begin, end, {names[key]: offset for key, offset in found.items()}), end

    def initial(self) -> Json:
        """Where a query without a checkpoint starts; the same however often it is asked."""
        if self._initial is None:
            self._initial = self._looking_again(self._start, self._read(known={}))
            self._first_batch_is_due = self._options.starting.moves
        return position_to_json(self._initial)

    def is_initial(self, position: Position) -> bool:
        """Whether this is where the query began: nothing has been read up to there."""
        return position == self._initial

    def fix_target(self) -> None:
        """From here on `latest` is at most the current committed end."""
        self._target = latest(self._metadata.look())
        self._target_at_s = self._metadata.clock.monotonic_s()

    def latest(self, start: Json, *, is_limited: bool) -> Json:
        """How far to read after `start`. Waits a while where nothing is new."""
        since = position_of_json(start)
        if self._first_batch_is_due and since == self._initial:
            self._first_batch_is_due = False
            self._pace.last_s = self._metadata.clock.monotonic_s()
            return start
        reach = self._looking_again(
            lambda extents: self._reach(since, extents, is_limited=is_limited),
            self._wait_for_offsets(since, is_limited),
        )
        if reach is None or reach.end == since:
            return start
        return position_to_json(reach.end, reach.first)

    def newest(self, start: Json | None) -> Json:
        """How far to read for a Spark that says neither start nor limit (before 4.2).

        `start` is the last offset that this process knows; None where a query goes on from its
        checkpoint: then the end of the log, which is no less than what the checkpoint has.
        """
        self._first_batch_is_due = False  # an availableNow query asks once
        if start is None:
            return position_to_json(latest(self._read(known={})))
        return self.latest(start, is_limited=False)

    def _reach(self, since: Position, extents: Extents, *, is_limited: bool) -> "_Reach | None":
        """None: no batch is due."""
        begin = self._settled(since, extents)
        new = begun(since, begin)
        check_begun(new, extents, fail_on_data_loss=self._options.fail_on_data_loss)
        first = begin if self.is_initial(since) else new
        end = latest(extents)
        if self._target is not None:
            end = farther(begin, self._settled(self._target, extents))
        if not is_limited:
            return _Reach(first, end)
        if not self._is_due(begin, end):
            return None
        reach = self._limited(begin, end)
        self._pace.last_s = self._metadata.clock.monotonic_s()
        return _Reach(first, reach)

    def newest_known(self) -> Json | None:
        """The end of the log as last seen: a query's progress shows it beside its own offsets."""
        return position_to_json(latest(self._metadata.extents())) if self._is_loaded else None

    def between(self, start: Json, end: Json) -> Plan:
        """The plan of a batch. Independent of earlier calls."""
        since, until = begin_of_batch(start, end), position_of_json(end)
        if not ranges_between(since, until):
            return [], {}
        extents = self._metadata.extents()
        if not covers(extents, until):
            extents = self._read(known=until)
        plan = self._looking_again(
            lambda now: self._plan(self._settled(since, now), self._settled(until, now)), extents
        )
        if self._may_hide_deletions:
            self._settled(since, self._metadata.look())
        return plan

    @property
    def _may_hide_deletions(self) -> bool:
        """Whether log start must be looked at again after a plan: tables were read after it, and a
        gap that a deletion left in a table looks like one of control batches. No task may be
        planned for it: no file holds it.
        """
        return self._options.fail_on_data_loss and self._has_planned_history

    def _looking_again(self, work: Callable[[Extents], T], extents: Extents) -> T:
        """`work`, repeated once if records moved to a table, or were deleted, since the last look.

        Offsets stay in segments for long after a table holds them; a driver may sleep for longer.
        """
        try:
            return work(extents)
        except (Corrupt, NotFound, BelowTrimPoint):
            return work(self._metadata.look(reload_tables=True))

    def _read(self, known: Position) -> Extents:
        """Extents by the registry. Raises `Invalid` for topics neither there nor in `known`."""
        is_new = self._metadata.clock.monotonic_s() - self._target_at_s < LOOK_AGE_S_MAX
        self._target_at_s = -math.inf
        extents = self._metadata.extents() if is_new else self._metadata.look()
        topics = self._options.topics
        if missing := [name for name in topics.names if name not in {**extents, **known}]:
            raise Invalid(
                f"no such topic: {', '.join(missing)}; log={self._options.url}; create it first, "
                f"or correct the option {topics.option}"
            )
        for name, wanted in topics.partitions.items():
            there = extents[name].partitions if name in extents else wanted
            if absent := [number for number in wanted if number not in there]:
                raise Invalid(
                    f"option {topics.option} names partitions that do not exist: topic={name} "
                    f"partitions={absent}"
                )
        self._check_life(extents)
        self._is_loaded = True
        return extents

    def _check_life(self, extents: Extents) -> None:
        wanted = self._options.topic_id
        for name, topic in extents.items():
            if wanted is not None and topic.topic_id != wanted:
                raise Refused(
                    f"topic was deleted and created again: topic={name} id={wanted.hex()} "
                    f"now={topic.topic_id.hex()}; option topicId means the former"
                )

    def _start(self, extents: Extents) -> Position:
        choice = self._options.starting
        start = self._place(choice, extents, "startingOffsets")
        option = choice.option if isinstance(choice, TimeChoice) else "startingOffsets"
        return self._settled(start, extents, option)

    def _place(self, choice: Choice, extents: Extents, option: str) -> Position:
        if isinstance(choice, TimeChoice):
            return chosen(extents, self._by_offset(choice, extents), choice.option)
        return chosen(extents, choice, option)

    def _by_offset(self, choice: TimeChoice, extents: Extents) -> OffsetChoice:
        # A partition that does not exist stays in, for the complaint.
        given = {name: dict.fromkeys(times, EARLIEST) for name, times in choice.given.items()}
        times: dict[TopicPartition, int] = {}
        for name, topic in extents.items():
            for number in topic.partitions:
                time_ms = choice.time_for(name, number)
                if time_ms is not None:
                    times[TopicPartition(topic.topic_id, number)] = time_ms
        names = {topic.topic_id: name for name, topic in extents.items()}
        for key, offset_at_time in self._metadata.offsets_for_times(times).items():
            name, number = names[key.topic_id], key.partition
            offset = choice.unmatched if offset_at_time is None else offset_at_time
            if offset is None:
                raise _unmatched(choice.option, name, number, times[key])
            given.setdefault(name, {})[number] = offset
        return OffsetChoice(choice.rest, given)

    def _wait_for_offsets(self, since: Position, is_limited: bool) -> Extents:
        if not self._is_loaded:
            self._read(known=since)
        if self._target is not None:
            return self._metadata.extents()

        def is_update(now: Extents) -> bool:
            return has_new_offsets(since, now) and (
                not is_limited or self._is_due(self._settled(since, now), latest(now))
            )

        return self._metadata.wait_for_update(is_update, LONG_POLL_S)

    def _is_due(self, begin: Position, end: Position) -> bool:
        if self._pace.offsets_min is None:
            return True
        return self._pace.is_due(backlog(begin, end), self._metadata.clock.monotonic_s())

    def _settled(self, position: Position, extents: Extents, option: str = "") -> Position:
        if not self._options.fail_on_data_loss:
            self._check_vanished(position, extents)
        return settle(
            position,
            extents,
            fail_on_data_loss=self._options.fail_on_data_loss,
            option=option,
        )

    def _check_vanished(self, position: Position, extents: Extents) -> None:
        """Raises `Refused` before a topic is left out that may exist."""
        topics = self._options.topics
        vanished_topics = vanished(position, extents, topics)
        unasked = {
            topic_id: vanished_topics[topic_id]
            for topic_id in vanished_topics.keys() - self._left_out
        }
        if unasked:
            check_fates(unasked, self._metadata.fates(unasked), topics)
            self._left_out |= unasked.keys()

    def _limited(self, begin: Position, end: Position) -> Position:
        if self._options.offsets_max is not None:
            end = limit_offsets(begin, end, self._options.offsets_max)
        if self._options.bytes_max is not None:
            end = self._limit_bytes(begin, end, self._options.bytes_max)
        return end

    def _limit_bytes(self, begin: Position, end: Position, bytes_max: int) -> Position:
        """About as far as `bytes_max` of wanted batches reach, looked up no further than needed."""
        while True:
            reach = limit_offsets(begin, end, self._step)
            places = self._metadata.places(ranges_between(begin, reach))
            size_bytes = wanted_bytes(places, self._metadata.layout_of)
            if size_bytes > bytes_max:
                self._step = max(FIRST_STEP_OFFSETS, self._step // 4)
                return scale(begin, reach, bytes_max, size_bytes)
            if reach == end:
                return end
            self._step *= 4

    def _plan(self, begin: Position, end: Position) -> Plan:
        self._has_planned_history = False
        ranges = ranges_between(begin, end)
        tasks_min = self._options.partitions_min
        tasks = self._tasks(ranges, self._parallelism, tasks_min)
        records_max = records_per_task(ranges, len(tasks), tasks_min, self._options.records_max)
        if records_max is not None:
            groups = split_ranges(ranges, records_max)
            tasks = [task for group in groups for task in self._tasks(group, 1, None)]
        return tasks, {one.offsets.topic_id: one.topic for one in ranges}

    def _tasks(
        self, ranges: list[TopicRange], parallelism: int, tasks_min: int | None
    ) -> list[ReadTask]:
        located = self._metadata.places(ranges)
        self._has_planned_history = self._has_planned_history or bool(located.history)
        return plan_tasks(
            located,
            self._metadata.layout_of,
            self._metadata.offsets_at,
            parallelism=parallelism,
            tasks_min=tasks_min,
            task_bytes=self._task_bytes,
        )


def _unmatched(option: str, topic: str, partition: int, time_ms: int) -> Invalid:
    return Invalid(
        f"option {option}: no record is that new: topic={topic} partition={partition} "
        f"time={time_ms}; give an earlier time, or set startingOffsetsByTimestampStrategy to "
        "latest to start such partitions at their end"
    )
