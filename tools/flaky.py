"""Runs failed tests once more, each alone, and tells noise from faults: for continuous integration.

A pytest plugin too: `-p tools.flaky --failed-ids=FILE` writes the ids of the tests that failed, as
JSON, when the run ends.

A test that passes alone is flaky: it is printed with its first failure, counted on a line of its
own, and does not fail the run. More than `FLAKY_MAX` of them do, and so does any test whose failure
is never noise: simulations, the model, planted bugs and series of kills play seeds that repeat.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

FLAKY_MAX = 3
FAILED_MAX = 12
"""With more failures than these nothing is run again: that is no noise."""
AGAIN_S = 900.0
NEVER_NOISE = ("tests/simulation/", "tests/model/", "tests/planted/", "_series")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--failed-ids", metavar="FILE", help="write the ids of failed tests here")


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    path = config.getoption("failed_ids")
    if path is not None:
        reports = [one for kind in ("failed", "error") for one in terminalreporter.getreports(kind)]
        ids = list(dict.fromkeys(one.nodeid for one in reports))
        Path(path).write_text(json.dumps(ids))


def read_ids(path: Path) -> list[str]:
    """Returns the ids in a file of the plugin; none if there is no file."""
    return list(json.loads(path.read_text())) if path.exists() else []


def may_be_noise(test_id: str) -> bool:
    return not any(part in test_id for part in NEVER_NOISE)


def passes_alone(test_id: str) -> bool:
    """Run one test in a process of its own, beside nothing else."""
    command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "-m", "", test_id]
    print(f"\n--- once more, alone: {test_id}", flush=True)
    try:
        return not subprocess.run(command, stdin=subprocess.DEVNULL, timeout=AGAIN_S).returncode
    except subprocess.TimeoutExpired:
        return False


def flaky_among(failed: Sequence[str], passes: Callable[[str], bool] = passes_alone) -> list[str]:
    """Returns the failed tests that are noise; none where they are too many to be."""
    if len(failed) > FAILED_MAX:
        return []
    flaky = [one for one in failed if may_be_noise(one) and passes(one)]
    return flaky if len(flaky) <= FLAKY_MAX else []
