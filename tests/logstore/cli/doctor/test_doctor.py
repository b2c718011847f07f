"""`logstore doctor` on real logs with planted faults, without brokers and with one that dies."""

import os
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from logstore.cli.command import FAILED, OK
from logstore.cli.decisions.doctor_facts import Facts
from logstore.cli.decisions.doctor_findings import Diagnosis, findings_of
from logstore.cli.doctor.collect import FactCollector
from logstore.errors import Retryable
from logstore.formats.compaction_row import INTERRUPTED, CompactionRow, RunStatus
from logstore.formats.keys import segment_key
from logstore.ports.clock import Clock, SystemClock
from logstore.wiring.open import open_readable
from tests.logstore.cli.conftest import Command
from tests.logstore.cli.fsck.test_fsck import add_row, change_row
from tests.scenarios.harness.process import Process

HOUR_S = 3600


class LaterClock(SystemClock):
    def now_ms(self) -> int:
        return super().now_ms() + HOUR_S * 1000


def facts_of(log: Path, faults: Sequence[str] = (), clock: Clock | None = None) -> Facts:
    readable = open_readable(str(log))
    try:
        return FactCollector(readable, clock or SystemClock(), lambda _: None).collect(
            "1.0", probe=lambda: faults, damage=lambda: (), reach=None
        )
    finally:
        readable.close()


def faults_in(facts: Facts, about: str) -> list[Diagnosis]:
    return [one for one in findings_of(facts) if one.about == about and one.action]


def test_a_log_without_brokers_says_so_and_which_partitions_nothing_leads(written: Path) -> None:
    facts = facts_of(written)
    assert {one.text for one in faults_in(facts, "brokers")} >= {"no broker is alive"}
    (partitions,) = faults_in(facts, "partitions")
    assert "notes-0, orders-0, orders-1" in partitions.text


def test_a_clock_that_is_ahead_of_the_store_is_found(written: Path) -> None:
    newest = written / segment_key(2, 3)
    while not newest.exists():
        newest = written / segment_key(2, int(newest.name) - 1)
    created_s = newest.stat().st_mtime
    (calm,) = [one for one in facts_of(written).chains if one.epoch == 2]
    assert calm.clock_ahead_ms is not None
    os.utime(newest, (created_s, created_s - HOUR_S))
    (ahead,) = [one for one in facts_of(written).chains if one.epoch == 2]
    assert ahead.clock_ahead_ms == pytest.approx(calm.clock_ahead_ms + HOUR_S * 1000, abs=2)


@pytest.mark.parametrize("status", [RunStatus.FAILED, RunStatus.DONE])
def test_a_frozen_compaction_and_its_tables_are_found(written: Path, status: RunStatus) -> None:
    """Also where runs come to their end and leave topics with errors."""
    failed = CompactionRow(status=status, by="host", began_ms=1, ended_ms=2, outcome="no room left")
    row: dict[str, object] = {**failed.row()}
    del row["cut"]  # bytes
    add_row(written, "compaction", "000000000001", row)
    facts = facts_of(written, clock=LaterClock())
    texts = [one.text for one in faults_in(facts, "tables")]
    assert any("no room left" in text for text in texts)
    assert any("table of orders is behind: records=" in text for text in texts)


def test_a_compaction_that_was_asked_to_end_is_no_failure(written: Path) -> None:
    """Its broker stops, or is the controller no more."""
    ended = CompactionRow(
        status=RunStatus.ABANDONED, by="host", began_ms=1, ended_ms=2, outcome=INTERRUPTED
    )
    row: dict[str, object] = {**ended.row()}
    del row["cut"]  # bytes
    add_row(written, "compaction", "000000000001", row)
    compaction = facts_of(written).compaction
    assert compaction is not None
    assert compaction.failed_since == 0


def test_a_damaged_segment_is_found_and_the_rest_is_looked_at(
    written: Path, logstore: Command
) -> None:
    path = written / segment_key(2, 1)
    data = bytearray(path.read_bytes())
    data[40] ^= 0xFF
    path.chmod(0o600)
    path.write_bytes(bytes(data))
    answer = logstore("doctor", "--url", written, "--json", "--read-only")
    assert answer.code == FAILED
    findings = answer.json["findings"]
    assert any(one["about"] == "objects" and "damaged" in one["text"] for one in findings)
    assert findings[0]["severity"] == "broken"
    assert any(one["about"] == "format" for one in findings)


def test_a_right_that_is_missing_is_named(written: Path) -> None:
    fault = "not allowed: s3:DeleteObject: 403"
    (finding,) = faults_in(facts_of(written, faults=[fault]), "rights")
    assert (finding.severity, finding.text) == ("broken", fault)


def test_a_part_that_cannot_be_looked_at_does_not_hide_the_others(written: Path) -> None:
    def fail() -> Sequence[str]:
        raise Retryable("the store is away")

    readable = open_readable(str(written))
    try:
        facts = FactCollector(readable, SystemClock(), lambda _: None).collect(
            "1.0", probe=fail, damage=lambda: (), reach=None
        )
    finally:
        readable.close()
    assert facts.unreadable == {"rights": "the store is away"}
    assert facts.chains


def test_rows_of_partitions_without_a_topic_are_found(written: Path) -> None:
    change_row(written, "topic", "orders", status="deleted")
    (finding,) = [one for one in faults_in(facts_of(written), "partitions") if "rows" in one.text]
    assert "without a topic: 2" in finding.text


@pytest.mark.slow
def test_a_healthy_broker_passes_and_a_dead_one_does_not(tmp_path: Path, logstore: Command) -> None:
    log = tmp_path / "log"
    with Process(("broker", "--url", str(log), "--listen", "127.0.0.1:0")) as broker:
        port = broker.wait_for(r"listening on 127\.0\.0\.1:(\d+) ")[1]
        bootstrap = ("--bootstrap", f"127.0.0.1:{port}")
        assert logstore("topics", "create", "orders", *bootstrap).code == OK
        healthy = logstore("doctor", "--url", log, *bootstrap)
        assert healthy.code == OK, healthy.out
        assert "broken" not in healthy.out
        broker.send(signal.SIGKILL)
        broker.wait()
    dead = logstore("doctor", "--url", log)
    assert dead.code == FAILED
    assert "broker 1" in dead.out
    assert "is silent: partitions=1; do: start it again" in dead.out
    assert "orders-0" in dead.out
    shutil.rmtree(log)
    assert logstore("doctor", "--url", log).code == FAILED
