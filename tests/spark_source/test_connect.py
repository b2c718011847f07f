"""The source from a client of Spark Connect."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from logstore.records.encode import encode_batch, records_of
from tests.spark_source.log_on_disk import LogOnDisk
from tests.spark_source.moved import Mover
from tests.spark_source.spark_connect import connect_packages

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
WAIT_S = 500


def test_batch_and_stream_read_alike_through_spark_connect(tmp_path: Path) -> None:
    packages = connect_packages()
    if packages is None:
        pytest.skip("Spark Connect needs a package index, once")
    with LogOnDisk(tmp_path / "log") as log:
        topic_id = log.create_topic("orders", 2)
        for partition in range(2):
            batch = encode_batch(records_of([(None, b"v")] * 50, timestamp=1))
            log.append("orders", partition, batch)
        Mover(log.directory, topic_id).move({0: 50})
    client = [sys.executable, "-m", "tests.spark_source.connect_reads"]
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}{os.pathsep}{packages}",
        "SPARK_TESTING": "1",  # any free port
        "GRPC_DNS_RESOLVER": "native",  # the other one waits where there is no name server
    }
    answer = subprocess.run(
        [*client, str(tmp_path / "log"), str(tmp_path / "out")],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        timeout=WAIT_S,
        check=True,
        text=True,
    )

    reported = json.loads(answer.stdout.splitlines()[-1])
    assert reported["session"].startswith("pyspark.sql.connect")
    assert (reported["batch"], reported["stream"], reported["view"]) == (100, 100, 100)
    assert reported["columns"][:3] == ["key", "value", "topic"]
