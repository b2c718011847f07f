"""Each option on Spark's Kafka source with Apache Kafka, and on ours: the same but where said."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark_source.apache_kafka import apache_kafka, can_compare
from tests.spark_source.log_on_disk import LogOnDisk
from tests.spark_source.option_cases import Case, write_topics
from tests.spark_source.option_table import CASES
from tests.spark_source.places import KafkaPlace, LogstorePlace
from tests.spark_source.reads import Reads

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaPlace]:
    if not can_compare():
        pytest.skip("Spark's Kafka source and Apache Kafka need Maven, once")
    with apache_kafka(tmp_path_factory.mktemp("compared") / "kafka") as bootstrap:
        place = KafkaPlace(bootstrap)
        write_topics(place)
        yield place


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LogstorePlace]:
    with LogOnDisk(tmp_path_factory.mktemp("compared") / "log") as log:
        place = LogstorePlace(log)
        write_topics(place)
        yield place


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.options[0])
def test_an_option_does_what_it_does_with_kafka(
    case: Case, spark: SparkSession, kafka: KafkaPlace, ours: LogstorePlace, tmp_path: Path
) -> None:
    theirs_seen = case.body(Reads(spark, kafka, kafka, tmp_path / "kafka"))
    ours_seen = case.body(Reads(spark, ours, kafka, tmp_path / "logstore"))

    names = set(case.differs)
    assert names <= set(ours_seen)
    assert {name: ours_seen[name] for name in ours_seen if name not in names} == {
        name: theirs_seen[name] for name in theirs_seen if name not in names
    }
    for name in names:
        assert ours_seen[name] != theirs_seen[name], "they have become alike: say so"
