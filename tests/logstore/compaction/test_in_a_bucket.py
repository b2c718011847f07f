"""A log in a bucket is compacted as one in a directory is; its rows are in DynamoDB."""

import random

import pytest

from logstore.compaction.compactor import Compactor
from logstore.compaction.local import LocalCarrier
from logstore.compaction.session import RunOptions
from logstore.history.delta import Tables
from logstore.ports.clock import SystemClock, blocking_sleep_s
from logstore.records.encode import encode_batch
from logstore.records.record import Record
from logstore.wiring.initialise import InitPorts, initialise
from tests.logstore.compaction.world import TIME_MS
from tests.servers.buckets import new_location
from tests.servers.locked_moto import aws_environment, locked_moto
from tests.servers.tables import new_table_url
from tests.spark_source.log_on_disk import LogOnDisk


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_runs_move_what_is_committed() -> None:
    endpoint = locked_moto()
    url, registry = new_location(endpoint).url, new_table_url(endpoint)
    storage = {"storage.endpoint": endpoint}
    around = InitPorts(SystemClock(), random.Random(1), blocking_sleep_s, "test")
    batch = encode_batch([Record(n, TIME_MS, b"key", b"value %d" % n) for n in range(10)])
    with aws_environment():
        initialise(url, str(registry), storage, around)
        compactor = Compactor(url, storage, LocalCarrier(url, storage, 2))
        with LogOnDisk(url, storage) as log:
            topic_id = log.create_topic("orders", 2)
            for count in (1, 2):
                for partition in (0, 1):
                    log.append("orders", partition, batch)
                summary = compactor.run(RunOptions(now=True))
                assert (summary.rows, summary.errors) == (20, [])
                assert summary.requests.creates >= 3  # two files, a commit
                assert summary.dollars < 0.001
                found = Tables(url, storage).snapshot(topic_id)
                assert found is not None
                assert found.ends == {0: 10 * count, 1: 10 * count}
        compactor.close()
