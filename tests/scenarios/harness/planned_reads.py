"""Spark's plan of a topic, whose tasks are read at any later time: here, in this process.

Every second task is read when the plan is made, the others later, and again at the very end: in
between their segments move to the table and are trimmed. `gone` counts how often a task found that.
"""

from collections.abc import Callable, Iterable, Mapping

from logstore.formats.segment_ranges import SegmentRange
from logstore.reading.direct.log_metadata import LogMetadata
from logstore.reading.direct.missing import Resolver, Rest
from logstore.reading.direct.task_rows import read_rows
from logstore.reading.planning.segment_gone import SegmentGone
from logstore.reading.planning.table_ranges import TableRange
from logstore.reading.planning.tasks import SeqRange
from logstore.wiring.open import open_objects
from spark_source.options import Mode, parse_options
from spark_source.progress import Progress
from tests.scenarios.harness.digests import Digest

TASKS = 12
COLUMNS = ("partition", "offset", "timestamp_ms", "key", "value", "headers")


class Gone:
    """How often tasks found that their segments, or a table's files, had gone."""

    def __init__(self) -> None:
        self.count = 0


class _Counting:
    def __init__(self, resolver: Resolver, gone: Gone) -> None:
        self._resolver = resolver
        self._gone = gone

    def segment(
        self, run: SeqRange, gone: SegmentGone, reached: Mapping[SegmentRange, int]
    ) -> Rest:
        self._gone.count += 1
        return self._resolver.segment(run, gone, reached)

    def file(self, wanted: TableRange, start: int) -> TableRange | None:
        self._gone.count += 1
        return self._resolver.file(wanted, start)


def planned(url: str, topic: str, gone: Gone) -> Callable[[], Digest]:
    """Plans, reads every second task, and gives what reads the others: everything together."""
    given = {"path": url, "subscribe": topic, "minPartitions": str(TASKS)}
    options = parse_options(given, Mode.BATCH)
    tasks, topics = Progress(options, LogMetadata(options.url, options.topics), 2).batch()
    store = open_objects(url)

    def read(numbers: Iterable[int], into: Digest) -> None:
        for number in numbers:
            resolver = Resolver(url, (), topics, fail_on_data_loss=True)
            missing = _Counting(resolver, gone)
            into.add_rows(read_rows(store, tasks[number], topics, COLUMNS, missing))

    early = Digest()
    read(range(0, len(tasks), 2), early)

    def read_the_rest() -> Digest:
        found = early.copy()
        read(range(1, len(tasks), 2), found)
        return found

    return read_the_rest
