"""What Spark is given to read, and what a job makes of it."""

import zlib
from dataclasses import asdict
from pathlib import Path

import pytest

from benchmarks.cases.spark_read import JOB
from benchmarks.spark.asked import asked_when_idle
from benchmarks.spark.filled import Topic
from benchmarks.spark.jars import session_jars
from benchmarks.spark.launch import run_job
from benchmarks.spark.tree import Spent, spent_here
from benchmarks.spark.values import KINDS, checksum, values_of
from logstore.records.encode import encode_batch
from logstore.records.record import Record
from tests.spark_source.kafka_source import kafka_source_jars
from tests.spark_source.log_on_disk import LogOnDisk

TOPIC, ROWS = "clicks", 200


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("record_bytes", [100, 1000])
def test_values_are_of_one_size_different_and_the_same_every_time(
    kind: str, record_bytes: int
) -> None:
    values = values_of(kind, record_bytes, pool_bytes=100_000)

    assert {len(value) for value in values} == {record_bytes}
    assert len(set(values)) == len(values) == 100_000 // record_bytes
    assert values == values_of(kind, record_bytes, pool_bytes=100_000)


@pytest.mark.parametrize("record_bytes", [100, 1000])
def test_json_compresses_as_clicks_do_and_random_values_do_not(record_bytes: int) -> None:
    def share(kind: str) -> float:
        data = b"".join(values_of(kind, record_bytes, pool_bytes=100_000))
        return len(zlib.compress(data)) / len(data)

    assert 0.1 < share("json") < 0.5
    assert share("random") > 0.99


def test_the_checksum_counts_values_as_often_as_they_are_sent() -> None:
    values = [b"a", b"bc", b""]

    assert checksum(values, 0) == 0
    assert checksum(values, 7) == sum(zlib.crc32(values[n % 3]) for n in range(7))


def test_cpu_time_is_that_between_two_looks() -> None:
    before = spent_here()
    sum(range(3_000_000))

    spent = spent_here().since(before)

    assert spent.python_s > 0
    assert spent.java_s == 0
    assert Spent(2.0, 1.0).all_s == 3.0


def written(log: LogOnDisk) -> Topic:
    log.create_topic(TOPIC, 1)
    values = values_of("json", 100, pool_bytes=ROWS * 100)
    records = [Record(n, 1_700_000_000_000, None, value) for n, value in enumerate(values)]
    log.append(TOPIC, 0, encode_batch(records))
    return Topic(TOPIC, ROWS, checksum(values, ROWS))


def test_an_idle_driver_asks_the_registry_once_a_second_and_lists_nothing(tmp_path: Path) -> None:
    with LogOnDisk(tmp_path / "log") as log:
        written(log)
        found = asked_when_idle(str(tmp_path / "log"), TOPIC)

    assert found["GETs/min"] <= 2
    assert found["LISTs/min"] == 0
    # The brokers' rows each second, the change feed every 5 s, all rows once a minute.
    assert 60 <= found["registry reads/min"] <= 120
    assert 0 < found["dollars/month"] < 1


def wanted(path: Path, topic: Topic) -> dict[str, object]:
    place = {"format": "logstore", "options": {"path": str(path)}, "brokers": []}
    query = {"mode": "stream", "sink": "sum", "topic": asdict(topic), "profiles": None}
    return {"jars": [str(jar) for jar in session_jars()], **place, **query}


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(
    not kafka_source_jars(), reason="Spark's Kafka source and Apache Kafka need Maven, once"
)
def test_a_job_tells_what_a_read_cost_and_fails_where_bytes_differ(tmp_path: Path) -> None:
    with LogOnDisk(tmp_path / "log") as log:
        topic = written(log)

    found = run_job(JOB, wanted(tmp_path / "log", topic))

    assert min(found["wall_s"], found["java_s"], found["python_s"]) > 0
    assert found["brokers_s"] == 0
    other = Topic(TOPIC, ROWS, topic.crc + 1)
    with pytest.raises(RuntimeError, match="instead of 200 rows"):
        run_job(JOB, wanted(tmp_path / "log", other))
