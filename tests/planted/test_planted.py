"""Every planted bug is noticed by the test that its header names."""

import pytest

from tools.planted import FOLDER, ROOT, RUN_TIMEOUT_S, PlantedBug, prove, read_bugs


@pytest.mark.slow
@pytest.mark.timeout(2 * RUN_TIMEOUT_S + 60)
@pytest.mark.parametrize("bug", read_bugs(ROOT / FOLDER), ids=lambda bug: bug.name)
def test_a_planted_bug_is_noticed(bug: PlantedBug) -> None:
    assert not prove(bug).why_not
