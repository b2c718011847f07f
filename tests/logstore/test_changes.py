"""The change feed: what was changed is told whatever becomes of one answer."""

import pytest

from logstore.changes import UNANSWERED_MAX, publish
from logstore.errors import ConditionFailed, LogstoreError, OutcomeUnknown, Retryable
from logstore.registry.store import Condition
from logstore.rows import Change, FeedRow
from logstore.steps import GetRow, PutRow
from logstore.testing.scripted import drive

CHANGE = Change("orders", b"i" * 16)
FEED = FeedRow().with_changes([CHANGE])
AWAY = Retryable("the registry is away")
LOST = OutcomeUnknown("the registry does not answer")


@pytest.mark.parametrize("trouble", [AWAY, LOST])
def test_a_registry_that_is_away_for_a_while_is_told_when_it_is_back(
    trouble: LogstoreError,
) -> None:
    _, made = drive(publish([CHANGE]), [trouble, FEED.row(), trouble, None])
    assert [type(request) for request in made] == [GetRow, GetRow, PutRow, PutRow]
    last = made[-1]
    assert isinstance(last, PutRow)
    assert FeedRow.of(last.row).version == FEED.version + 1
    assert last.terms == [Condition("version", "=", FEED.version)]


def test_after_a_lost_race_it_is_told_behind_the_winner() -> None:
    lost = ConditionFailed("somebody was faster", FEED.row())
    _, made = drive(publish([CHANGE]), [None, lost, None])
    last = made[-1]
    assert isinstance(last, PutRow)
    assert FeedRow.of(last.row).version == FEED.version + 1


def test_a_registry_that_stays_away_is_not_asked_for_ever() -> None:
    with pytest.raises(Retryable):
        drive(publish([CHANGE]), [AWAY] * UNANSWERED_MAX)
