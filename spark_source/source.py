"""`format("logstore")`: the Python Data Source API on one side, the log on the other.

Nothing is decided here. Spark makes these objects in three kinds of processes: one that analyses
and plans, one per stream that asks for offsets, and executors, which unpickle a reader and see only
the `InputPartition` they are given. So readers hold options; what is costly is made where it is
used. The module is imported whenever Spark looks for sources: it loads neither pyarrow nor a store.
The sink is in `spark_source.sink`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import StructType

from spark_source.options import Mode, ReadOptions, includes_headers, parse_options
from spark_source.planning.schema import check_columns, schema_ddl
from spark_source.spark_api import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
    check_stream_options,
    check_stream_writer,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from logstore.reading.planning.tasks import ReadTask
    from spark_source.background_commits import BackgroundCommits
    from spark_source.planning.filters import Condition
    from spark_source.planning.offsets import Json
    from spark_source.progress import Progress

logger = logging.getLogger(__name__)

FORMAT = "logstore"
GROUP_FLUSH_S = 3.0
"""How long the end of an AvailableNow run waits for its last commit to `commitGroup`."""


class LogstoreDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return schema_ddl(headers=includes_headers(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        options = parse_options(self.options, Mode.BATCH)
        kind = NarrowedReader if options.push_filters else BatchReader
        return kind(options, _columns_of(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        options = parse_options(self.options, Mode.STREAM)
        check_stream_options(options)
        return StreamReader(options, _columns_of(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from spark_source.sink.plan import plan_write
        from spark_source.sink.writers import BatchWriter

        return BatchWriter(plan_write(self.options, schema, is_stream=False, overwrite=overwrite))

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        from spark_source.sink.plan import plan_write
        from spark_source.sink.writers import StreamWriter

        check_stream_writer()

        return StreamWriter(plan_write(self.options, schema, is_stream=True, overwrite=overwrite))


class TaskPartition(InputPartition):
    """All that an executor gets to know. `topics` are names by id."""

    def __init__(self, options: ReadOptions, task: ReadTask, topics: Mapping[bytes, str]) -> None:
        super().__init__(task)
        self.url = options.url
        self.storage = options.storage
        self.fail_on_data_loss = options.fail_on_data_loss
        self.topics = topics


class BatchReader(DataSourceReader):
    def __init__(self, options: ReadOptions, columns: Sequence[str]) -> None:
        self._options = options
        self._columns = columns

        self._conditions: tuple[Condition, ...] = ()

    def partitions(self) -> Sequence[InputPartition]:
        _warn_without_effect(self._options)
        return _partitions(self._options, *_progress(self._options).batch(self._conditions))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition, self._columns)


class NarrowedReader(BatchReader):
    """Reads no more than the filters of its query may want. A class of its own: a session without
    `spark.sql.python.filterPushdown.enabled` refuses every reader that has this method.
    """

    def pushFilters(self, filters: list[Any]) -> list[Any]:  # noqa: N802
        from spark_source.planning.filters import conditions_of

        self._conditions = conditions_of(filters)
        return filters  # Spark applies all of them to what is read


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets travel as the JSON of `spark_source.planning.offsets`."""

    def __init__(self, options: ReadOptions, columns: Sequence[str]) -> None:
        self._options = options
        self._columns = columns
        self._progress: Progress | None = None
        self._group: BackgroundCommits | None = None
        self._ends_by_itself = False
        self._reached: Json | None = None

    def initialOffset(self) -> Json:  # noqa: N802
        self._reached = self._open().initial()
        return self._reached

    def latestOffset(  # noqa: N802
        self, start: Json | None = None, limit: ReadLimit | None = None
    ) -> Json:
        if start is None:  # Spark before 4.2
            self._reached = self._open().newest(self._reached)
            return self._reached
        # What Spark asks for next begins where everything before it is done.
        self._tell_group(start)
        everything = isinstance(limit, ReadAllAvailable)
        end = self._open().latest(start, is_limited=not everything)
        if self._group is not None and self._ends_by_itself and end == start:
            # Nothing is left to read, and this process ends with the query.
            self._group.flush(GROUP_FLUSH_S)
        return end

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        if self._options.offsets_max is not None:
            return ReadMaxRows(self._options.offsets_max)
        if self._options.bytes_max is not None:
            return ReadMaxBytes(self._options.bytes_max)
        if self._options.offsets_min is not None:
            return ReadMinRows(self._options.offsets_min)
        return ReadAllAvailable()

    def reportLatestOffset(self) -> Json | None:  # noqa: N802
        return self._open().newest_known()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._ends_by_itself = True
        self._open().fix_target()

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        self._reached = end
        return _partitions(self._options, *self._open().between(start, end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition, self._columns)

    def commit(self, end: Json) -> None:
        """For `commitGroup` alone: the checkpoint says how far a query has come."""
        self._tell_group(end)

    def _tell_group(self, reached: Json) -> None:
        from spark_source.planning.offsets import position_of_json

        progress = self._open()
        if self._group is not None:
            position = position_of_json(reached)
            if not progress.is_initial(position):
                self._group.tell(position)

    def _open(self) -> Progress:
        if self._progress is None:
            _warn_without_effect(self._options)
            self._progress = _progress(self._options)
            self._group = _group_commits(self._options)
        return self._progress

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_progress": None, "_group": None}


def _columns_of(schema: StructType) -> tuple[str, ...]:
    return check_columns((field.name, field.dataType.simpleString()) for field in schema.fields)


def _progress(options: ReadOptions) -> Progress:
    from logstore.reading.direct.log_metadata import LogMetadata
    from spark_source.progress import Progress

    return Progress(
        options, LogMetadata(options.url, options.topics, dict(options.storage)), _core_count()
    )


def _group_commits(options: ReadOptions) -> BackgroundCommits | None:
    from logstore.ports.clock import SystemClock
    from spark_source.background_commits import BackgroundCommits
    from spark_source.group_commit import GroupCommits, addresses_of, registered_brokers

    if options.commit_group is None:
        return None
    given = addresses_of(options.bootstrap)
    storage = dict(options.storage)
    return BackgroundCommits(
        GroupCommits(
            options.commit_group,
            lambda: given or registered_brokers(options.url, storage),
            SystemClock(),
        )
    )


def _warn_without_effect(options: ReadOptions) -> None:
    if options.without_effect:
        logger.warning(
            "options without effect, the log is read from its objects and not by a Kafka client: "
            "%s",
            ", ".join(options.without_effect),
        )


def _partitions(
    options: ReadOptions, tasks: Sequence[ReadTask], topics: Mapping[bytes, str]
) -> list[InputPartition]:
    return [TaskPartition(options, task, topics) for task in tasks]


def _read(partition: InputPartition, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    from logstore.reading.direct.missing import Resolver
    from logstore.reading.direct.task_rows import open_once, read_rows
    from spark_source.worker_memory import settle

    # Spark makes one empty partition of an empty list.
    if not isinstance(partition, TaskPartition):
        return iter(())
    settle()
    return read_rows(
        open_once(partition.url, partition.storage),
        partition.value,
        partition.topics,
        columns,
        Resolver(
            partition.url,
            partition.storage,
            partition.topics,
            fail_on_data_loss=partition.fail_on_data_loss,
        ),
    )


def _core_count() -> int:
    """Cores of the driver: a Python source cannot ask for those of the executors, so the option
    `parallelism` may say how many there are.
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
