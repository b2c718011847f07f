"""Spark before 4.2: what it lacks is not asked of it, and what it cannot do is said in a line.

It is played by hiding what it lacks; `make spark-versions` runs the real ones.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from spark_source.planning.offsets import position_of_json
from tests.spark_source.log_on_disk import LogOnDisk
from tests.spark_source.progressing import batch
from tests.spark_source.test_source import SCHEMA, source

HIDDEN = """
import sys
from pyspark.sql import datasource
sys.modules["pyspark.sql.streaming.datasource"] = None
del datasource.DataSourceStreamArrowWriter
from pyspark.sql.types import StructType
from pyspark_logstore import DefaultSource
schema = StructType().add("value", "binary")
given = {"path": sys.argv[1], "subscribe": "orders"}
DefaultSource(given).streamReader(schema)
for made in (
    lambda: DefaultSource({**given, "maxBytesPerTrigger": "9"}).streamReader(schema),
    lambda: DefaultSource({**given, "topic": "orders"}).streamWriter(schema, False),
):
    try:
        made()
    except Exception as error:
        print(error)
"""


@pytest.mark.slow
def test_an_earlier_spark_gets_a_reader_and_one_line_for_what_it_cannot_do(tmp_path: Path) -> None:
    answer = subprocess.run(
        [sys.executable, "-c", HIDDEN, str(tmp_path)], capture_output=True, text=True, check=True
    )
    limit, writer = answer.stdout.splitlines()
    assert limit.startswith("option maxBytesPerTrigger needs Spark 4.2 or later: this is ")
    assert writer.startswith("writing a stream needs Spark 4.1 or later: this is ")


def test_without_start_and_limit_a_batch_reads_all_after_what_was_planned(tmp_path: Path) -> None:
    with LogOnDisk(tmp_path) as log:
        log.create_topic("orders", 1)
        log.append("orders", 0, batch(3))
        reader: Any = source(tmp_path, startingOffsets="earliest").streamReader(SCHEMA)

        start = reader.initialOffset()
        first = reader.latestOffset()
        assert position_of_json(first)["orders"].next == {0: 3}
        assert count(reader, start, first) == 3
        log.append("orders", 0, batch(2))
        second = reader.latestOffset()
        assert count(reader, first, second) == 2


def test_a_query_that_goes_on_from_its_checkpoint_reads_to_the_end(tmp_path: Path) -> None:
    with LogOnDisk(tmp_path) as log:
        log.create_topic("orders", 1)
        log.append("orders", 0, batch(3))
        before: Any = source(tmp_path).streamReader(SCHEMA)
        checkpoint = before.latestOffset()
        log.append("orders", 0, batch(4))

        again: Any = source(tmp_path).streamReader(SCHEMA)
        assert count(again, checkpoint, again.latestOffset()) == 4


def count(reader: Any, start: object, end: object) -> int:
    """Rows between two offsets."""
    batches = (part for task in reader.partitions(start, end) for part in reader.read(task))
    return sum(part.num_rows for part in batches)
