"""README.md does what it says: its commands and its Python, as pasted, for a user of the wheel.

The environment is not activated, the folder is not the checkout, and `python3` of the PATH has
none of our packages: so it is for most users. Only ports are others than README's. Python is run as
in a notebook, which asks more than a script does.
"""

import os
import re
import shlex
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.scenarios.harness.installed_wheel import (
    LIMIT_S,
    ROOT,
    Installed,
    built_wheel,
    call,
    uv,
)
from tests.scenarios.harness.process import Process
from tests.servers.child import free_neighbours
from tests.servers.short_java import JAVA_OPTIONS

ERRORS = ROOT / "docs/operations/errors.md"
CELL = re.compile(r"^```(sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
WHEEL, CHECKOUT, BARE = "wheel", "wheel/source", "bare"
CODEC = Path("logstore/records/native/_codec.*")
PROGRAM = ".venv/bin/logstore"
SERVERS = {"serve": " listening on ", "dev": r"^logstore: 3 brokers accept connections$"}
ASKS_A_BROKER = {"topics", "groups"}
ALL_STOPPED = {"restore"}
KAFKA_PORT, HTTP_PORT, BROKERS = 9092, 9644, 3
SESSION = "SparkSession.builder"
PRODUCER = "Producer("
PLAIN = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
spark.read.format("logstore").option("path", "./data").option("subscribe", "orders").load().show()
"""
COUNT = "print('rows:', orders.count())\n"
NOTEBOOK = """
import asyncio, sys
async def run_cells():
    names = {"__name__": "__main__"}
    for cell in sys.argv[1:]:
        exec(compile(cell, "cell", "exec"), names)
asyncio.run(run_cells())
"""
"""Cells as a kernel of a notebook runs them: each by itself, in a process whose event loop runs."""
COMMANDS = [
    *("serve", "topics", "dev", "topics", "topics", "groups", "groups", "topics", "topics"),
    *("compact", "inspect", "inspect", "inspect", "top", "doctor", "fsck", "gc", "restore", "cost"),
]
"""Those of README that run on the directory of its first steps, in its order."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.timeout(2 * LIMIT_S + 600),  # it may wait for the other tests of this fixture
    pytest.mark.usefixtures("alone_with_ivy"),
]


def cells() -> Iterator[tuple[str, str]]:
    """Yields language and text of each cell of README.md, in order."""
    for found in CELL.finditer((ROOT / "README.md").read_text()):
        yield found[1], found[2]


@dataclass
class Reader:
    """A user who pastes README into terminals, in a folder with `.venv`, with ports of its own."""

    folder: Path
    running: ExitStack
    kafka_port: int = field(default_factory=lambda: free_neighbours(BROKERS))
    http_port: int = field(default_factory=lambda: free_neighbours(BROKERS))
    server: Process | None = None
    commands: list[str] = field(default_factory=list)
    producer: str = ""
    session: str = ""

    def here(self, text: str) -> str:
        """Returns a cell with this reader's ports in place of README's."""
        for ours, theirs in ((KAFKA_PORT, self.kafka_port), (HTTP_PORT, self.http_port)):
            for n in range(BROKERS):
                text = re.sub(rf"\b{ours + n}\b", str(theirs + n), text)
        return text

    def variables(self) -> dict[str, str]:
        java = " ".join(JAVA_OPTIONS)
        return {
            "PATH": f"{self.folder / BARE / 'bin'}:{os.environ['PATH']}",
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_SUBMIT_OPTS": java,
            "SPARK_LAUNCHER_OPTS": java,
        }

    def paste_commands(self, cell: str) -> None:
        for line in self.here(cell).splitlines():
            if line.startswith(PROGRAM):
                words = shlex.split(line, comments=True)
                self.commands.append(words[1])
                self.run(words)

    def run(self, words: list[str]) -> None:
        name = words[1]
        if name in SERVERS:
            self.serve(words)
            return
        if name in ALL_STOPPED:
            self.stop()
        if name in ASKS_A_BROKER:  # README's reader has one at the port that is assumed
            words = [*words, "--bootstrap", f"127.0.0.1:{self.kafka_port}"]
        if name == "top":
            answer = call(*words, "--once", where=self.folder, **self.variables())
            assert answer.startswith(
                f"{BROKERS} brokers, 1 controller, 0 partitions without leader, "
            )
            return
        call(*words, where=self.folder, **self.variables())

    def serve(self, words: list[str]) -> None:
        self.stop()
        if words[1] == "serve":
            words = [*words, "--listen", f"127.0.0.1:{self.kafka_port}"]
        program, *arguments = words
        server = Process(
            arguments, program=[program], source=self.folder, environment=self.variables()
        )
        self.server = self.running.enter_context(server)
        self.server.wait_for(SERVERS[words[1]])

    def stop(self) -> None:
        """Ctrl-C, as README says."""
        if self.server is not None:
            self.server.send(signal.SIGINT)
            assert self.server.wait() == 0, self.server.lines
        self.server = None

    def paste_python(self, cell: str) -> str:
        """Returns what it prints.

        A cell that makes a session is held until another needs the session: by then half of the
        records are in the table alone, and half, of the producer run again, in the log.
        """
        cell = self.here(cell)
        if SESSION in cell:
            self.session = cell
            return ""
        if "(spark" in cell:
            self.python(self.producer)
            return self.python(NOTEBOOK, self.session, cell, COUNT)
        if PRODUCER in cell:
            self.producer = cell
        return self.python(NOTEBOOK, cell)

    def python(self, program: str, *arguments: str, where: str = ".") -> str:
        python = str(self.folder / ".venv/bin/python")
        folder = self.folder / where
        return call(python, "-c", program, *arguments, where=folder, **self.variables())


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with what a user installs in `.venv`, a Python without it, and a checkout."""
    folder = tmp_path_factory.mktemp("home")
    (folder / WHEEL).mkdir()
    wheel = built_wheel(folder / WHEEL)
    Installed.of(wheel, folder / ".venv", "[broker,spark]", "confluent-kafka", "duckdb")
    call(uv(), "venv", "--quiet", "--python", sys.executable, str(folder / BARE), where=folder)
    (codec,) = (folder / ".venv").glob(f"lib/python*/site-packages/{CODEC}")
    shutil.copy(codec, folder / CHECKOUT / CODEC.parent)  # as set-up builds it there
    yield folder
    shutil.rmtree(folder)  # a gigabyte


@pytest.fixture
def reader(home: Path) -> Iterator[Reader]:
    with ExitStack() as running:
        yield Reader(home, running)


def test_each_cell_runs_as_pasted_and_finds_what_the_one_before_left(reader: Reader) -> None:
    printed = []
    for language, cell in cells():
        if language == "sh":
            reader.paste_commands(cell)
        else:
            printed.append(reader.paste_python(cell))

    assert reader.commands == COMMANDS
    produced, held, by_duckdb, consumed, by_spark = printed
    assert (produced, held) == ("", "")
    assert "count_star()" in by_duckdb
    assert len(consumed.splitlines()) == 1000
    assert "|customer " in by_spark
    assert by_spark.endswith("rows: 2000\n")


@pytest.mark.parametrize(
    ("where", "message"),
    [
        (".", "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: logstore"),
        (CHECKOUT, "No module named 'pyarrow'"),
    ],
)
def test_a_session_as_spark_makes_it_fails_here_with_what_the_page_of_errors_explains(
    reader: Reader, where: str, message: str
) -> None:
    with pytest.raises(AssertionError) as failed:
        reader.python(PLAIN, where=where)
    assert message in str(failed.value)
    assert f"`{message}`" in ERRORS.read_text()
