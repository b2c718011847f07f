"""Every planted bug is noticed by the test that its header names."""

import os

import pytest

from tools.planted import FOLDER, ROOT, RUN_TIMEOUT_S, misplaced, prove
from tools.planted_bug import PlantedBug, read_bugs


def test_every_planted_bug_finds_its_place() -> None:
    assert misplaced(read_bugs(ROOT / FOLDER)) == []


@pytest.mark.slow
@pytest.mark.timeout(2 * RUN_TIMEOUT_S + 60)
@pytest.mark.parametrize("bug", read_bugs(ROOT / FOLDER), ids=lambda bug: bug.name)
def test_a_planted_bug_is_noticed(
    bug: PlantedBug, tmp_path_factory: pytest.TempPathFactory
) -> None:
    run = tmp_path_factory.getbasetemp()
    # Processes of one parallel run have folders of their own in the folder of the run.
    notes = run.parent if "PYTEST_XDIST_WORKER" in os.environ else run
    assert not prove(bug, known_green=notes).why_not
