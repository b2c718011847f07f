"""The `logstore` command itself: help, versions, exit codes, one line per error."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from logstore.cli import main as main_module
from logstore.cli.command import FAILED, INTERRUPTED, OK, USAGE, Command
from tests.children import child_of
from tests.logstore.cli.conftest import Command as Logstore

ROOT = Path(__file__).parents[3]
PROGRAM = [sys.executable, "-m", "logstore.cli.main"]


def run_process(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60
    )


class Entry:
    """An entry point that loads `command`."""

    def __init__(self, name: str, command: Command | Exception) -> None:
        self.name = name
        self._command = command

    def load(self) -> Command:
        if isinstance(self._command, Exception):
            raise self._command
        return self._command


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Command | Exception]]:
    """Commands that tests register, in place of those installed."""
    registered: dict[str, Command | Exception] = {}
    monkeypatch.setattr(
        main_module,
        "entry_points",
        lambda group: [Entry(name, command) for name, command in registered.items()],
    )
    yield registered


def raising(error: BaseException) -> Command:
    def run(options: object) -> int:
        raise error

    return Command("fails", lambda parser: None, run)


def test_help_names_every_command_and_imports_nothing_heavy() -> None:
    answer = subprocess.run(
        [sys.executable, "-X", "importtime", *PROGRAM[1:], "--help"],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    imported = {line.rpartition("|")[2].strip() for line in answer.stderr.splitlines()}

    assert "inspect" in answer.stdout
    assert "topics" in answer.stdout
    heavy = {"asyncio", "pyarrow", "sqlite3", "rich", "logstore.wiring.open", "pyspark"}
    assert not imported & heavy


def test_the_version_is_that_of_the_distribution(logstore: Logstore) -> None:
    answer = logstore("--version")

    assert answer.code == OK
    assert answer.out == f"logstore {version('pyspark-logstore')}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("unknown",),
        ("inspect",),
        ("inspect", "--url", "d", "segment", "1"),
        ("inspect", "--url", "d", "chain", "-1"),
        ("inspect", "--url", "d", "topic", "t", "--records", "0"),
        ("topics",),
        ("topics", "--bootstrap", "nowhere", "list"),
        ("topics", "--bootstrap", "host:70000", "list"),
        ("topics", "create", "t", "--config", "novalue"),
        ("topics", "create", "t", "--partitions", "many"),
    ],
    ids=" ".join,
)
def test_wrong_usage_ends_with_2_and_one_line(
    logstore: Logstore, arguments: tuple[str, ...]
) -> None:
    answer = logstore(*arguments)

    assert answer.code == USAGE
    assert answer.out == ""
    assert answer.err.count("\n") == 1
    assert "--help" in answer.err


def test_a_failure_ends_with_1_and_one_line_that_says_what_to_do(tmp_path: Path) -> None:
    answer = run_process("inspect", "--url", str(tmp_path))

    assert answer.returncode == FAILED
    assert answer.stdout == ""
    assert answer.stderr.startswith("logstore: no log here")
    assert answer.stderr.endswith("check the URL\n")
    assert answer.stderr.count("\n") == 1


def test_no_broker_to_ask_is_a_failure_in_one_line(logstore: Logstore) -> None:
    answer = logstore("topics", "--bootstrap", "127.0.0.1:1", "list")

    assert answer.code == FAILED
    assert "is a broker running there?" in answer.err
    assert answer.err.count("\n") == 1


def test_an_interrupt_ends_with_130(
    logstore: Logstore, commands: dict[str, Command | Exception]
) -> None:
    commands["wait"] = raising(KeyboardInterrupt())

    answer = logstore("wait")

    assert (answer.code, answer.err) == (INTERRUPTED, "logstore: interrupted\n")


def test_a_signal_reaches_a_running_command_as_130() -> None:
    program = (
        "import signal, sys\n"
        "from logstore.cli import main as m\n"
        "from logstore.cli.command import Command\n"
        "def run(options):\n"
        "    print('ready', flush=True)\n"
        "    signal.pause()\n"
        "class Entry:\n"
        "    name = 'wait'\n"
        "    def load(self): return Command('waits', lambda parser: None, run)\n"
        "m.entry_points = lambda group: [Entry()]\n"
        "sys.exit(m.main(['wait']))\n"
    )
    with child_of(
        [sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"ready\n"
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(timeout=60) == INTERRUPTED
        assert process.stderr.read() == b"logstore: interrupted\n"


def test_a_module_that_is_not_installed_is_named(
    logstore: Logstore, commands: dict[str, Command | Exception]
) -> None:
    commands["serve"] = raising(ModuleNotFoundError("No module named 'rich'", name="rich"))

    answer = logstore("serve")

    assert answer.code == FAILED
    assert "not installed: rich" in answer.err


def test_a_broken_command_does_not_keep_another_from_running(
    logstore: Logstore, commands: dict[str, Command | Exception]
) -> None:
    commands["broken"] = RuntimeError("cannot be imported")
    commands["works"] = Command("works", lambda parser: None, lambda options: OK)

    assert logstore("works").code == OK


def test_output_cut_off_by_its_reader_is_no_traceback(written: Path) -> None:
    command = [*PROGRAM, "inspect", "--url", str(written), "--json"]
    with child_of(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.wait(timeout=60) == FAILED
        assert process.stderr.read() == b""
