"""`logstore.compaction.every` with real processes: tables come by themselves, from one broker of a
cluster, and the child ends however its broker ends."""

import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.broker.http.pages import scrape
from tests.scenarios.harness.process import Process

pytestmark = pytest.mark.slow

RUNS = r"compaction runs here: pid=(\d+)"
PATIENCE_S = 120.0
"""A child of low priority waits while a machine is busy."""
EVERY = ("--set", "logstore.compaction.every=1s")


def serve(log: Path, broker: int, *more: str) -> Process:
    words = ("broker", "--url", str(log), "--broker", str(broker), "--listen", "127.0.0.1:0")
    return Process((*words, *EVERY, *more))


def address_of(broker: Process) -> str:
    return broker.wait_for(r"listening on (127\.0\.0\.1:\d+)", deadline_s=PATIENCE_S)[1]


def logstore(*arguments: str, stdin: str = "") -> None:
    subprocess.run(
        [sys.executable, "-m", "logstore.cli.main", *arguments],
        input=stdin, text=True, check=True, capture_output=True, timeout=PATIENCE_S,
    )  # fmt: skip


def pids_of(broker: Process) -> list[int]:
    """All children that it has had: the lease of a controller may come and go on a busy machine."""
    return [int(found[1]) for line in broker.lines if (found := re.search(RUNS, line))]


def wait_for_ends(pids: Sequence[int]) -> None:
    for pid in pids:
        try:
            process = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        ended, _, _ = select.select([process], [], [], PATIENCE_S)
        os.close(process)
        assert ended, pid


@pytest.mark.timeout(600)
def test_tables_come_by_themselves_and_no_child_outlives_its_broker(tmp_path: Path) -> None:
    with serve(tmp_path / "log", 1, "--http", "127.0.0.1:0") as broker:
        port = int(broker.wait_for(r"health are served: address=127\.0\.0\.1:(\d+)")[1])
        address = address_of(broker)
        at_once = ("--config", "logstore.table.freshness.ms=0")
        logstore("topics", "create", "orders", "--bootstrap", address, *at_once)
        logstore("produce", "orders", "--bootstrap", address, stdin="a\n")
        broker.wait_for("compaction moved records: count=1", deadline_s=PATIENCE_S)
        page = scrape(port)
        assert page.value("logstore_compaction_records_total") == 1
        assert page.value("logstore_compaction_runs_total", outcome="good") >= 1
        assert list((tmp_path / "log" / "tables").glob("*/_delta_log/*.json"))

        broker.send(signal.SIGKILL)
        broker.wait()
        wait_for_ends(pids_of(broker))


@pytest.mark.timeout(600)
def test_another_broker_takes_over_from_one_that_stops(tmp_path: Path) -> None:
    with serve(tmp_path / "log", 1) as first:
        first.wait_for(RUNS, deadline_s=PATIENCE_S)
        with serve(tmp_path / "log", 2) as second:
            address_of(second)
            first.send(signal.SIGTERM)
            assert first.wait(deadline_s=PATIENCE_S) == 0, first.lines
            wait_for_ends(pids_of(first))
            second.wait_for(RUNS, deadline_s=PATIENCE_S)
            second.send(signal.SIGTERM)
            assert second.wait(deadline_s=PATIENCE_S) == 0, second.lines
            wait_for_ends(pids_of(second))
