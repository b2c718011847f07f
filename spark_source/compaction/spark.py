"""Tasks on a Spark cluster: one Spark task for each, by a function over Arrow batches.

Nothing but text goes to executors and comes back, so it works the same through Spark Connect.
Executors need this package, as they do for reading.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from logstore.errors import Retryable
from spark_source.settings import parallelism_of

if TYPE_CHECKING:
    import pyarrow as pa

RESULT = "result string"
PARALLELISM_ELSE = 8
"""Tasks at once where the session does not tell."""


class SparkCarrier:
    """`parallelism` is how many tasks can run at once: the session's cores, if it tells."""

    def __init__(
        self,
        spark: SparkSession,
        url: str,
        storage: Mapping[str, str],
        parallelism: int | None = None,
    ) -> None:
        self._spark = spark
        self._url = url
        self._storage = dict(storage)
        self._parallelism = parallelism or parallelism_of(spark) or PARALLELISM_ELSE

    @property
    def parallelism(self) -> int:
        return self._parallelism

    def carry_out(self, tasks: Sequence[str]) -> Iterator[str]:
        work = partial(_carry_out, tuple(tasks), self._url, self._storage)
        numbers = self._spark.range(0, len(tasks), 1, len(tasks))
        try:
            rows = numbers.mapInArrow(work, RESULT).collect()
        except PySparkException as error:
            lines = str(error).strip().splitlines()
            raise Retryable(f"Spark cannot run tasks: {lines[0] if lines else ''}") from error
        for row in rows:
            yield row[0]

    def close(self) -> None:
        """The session is its maker's."""


def _carry_out(
    tasks: Sequence[str],
    url: str,
    storage: Mapping[str, str],
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """In an executor: `batches` have the numbers of the tasks to carry out."""
    import pyarrow as pa

    from logstore.compaction.worker import carry_out

    for batch in batches:
        results = [carry_out(url, storage, tasks[number.as_py()]) for number in batch.column(0)]
        yield pa.RecordBatch.from_pydict({"result": pa.array(results, pa.string())})
