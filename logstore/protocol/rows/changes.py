"""The change feed: writers of topic or partition rows publish changes in one row, for watchers.

A hint: it is lost if its writer dies, so watchers reread all rows from time to time, and it may be
repeated. No decision depends on it.
"""

from collections.abc import Sequence

from logstore.errors import ConditionFailed, Unavailable
from logstore.formats.feed_row import CHANGE, FEED, FeedChange, FeedRow
from logstore.ports.registry import Comparison, Condition, RowAbsent
from logstore.protocol.steps import BackOff, GetRow, PutRow, Steps

ATTEMPTS_MAX = 20
UNANSWERED_MAX = 3
"""Calls, each of which takes as long as a registry is waited for."""


def read_feed() -> Steps[FeedRow]:
    row = yield GetRow(CHANGE, FEED)
    return FeedRow() if row is None else FeedRow.of(row)


def publish(changes: Sequence[FeedChange]) -> Steps[int | None]:
    """Publish `changes`, which have been made. Returns the version of the feed that has them; None
    after many lost races.

    Without it watchers notice the changes only after a minute, so a registry that does not answer
    is retried for about as long. Then raises the registry's error.
    """
    feed: FeedRow | None = None
    unanswered = 0
    for attempt in range(1, ATTEMPTS_MAX + 1):
        try:
            feed = feed or (yield from read_feed())
            after = feed.with_changes(changes)
            yield PutRow(CHANGE, FEED, after.row(), _as_it_was(feed))
        except ConditionFailed as failed:
            feed = FeedRow() if failed.current is None else FeedRow.of(failed.current)
        except Unavailable:
            unanswered += 1
            if unanswered == UNANSWERED_MAX:
                raise
        else:
            return after.version
        yield BackOff(attempt)
    return None


def begin_feed_again() -> Steps[None]:
    """Have every watcher read all rows now: a feed of a later version that names no changes."""
    feed = yield from read_feed()
    for attempt in range(1, ATTEMPTS_MAX + 1):
        try:
            again = FeedRow(version=feed.version + 1)
            yield PutRow(CHANGE, FEED, again.row(), _as_it_was(feed))
        except ConditionFailed as failed:
            feed = FeedRow() if failed.current is None else FeedRow.of(failed.current)
        else:
            return
        yield BackOff(attempt)


def _as_it_was(feed: FeedRow) -> list[Condition]:
    return [Comparison("version", "=", feed.version)] if feed.version else [RowAbsent()]
