"""Reads of one place with Spark, each as a small value that two places can be compared by."""

import itertools
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import spark_partition_id
from pyspark.sql.streaming.query import StreamingQuery

from tests.spark_source.places import KafkaPlace, Place, Written

WAIT_S = 60.0
TIME_MS = 1_700_000_000_000
REFUSED = "refused"
_NUMBERS = itertools.count()

Found = dict[str, str]
"""By "topic/partition", the offsets that came: "0-49", or each where there are holes."""


class Reads:
    """`groups` is the broker that keeps consumer groups for either place."""

    def __init__(
        self, spark: SparkSession, place: Place, groups: KafkaPlace, directory: Path
    ) -> None:
        self.place = place
        self.groups = groups
        self.spark = spark
        self._directory = directory

    def topic(self, partitions: int = 1) -> str:
        """A new, empty topic of this test alone."""
        name = f"{self.place.format}-{next(_NUMBERS)}"
        self.place.create_topic(name, partitions)
        return name

    def add(self, topic: str, count: int) -> int:
        """How many records there are in `topic` now more than before: `count`."""
        self.place.append(topic, 0, [Written(TIME_MS + n, b"v") for n in range(count)])
        return count

    def frame(self, *without: str, **options: str) -> DataFrame:
        reader = self.spark.read.format(self.place.format)
        return reader.options(**self._options(options, without)).load()

    @contextmanager
    def session(self, name: str, value: str) -> Iterator[None]:
        """With a setting of the session that it does not have otherwise."""
        self.spark.conf.set(name, value)
        try:
            yield
        finally:
            self.spark.conf.unset(name)

    def batch(self, *without: str, **options: str) -> Found:
        return found(self.frame(*without, **options))

    def tasks(self, **options: str) -> int:
        return self.frame(**options).rdd.getNumPartitions()

    def largest_task(self, **options: str) -> int:
        """Rows of the Spark partition that has most."""
        rows = self.frame(**options).groupBy(spark_partition_id()).count().collect()
        return max(int(row["count"]) for row in rows)

    def checkpoint(self) -> str:
        return str(self._directory / f"checkpoint-{next(_NUMBERS)}")

    def stream(self, checkpoint: str | None = None, **options: str) -> list[Found]:
        """What `availableNow` reads, batch by batch, empty ones left out."""
        batches: list[Found] = []
        query = self._start(options, batches.append, checkpoint, availableNow=True)
        query.awaitTermination()
        return [batch for batch in batches if batch]

    def running(self, steps: Sequence[Callable[[], int]], **options: str) -> list[Found]:
        """What a query reads while it runs. Each step says how many rows it leads to; the next one
        comes when they have."""
        batches: list[Found] = []
        update = threading.Condition()

        def take(batch: Found) -> None:
            with update:
                batches.append(batch)
                update.notify()

        query = self._start(options, take, None)
        try:
            query.processAllAvailable()
            expected = 0
            for step in steps:
                expected += step()
                with update:
                    assert update.wait_for(lambda: _count(batches) >= expected, WAIT_S)  # noqa: B023
        finally:
            query.stop()
        return [batch for batch in batches if batch]

    def refused(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except (PySparkException, Py4JError) as error:
            if self.place.format == "logstore" and "logstore.errors." not in str(error):
                raise  # it broke, which is another thing
            return REFUSED

    def _start(
        self,
        options: Mapping[str, str],
        take: Callable[[Found], None],
        checkpoint: str | None,
        **trigger: Any,
    ) -> StreamingQuery:
        reader = self.spark.readStream.format(self.place.format)
        rows = reader.options(**self._options(options, ())).load()
        writer = rows.writeStream.foreachBatch(lambda batch, _number: take(found(batch)))
        writer = writer.option("checkpointLocation", checkpoint or self.checkpoint())
        return (writer.trigger(**trigger) if trigger else writer).start()

    def _options(self, options: Mapping[str, str], without: Iterable[str]) -> dict[str, str]:
        given = {**self.place.options, **options}
        return {name: text for name, text in given.items() if name not in without}


def found(rows: DataFrame) -> Found:
    offsets: dict[str, list[int]] = {}
    for topic, partition, offset in rows.select("topic", "partition", "offset").collect():
        offsets.setdefault(f"{topic}/{partition}", []).append(offset)
    return {name: _range(sorted(those)) for name, those in sorted(offsets.items())}


def _range(offsets: Sequence[int]) -> str:
    whole = list(range(offsets[0], offsets[-1] + 1)) == offsets
    return f"{offsets[0]}-{offsets[-1]}" if whole else str(offsets)


def _count(batches: Iterable[Found]) -> int:
    total = 0
    for batch in batches:
        for text in batch.values():
            first, _, last = text.partition("-")
            total += int(last) - int(first) + 1
    return total


def as_json(value: object) -> str:
    return json.dumps(value)
