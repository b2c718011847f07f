"""In the background of a script interrupts are ignored: tests and programs end all the same.

A shell without job control starts what is followed by `&` with SIGINT ignored, and children of
children inherit that.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.scenarios.harness.process import ROOT, Process

BACKGROUND = ("sh", "-c", "trap '' INT; exec \"$@\"", "sh")
DEADLINE_S = 120


@pytest.mark.slow
def test_tests_that_interrupt_programs_pass_in_the_background() -> None:
    tests = "tests/logstore/cli/test_main.py::test_a_signal_reaches_a_running_command_as_130"
    command = [*BACKGROUND, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tests]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    ) as run:
        try:
            said, _ = run.communicate(timeout=DEADLINE_S)
        finally:
            if run.poll() is None:
                os.killpg(run.pid, signal.SIGKILL)
    assert run.returncode == 0, said.decode()


def background(*arguments: str) -> Process:
    return Process(arguments, before=BACKGROUND)


@pytest.mark.slow
def test_a_broker_in_the_background_ends_in_good_order_by_sigterm(tmp_path: Path) -> None:
    log = str(tmp_path / "log")
    with background("broker", "--url", log, "--listen", "127.0.0.1:0") as broker:
        where = broker.wait_for(r"listening on (127\.0\.0\.1:\d+)")[1]
        follow = ("consume", "t", "--bootstrap", where, "--follow")
        assert (
            Process(("logstore.cli.main", "topics", "--bootstrap", where, "create", "t")).wait()
            == 0
        )
        with background("logstore.cli.main", *follow, "--json") as consumer:
            produce = 'echo hello | exec "$@"'
            writer = ("logstore.cli.main", "produce", "t", "--bootstrap", where)
            assert Process(writer, before=("sh", "-c", produce, "sh")).wait() == 0
            consumer.wait_for("hello")
            consumer.send(signal.SIGTERM)
            assert consumer.wait() == -signal.SIGTERM
        broker.send(signal.SIGTERM)
        assert broker.wait() == 0
        assert broker.said[-1].endswith(" stopped")


@pytest.mark.slow
def test_dev_in_the_background_ends_its_brokers_by_sigterm(tmp_path: Path) -> None:
    dev = ("logstore.cli.main", "dev", "--url", str(tmp_path / "log"), "--port", "0")
    with background(*dev, "--brokers", "2") as fleet:
        fleet.wait_for("2 brokers accept connections")
        fleet.send(signal.SIGTERM)
        assert fleet.wait() == 0, fleet.lines
        assert fleet.said[-1] == "logstore: all brokers stopped"


@pytest.mark.slow
def test_compaction_in_the_background_ends_in_good_order_by_sigterm(tmp_path: Path) -> None:
    log = str(tmp_path / "log")
    with background("broker", "--url", log, "--listen", "127.0.0.1:0") as broker:
        broker.wait_for("listening on")
        broker.send(signal.SIGTERM)
        assert broker.wait() == 0
    with background("logstore.cli.main", "compact", "--every", "10m", "--url", log) as compact:
        compact.wait_for("nothing to move")
        compact.send(signal.SIGTERM)
        assert compact.wait() == 130
        assert compact.lines[-1] == "logstore: interrupted"
