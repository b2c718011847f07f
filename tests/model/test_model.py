"""The safety rules hold in every state that can be reached within the bounds."""

import pytest

from tests.model.config import Config
from tests.model.search import search
from tests.model.searches import FAST, NORMAL

TAKEOVER = {
    "broker freezes a batch",
    "broker freezes a take entry",
    "leader begins its stretch",
    "row changes",
    "seal is stored",
    "segment is stored",
    "taker: row change is sent",
    "taker: seal is sent",
}
MUST_HAPPEN = {
    "late_answers": {"broker learns that a segment is stored"},
    "releases": {"broker freezes a release entry", "released: row change is sent"},
    "trims": {
        "checkpoint",
        "segment is deleted",
        "table end rises",
        "trim point rises",
        "void seal is stored",
    },
    "reads": {"reader gets a segment", "reader goes to the next stretch"},
    "sweeps": {"last checkpoint is deleted", "row drops its oldest stretch"},
    "starts": {"start: opening is created", "start: seals a forsaken opening"},
    "restores": {
        "all stop, registry is set back",
        "start: finds segments that the registry does not know",
    },
}


def test_two_takeovers_lose_and_double_nothing() -> None:
    prove(FAST)


@pytest.mark.slow
@pytest.mark.parametrize("config", NORMAL, ids=lambda config: config.name.replace(" ", "-"))
def test_the_rules_hold(config: Config) -> None:
    prove(config)


def prove(config: Config) -> None:
    """Nothing is wrong anywhere, and what the search is about did happen."""
    result = search(config)

    assert not result.wrong, "\n".join([result.wrong, *result.trace])
    assert result.all_answered
    expected = set(TAKEOVER)
    if config.restores and config.leader_epochs > 2:
        expected.add("taker: the registry is older than the log")
    for part, names in MUST_HAPPEN.items():
        if getattr(config, part):
            expected |= names
    assert not expected - result.happened
