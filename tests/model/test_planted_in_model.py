"""Each rule broken on purpose in the model is found, with a shortest trace."""

import pytest

from tests.model.config import Bug
from tests.model.planted import FOUND_BY, SLOW
from tests.model.search import search


def test_every_planted_bug_has_a_search() -> None:
    assert set(FOUND_BY) == set(Bug)


@pytest.mark.slow
@pytest.mark.parametrize("bug", [bug for bug in Bug if bug not in SLOW], ids=lambda bug: bug.name)
def test_a_broken_rule_is_found(bug: Bug) -> None:
    find(bug)


@pytest.mark.slow
@pytest.mark.parametrize("bug", [bug for bug in Bug if bug in SLOW], ids=lambda bug: bug.name)
def test_a_broken_rule_is_found_far_away(bug: Bug) -> None:
    find(bug)


def find(bug: Bug) -> None:
    result = search(FOUND_BY[bug].with_bug(bug))

    assert result.wrong, f"not found among {result.states} states"
    assert result.trace
    assert len(result.trace) == result.depth  # breadth first: no shorter one leads there


def test_the_trace_of_a_planted_bug_tells_its_story() -> None:
    result = search(FOUND_BY[Bug.ANSWER_OUT_OF_ORDER].with_bug(Bug.ANSWER_OUT_OF_ORDER))

    assert result.wrong == "what was acknowledged or read is lost"
    assert result.trace == [
        "leader begins its stretch 0 1",
        "broker freezes a take entry 0 1",
        "broker freezes a batch 0 2 1",
        "segment is stored 0 2",
    ]
