"""The change feed: what was changed is published whatever becomes of one answer."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.errors import ConditionFailed, LogstoreError, OutcomeUnknown, Retryable
from logstore.formats.feed_row import FEED_CHANGES_KEPT, FEED_RUNS_KEPT, FeedChange, FeedRow
from logstore.ports.registry import Comparison
from logstore.protocol.rows.changes import UNANSWERED_MAX, publish
from logstore.protocol.steps import GetRow, PutRow
from logstore.testing.scripted import drive

CHANGE = FeedChange("orders", b"i" * 16)
FEED = FeedRow().with_changes([CHANGE])
AWAY = Retryable("the registry is away")
LOST = OutcomeUnknown("the registry does not answer")


@pytest.mark.parametrize("trouble", [AWAY, LOST])
def test_a_registry_that_is_away_for_a_while_is_updated_when_it_is_back(
    trouble: LogstoreError,
) -> None:
    _, made = drive(publish([CHANGE]), [trouble, FEED.row(), trouble, None])
    assert [type(request) for request in made] == [GetRow, GetRow, PutRow, PutRow]
    last = made[-1]
    assert isinstance(last, PutRow)
    assert FeedRow.of(last.row).version == FEED.version + 1
    assert last.conditions == [Comparison("version", "=", FEED.version)]


def test_after_a_lost_race_it_is_reported_behind_the_winner() -> None:
    lost = ConditionFailed("another was faster", FEED.row())
    _, made = drive(publish([CHANGE]), [None, lost, None])
    last = made[-1]
    assert isinstance(last, PutRow)
    assert FeedRow.of(last.row).version == FEED.version + 1


def test_a_registry_that_stays_away_is_not_asked_for_ever() -> None:
    with pytest.raises(Retryable):
        drive(publish([CHANGE]), [AWAY] * UNANSWERED_MAX)


changes = st.builds(
    lambda topic, partition: FeedChange(topic, topic.encode() * 16, partition),
    st.sampled_from("abc"),
    st.integers(-1, 3),
)


@given(st.lists(st.lists(changes, max_size=8), max_size=8))
def test_notifications_are_heard_in_their_order(reported: list[list[FeedChange]]) -> None:
    feed = FeedRow()
    for some in reported:
        before = feed.version
        feed = FeedRow.of(feed.with_changes(some).row())
        assert feed.since(before) == tuple(some)
    assert feed.since(0) == tuple(change for some in reported for change in some)


def test_a_takeover_of_many_partitions_is_heard_one_by_one_in_a_small_row() -> None:
    many = [FeedChange("orders", b"i" * 16, number) for number in range(FEED_CHANGES_KEPT)]
    row = FEED.with_changes(many).row()
    assert FeedRow.of(row).since(FEED.version) == tuple(many)
    assert len(str(row["changes"])) < 4096


def test_changes_of_many_topics_are_not_all_kept_since_every_read_would_pay_for_them() -> None:
    several = [FeedChange(f"topic-{number:04}", b"i" * 16, 0) for number in range(FEED_RUNS_KEPT)]
    feed = FEED.with_changes(several)
    assert feed.since(FEED.version) == tuple(several)
    assert feed.since(0) is None
    assert len(str(feed.row()["changes"])) < 4096


def test_a_feed_that_an_earlier_version_wrote_is_heard() -> None:
    old = json.dumps([["orders", CHANGE.topic_id.hex(), -1], ["orders", CHANGE.topic_id.hex(), 2]])
    feed = FeedRow.of({"version": 2, "changes": old})
    assert feed.since(0) == (CHANGE, CHANGE._replace(partition=2))
