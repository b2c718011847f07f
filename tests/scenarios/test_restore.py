"""Brokers are killed and their registry is lost or an old copy: restore brings all back."""

import json
import shutil
import signal
from pathlib import Path

import pytest

from tests.scenarios.harness.brokers import bootstrap_of, refusal, start_broker, stop
from tests.scenarios.harness.data import read, write
from tests.scenarios.harness.process import Process

pytestmark = pytest.mark.clients

TOPIC = "kept"
FIRST = [f"first {number}" for number in range(300)]
LATER = [f"later {number}" for number in range(300)]


def killed_after_writing(log: Path, values: list[str]) -> None:
    with start_broker(str(log)) as broker:
        write(bootstrap_of(broker), TOPIC, values)
        broker.send(signal.SIGKILL)
        broker.wait()


def drop_registry(log: Path) -> None:
    for path in log.glob("registry.db*"):
        path.unlink()


def logstore(command: str, log: Path, *more: str) -> tuple[int, list[str]]:
    with Process(("logstore.cli.main", command, "--url", str(log), *more)) as process:
        return process.wait(deadline_s=60), process.lines


def restored(log: Path) -> dict[str, object]:
    arguments = ("restore", "--url", str(log), "--json")
    with Process(("tests.scenarios.harness.short_watch", *arguments)) as process:
        code, lines = process.wait(deadline_s=60), process.lines
    assert code == 0, lines
    found: dict[str, object] = json.loads("\n".join(lines))
    return found


def test_a_lost_registry_is_rebuilt_and_every_acknowledged_record_is_there(tmp_path: Path) -> None:
    log = tmp_path / "log"
    killed_after_writing(log, FIRST)
    killed_after_writing(log, LATER)
    drop_registry(log)
    with start_broker(str(log)) as broker:
        assert "logstore restore" in refusal(broker)
    drop_registry(log)
    code, reported = logstore("restore", log, "--dry-run")
    assert code == 0, reported
    assert not list(log.glob("registry.db*")), "a dry run makes no file"
    assert restored(log)["lost_topics"] == {}
    assert logstore("fsck", log)[0] == 0

    with start_broker(str(log)) as broker:
        bootstrap = bootstrap_of(broker)
        assert read(bootstrap, TOPIC) == FIRST + LATER
        write(bootstrap, TOPIC, ["and on"])
        stop(broker)
    assert logstore("fsck", log, "--data")[0] == 0


def test_behind_an_old_copy_of_the_registry_nothing_is_lost_either(tmp_path: Path) -> None:
    log, copy = tmp_path / "log", tmp_path / "copy.db"
    with start_broker(str(log)) as broker:
        write(bootstrap_of(broker), TOPIC, FIRST)
        stop(broker)
    shutil.copy(log / "registry.db", copy)
    killed_after_writing(log, LATER)
    drop_registry(log)
    shutil.copy(copy, log / "registry.db")
    assert logstore("fsck", log)[0] == 1
    with start_broker(str(log)) as broker:
        assert "logstore restore" in refusal(broker)
    assert restored(log)["lost_topics"] == {}

    with start_broker(str(log)) as broker:
        assert read(bootstrap_of(broker), TOPIC) == FIRST + LATER
        stop(broker)
    assert logstore("fsck", log, "--data")[0] == 0


def test_beside_a_running_broker_it_is_refused_and_fsck_finds_nothing_wrong(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    with start_broker(str(log)) as broker:
        bootstrap = bootstrap_of(broker)
        write(bootstrap, TOPIC, FIRST)
        code, lines = logstore("restore", log)
        assert code == 1
        assert "stop every broker" in lines[-1]
        assert logstore("fsck", log)[0] == 0
        write(bootstrap, TOPIC, LATER)
        assert read(bootstrap, TOPIC) == FIRST + LATER
        stop(broker)
