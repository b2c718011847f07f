"""The demo end to end, with fewer flights: it works, it notices losses, it leaves nothing."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.servers.dynamodb_local import why_no_dynamodb_local
from tests.servers.locked_moto import aws_environment
from tests.servers.versitygw import why_no_versitygw
from tools.demo.local_s3 import local_s3

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("alone_with_ivy")]

ROOT = Path(__file__).parents[2]
FLIGHTS = "3000"
MARK = "TEST_RUN_OF_LOGSTORE"
TIMEOUT_S = 300
END_TIMEOUT_S = 30
LOCAL_S3 = "--local-s3"
PNG = b"\x89PNG\r\n"


class Demo:
    """Runs the demo; every process below it bears a mark in its environment."""

    def __init__(self, temporary: Path) -> None:
        self.mark = str(temporary)
        self._environment = {**os.environ, MARK: self.mark, "TMPDIR": str(temporary)}

    def start(self, *arguments: object) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-u", "-m", "tools.demo", *map(str, arguments)],
            cwd=ROOT,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: object) -> tuple[int, str, str]:
        with self.start(*arguments) as process:
            out, err = process.communicate(timeout=TIMEOUT_S)
        return process.returncode, out, err

    def left_running(self) -> list[psutil.Process]:
        """What bears the mark and does not end soon."""
        _gone, alive = psutil.wait_procs(self._processes(), timeout=END_TIMEOUT_S)
        return list(alive)

    def kill_all(self) -> None:
        for process in self._processes():
            process.kill()

    def _processes(self) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARK) == self.mark:
                    found.append(process)
            except psutil.Error:  # it is gone, or another's
                continue
        return found


def need_servers() -> None:
    if why_no_versitygw() or why_no_dynamodb_local():
        pytest.skip("a bucket needs versitygw and DynamoDB Local")


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    running = Demo(temporary)
    yield running
    running.kill_all()


def test_every_flight_arrives_and_a_file_that_goes_is_missed(demo: Demo, tmp_path: Path) -> None:
    kept = tmp_path / "kept"

    code, out, err = demo.run("--flights", FLIGHTS, "--dir", kept)

    assert (code, err) == (0, "")
    assert "every one of 3,000 flights is there exactly once" in " ".join(out.split())
    assert (kept / "flights.png").read_bytes().startswith(PNG)
    assert demo.left_running() == []

    lost = sorted((kept / "log" / "tables").rglob("partition=*/*.parquet"))[0]
    lost.unlink()

    code, out, err = demo.run("--check", kept)

    assert code == 1
    assert lost.name in err
    assert err.count("\n") == 1
    assert demo.left_running() == []


def test_on_servers_of_its_own_a_flight_that_was_not_sent_is_named(
    demo: Demo, tmp_path: Path
) -> None:
    need_servers()
    kept = tmp_path / "kept"

    code, out, err = demo.run("--flights", FLIGHTS, "--drop-one", "--dir", kept, LOCAL_S3)

    assert code == 1
    left_out = next(line for line in out.splitlines() if "not sent:" in line).partition(": ")[2]
    assert f"log: 1 missing flights: {left_out}" in err
    assert f"table: 1 missing flights: {left_out}" in err
    assert f"rewind: 1 missing flights: {left_out}" in err
    assert err.count("\n") == 1
    assert not (kept / "log").exists()
    assert demo.left_running() == []

    code, out, err = demo.run("--check", kept)

    assert (code, out) == (2, "")
    assert "ended with the servers" in err


def test_it_runs_in_a_bucket_that_can_be_looked_at_again(tmp_path: Path) -> None:
    need_servers()
    (tmp_path / "servers").mkdir()
    (tmp_path / "temporary").mkdir()
    kept = tmp_path / "kept"
    with aws_environment(), local_s3(tmp_path / "servers") as log:
        demo = Demo(tmp_path / "temporary")

        code, out, err = demo.run(
            *("--flights", FLIGHTS, "--dir", kept, "--registry", log.registry, *log.arguments)
        )

        assert (code, err) == (0, "")
        assert "every one of 3,000 flights is there exactly once" in " ".join(out.split())
        assert f"logstore inspect {log.command_line}" in out
        assert demo.left_running() == []

        code, out, err = demo.run("--check", kept)

        assert (code, err) == (0, "")


@pytest.mark.parametrize(
    ("number", "arguments"),
    [(signal.SIGINT, ()), (signal.SIGKILL, ()), (signal.SIGKILL, (LOCAL_S3,))],
    ids=["SIGINT", "SIGKILL", "SIGKILL on servers of its own"],
)
def test_nothing_is_left_running_however_it_ends(
    demo: Demo, number: signal.Signals, arguments: tuple[str, ...]
) -> None:
    if LOCAL_S3 in arguments:
        need_servers()
    with demo.start(*arguments) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "start Spark (" in line:
                process.send_signal(number)
                break
        process.stdout.read()
        code = process.wait(TIMEOUT_S)

    assert code == (130 if number == signal.SIGINT else -signal.SIGKILL)
    assert demo.left_running() == []


def test_wrong_usage_ends_at_once(demo: Demo, tmp_path: Path) -> None:
    (tmp_path / "something").touch()

    code, out, err = demo.run("--dir", tmp_path)

    assert (code, out) == (2, "")
    assert "is not empty" in err
