"""The Data Source API's writers. Spark makes one in each of three kinds of processes.

    plan      driver      made for each batch, checks columns and options, looks topics up,
                          is pickled for the tasks
    write     executors   encode, and stage or send; know batch and query by their TaskContext
    commit    driver      made again for each batch of a stream, knows nothing but the messages

So whatever the commit needs travels in the messages of the tasks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from spark_source.sink.commit import commit_messages
from spark_source.sink.executor import write_task
from spark_source.sink.plan import WritePlan
from spark_source.spark_api import DataSourceStreamArrowWriter

if TYPE_CHECKING:
    import pyarrow as pa


class BatchWriter(DataSourceArrowWriter):
    """Made once for a write; the same object, by pickle, is in tasks and at the commit."""

    def __init__(self, plan: WritePlan) -> None:
        self._plan = plan

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return write_task(self._plan, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        commit_messages(self._plan.options, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing: the write may be committed already, and what was staged is swept later."""


class StreamWriter(DataSourceStreamArrowWriter):
    """Made for the tasks of each batch, and once more for its commit."""

    def __init__(self, plan: WritePlan) -> None:
        self._plan = plan

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return write_task(self._plan, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        commit_messages(self._plan.options, messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing: Spark aborts a batch whose commit raised too, and repeats it."""
