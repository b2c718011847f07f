"""The last record of each key in real Spark, of table and tail together."""

import random
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_source import latest
from tests.logstore.compaction.keyed import KeyedTopic, random_records
from tests.logstore.compaction.world import World, undecodable_batch
from tests.spark_source.log_on_disk import LogOnDisk

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def test_the_last_record_of_each_key_comes_once_from_table_and_tail(
    spark: SparkSession, tmp_path: Path
) -> None:
    with LogOnDisk(tmp_path / "log") as log:
        world = World(log, tmp_path / "log")
        topic = KeyedTopic.create(world, "state", {"logstore.clean.dead.ratio": "0"})
        rng = random.Random(3)
        url = str(world.directory)
        for _ in range(2):
            topic.write(*random_records(rng, 100, 40), (None, b"no key"))
            rows = latest(spark, url, "state").select("key", "value", "offset").collect()

            found = {bytes(row.key): bytes(row.value) for row in rows}
            assert found == topic.state(range(len(topic.records)))
            assert len(found) == len(rows)
            assert all(topic.records[row.offset] == (row.key, row.value) for row in rows)
            topic.clean()

        world.log.append("state", 0, undecodable_batch())
        with pytest.raises(PySparkException, match="cannot be decoded"):
            latest(spark, url, "state").collect()
