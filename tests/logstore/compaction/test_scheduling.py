"""The scheduling examples run, and move what is due."""

import ast
import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tests.logstore.compaction.world import World

EXAMPLES = Path(__file__).parents[3] / "examples" / "scheduling"


@pytest.fixture
def due(world: World) -> World:
    """A log whose topic is due."""
    world.create("orders", 1, {"logstore.table.freshness.ms": "0"})
    world.fill()
    return world


def run_in_shell(command: str, world: World, tmp_path: Path) -> str:
    """Standard output of a shell command that finds `logstore` and LOG."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        env={**os.environ, "PATH": path, "LOG": str(world.directory)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_line_of_the_crontab_runs(due: World, tmp_path: Path) -> None:
    lines = (EXAMPLES / "crontab").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith("*/5")]
    fields = line.split(maxsplit=5)
    command = re.sub(r"/var/log/", f"{tmp_path}/", fields[5])

    run_in_shell(command, due, tmp_path)

    (reported,) = (tmp_path / "logstore-compact.jsonl").read_text().splitlines()
    assert json.loads(reported)["rows"] == 120
    due.check()


@pytest.mark.slow
def test_the_command_of_the_airflow_dag_runs(
    due: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOG", str(due.directory))
    path = EXAMPLES / "airflow_dag.py"
    ast.parse(path.read_text())

    reported = run_in_shell(runpy.run_path(str(path))["COMMAND"], due, tmp_path)

    assert json.loads(reported)["rows"] == 120
    due.check()
