"""The change feed: who changes rows of topics or partitions says so, who watches reads one row.

A hint that may be lost with who changed something, so watchers read everything again now and then;
and that may be repeated. It decides nothing.
"""

from collections.abc import Sequence

from logstore.errors import ConditionFailed, Unavailable
from logstore.formats.rows import CHANGE, FEED, Change, FeedRow
from logstore.ports.registry import Condition, RowAbsent, Term
from logstore.protocol.steps import BackOff, GetRow, PutRow, Steps

ATTEMPTS_MAX = 20
UNANSWERED_MAX = 3
"""Calls, each of which takes as long as a registry is waited for."""


def read_feed() -> Steps[FeedRow]:
    row = yield GetRow(CHANGE, FEED)
    return FeedRow() if row is None else FeedRow.of(row)


def publish(changes: Sequence[Change]) -> Steps[None]:
    """Tell of `changes`, which have been made. After many lost races it is left untold.

    Whoever would hear of them would wait for a minute, so a registry that does not answer is asked
    again, for about as long. Raises as it does in the end.
    """
    feed: FeedRow | None = None
    unanswered = 0
    for attempt in range(1, ATTEMPTS_MAX + 1):
        try:
            feed = feed or (yield from read_feed())
            yield PutRow(CHANGE, FEED, feed.with_changes(changes).row(), _as_it_was(feed))
        except ConditionFailed as failed:
            feed = FeedRow() if failed.current is None else FeedRow.of(failed.current)
        except Unavailable:
            unanswered += 1
            if unanswered == UNANSWERED_MAX:
                raise
        else:
            return
        yield BackOff(attempt)


def _as_it_was(feed: FeedRow) -> list[Term]:
    return [Condition("version", "=", feed.version)] if feed.version else [RowAbsent()]
