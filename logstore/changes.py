"""The change feed: who changes rows of topics or partitions says so, who watches reads one row.

A hint that may be lost with who changed something, so watchers read everything again now and then;
and that may be repeated. It decides nothing.
"""

from collections.abc import Sequence

from logstore.errors import ConditionFailed
from logstore.registry.store import Condition, RowAbsent, Term
from logstore.rows import CHANGE, FEED, Change, FeedRow
from logstore.steps import BackOff, GetRow, PutRow, Steps

ATTEMPTS_MAX = 20


def read_feed() -> Steps[FeedRow]:
    row = yield GetRow(CHANGE, FEED)
    return FeedRow() if row is None else FeedRow.of(row)


def publish(changes: Sequence[Change]) -> Steps[None]:
    """Tell of `changes`, which have been made. After many lost races it is left untold."""
    feed = yield from read_feed()
    for attempt in range(1, ATTEMPTS_MAX + 1):
        terms: list[Term] = [RowAbsent()]
        if feed.version:
            terms = [Condition("version", "=", feed.version)]
        try:
            yield PutRow(CHANGE, FEED, feed.with_changes(changes).row(), terms)
        except ConditionFailed as failed:
            feed = FeedRow() if failed.current is None else FeedRow.of(failed.current)
            yield BackOff(attempt)
        else:
            return
