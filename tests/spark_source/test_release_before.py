"""Spark of the release before beside brokers of this version, as in an upgrade that has begun.

While the finalized level is that of the release before, its source and its compaction read and
move what brokers of this version write, and each goes on where the other stopped. Once the next
level is finalized and used, they end with one line, lose nothing, and this version goes on from
the same checkpoint.
"""

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from tests.releases import ROOT, release_before
from tests.scenarios.harness.brokers import START_S
from tests.scenarios.harness.fleet import directory_place, fleet
from tests.scenarios.harness.process import Process
from tests.spark_source.sink.log import ServedLog

pytestmark = pytest.mark.spark

JOB = Path(__file__).with_name("release_before_job.py")
JOB_S = 300
TOPIC = "orders"
PARTITIONS = 3
COUNT = 300
UNKNOWN = "segment of an unknown format: format=4 known=3; upgrade"


@contextmanager
def upgraded_log(directory: Path) -> Iterator[ServedLog]:
    """A log that the release before made and wrote to, served by this version since."""
    old = release_before().source()
    place = directory_place(directory)
    with fleet(place, 1, random.Random(), swallowed=False, source=old) as brokers:
        log = ServedLog(place.url, brokers)
        log.create(TOPIC, PARTITIONS)
        produce(log)
        process = brokers.process(1)
        process.send(signal.SIGTERM)
        assert process.wait(deadline_s=START_S) == 0, process.lines[-5:]
        brokers.members[1].source = ROOT
        brokers.start(1)
        yield log


def produce(log: ServedLog) -> None:
    producer = Producer({"bootstrap.servers": log.bootstrap, "enable.idempotence": True})
    for number in range(COUNT):
        producer.produce(TOPIC, b"value %d" % number, partition=number % PARTITIONS)
    assert producer.flush(START_S) == 0


def run_old(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """A program by the packages of the release before, in Spark's workers, too."""
    source = release_before().source()
    environment = {
        **os.environ,
        "PYTHONPATH": str(source),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    return subprocess.run(
        [sys.executable, *words],
        cwd=source,
        env=environment,
        capture_output=True,
        text=True,
        timeout=JOB_S,
        check=False,
    )


def read_by_old(log: ServedLog, directory: Path) -> dict[str, Any]:
    done = run_old([str(JOB), log.url, TOPIC, str(directory)])
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert found.pop("packages") == str(release_before().source())
    return found


def compact_by_old(log: ServedLog, *module: str) -> subprocess.CompletedProcess[str]:
    return run_old(["-m", *module, "--url", log.url, "--once", "--now"])


def command(*words: str) -> Process:
    return Process(("logstore.cli.main", *words))


@pytest.mark.timeout(600)
def test_spark_of_the_release_before_reads_and_compacts_until_the_next_level_is_used(
    tmp_path: Path, spark: SparkSession
) -> None:
    if release_before().why_not() is not None:
        pytest.skip("the release before needs a checkout with its commit")
    with upgraded_log(tmp_path) as log:
        produce(log)
        moved = compact_by_old(log, "spark_source.compaction")
        assert moved.returncode == 0, moved.stderr[-3000:]
        produce(log)
        with command("compact", "--url", log.url, "--once", "--now") as run:
            assert run.wait(deadline_s=START_S) == 0, run.lines
        produce(log)
        moved = compact_by_old(log, "logstore.cli.main", "compact")
        assert moved.returncode == 0, moved.stderr[-3000:]
        produce(log)
        assert read_by_old(log, tmp_path) == rows(5 * COUNT), (
            "a table that both wrote, and records that are in none"
        )

        with command("upgrade", "--url", log.url, "--finalize") as run:
            assert run.wait(deadline_s=START_S) == 0, run.lines
        staged = spark.range(COUNT).selectExpr("cast(id as string) value")
        staged.write.format("logstore").mode("append").options(path=log.url, topic=TOPIC).save()

        refused = run_old([str(JOB), log.url, TOPIC, str(tmp_path)])
        assert refused.returncode != 0
        assert UNKNOWN in refused.stderr, refused.stderr[-3000:]
        refused = compact_by_old(log, "logstore.cli.main", "compact")
        assert refused.returncode == 1
        assert UNKNOWN in refused.stderr
        assert "Traceback" not in refused.stderr

        again = subprocess.run(
            [sys.executable, str(JOB), log.url, TOPIC, str(tmp_path)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=JOB_S,
            check=False,
        )
        assert again.returncode == 0, again.stderr[-3000:]
        found = json.loads(again.stdout.splitlines()[-1])
        assert found.pop("packages") == str(ROOT)
        assert found == rows(6 * COUNT)


def rows(count: int) -> dict[str, int]:
    names = ("batch", "batch_distinct", "streamed", "streamed_distinct")
    return dict.fromkeys(names, count)
