"""Every planted bug is noticed by the test that its header names."""

from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from tools.planted import (
    FOLDER,
    ROOT,
    RUN_TIMEOUT_S,
    CaseId,
    Copy,
    copied,
    misplaced,
    passed_tests,
    prove_in,
)
from tools.planted_bug import PlantedBug, read_bugs


@pytest.fixture(scope="module")
def copy() -> Iterator[Copy]:
    with copied(ROOT) as copy:
        yield copy


@pytest.fixture(scope="module")
def passed(request: pytest.FixtureRequest) -> Collection[CaseId]:
    """Tests that pass without a bug, by the reports of other tiers of the same run."""
    return passed_tests([Path(name) for name in request.config.getoption("passed_in")])


def test_every_planted_bug_finds_its_place() -> None:
    assert misplaced(read_bugs(ROOT / FOLDER)) == []


@pytest.mark.slow
@pytest.mark.timeout(2 * RUN_TIMEOUT_S + 60)
@pytest.mark.parametrize("bug", read_bugs(ROOT / FOLDER), ids=lambda bug: bug.name)
def test_a_planted_bug_is_noticed(bug: PlantedBug, copy: Copy, passed: Collection[CaseId]) -> None:
    assert not prove_in(copy, bug, passed=passed).why_not
