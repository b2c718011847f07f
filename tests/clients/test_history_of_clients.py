"""Clients read a topic whose older half lies in its table alone, and see nothing of the seam."""

from pathlib import Path

import pytest

from benchmarks.peers.moved import move_all
from logstore.formats.keys import CHAINS
from tests.scenarios.harness.brokers import bootstrap_of, create_topic, start_broker, stop
from tests.scenarios.harness.process import Process

pytestmark = pytest.mark.clients

DEADLINE_S = 120.0
PARTITIONS, COUNT = 3, 2_000


def tell(story: str, bootstrap: str, records: Path, *more: str) -> None:
    arguments = (story, "--bootstrap", bootstrap, "--records", str(records), *more)
    with Process(("tests.clients.history_stories", *arguments)) as child:
        child.wait_for("^done$", deadline_s=DEADLINE_S)


def test_what_was_written_is_read_over_the_seam(tmp_path: Path) -> None:
    log, records = tmp_path / "log", tmp_path / "records"
    with start_broker(str(log)) as broker:
        create_topic(bootstrap_of(broker), "old", PARTITIONS)
        tell("write", bootstrap_of(broker), records)
        stop(broker)
    before = count_segments(log)
    move_all(log)
    assert count_segments(log) < before / 2
    with start_broker(str(log)) as broker:
        bootstrap = bootstrap_of(broker)
        tell("write", bootstrap, records, "--first", str(COUNT))
        tell("confluent", bootstrap, records)
        tell("kafka-python", bootstrap, records)
        stop(broker)


def count_segments(log: Path) -> int:
    return sum(1 for path in (log / CHAINS).rglob("*") if path.is_file())
