"""Row of the change feed: the topics and partitions that changed last. Pure."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Annotated, NamedTuple

from logstore.formats.row_fields import Form, decode_row, encode_row
from logstore.ports.registry import Row

CHANGE, FEED = "change", "feed"


class FeedChange(NamedTuple):
    """A changed row: a topic's, or one of its partitions' (`partition` not -1)."""

    topic: str
    topic_id: bytes
    partition: int = -1


_TOPIC_OF = itemgetter(0, 1)
FEED_CHANGES_KEPT = 600
FEED_RUNS_KEPT = 64
"""Runs of changes of one topic. With names of 20 letters no more than 7 KB in all, and about 3 KB
after a takeover in one topic: watchers read all of it all the time, and pay by 4 KB."""


def _pack(changes: Sequence[FeedChange]) -> str:
    runs = [
        (topic, topic_id.hex(), [number for _, _, number in run])
        for (topic, topic_id), run in groupby(changes, key=_TOPIC_OF)
    ]
    return json.dumps(runs, separators=(",", ":"))


def _unpack(text: str) -> tuple[FeedChange, ...]:
    return tuple(
        FeedChange(str(topic), bytes.fromhex(topic_id), int(number))
        for topic, topic_id, numbers in json.loads(text)
        # A number by itself: an earlier version wrote it.
        for number in (numbers if isinstance(numbers, list) else [numbers])
    )


_CHANGES = Form(str, _pack, _unpack)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedRow:
    """The latest changes of topics and partitions, a hint for watchers.

    `version` counts all changes there ever were; `changes` are the last of them.
    """

    version: int = 0
    changes: Annotated[tuple[FeedChange, ...], _CHANGES] = ()

    def row(self) -> Row:
        return encode_row(self)

    @staticmethod
    def of(row: Row) -> "FeedRow":
        return decode_row(FeedRow, row)

    def with_changes(self, changes: Sequence[FeedChange]) -> "FeedRow":
        kept = (*self.changes, *changes)[-FEED_CHANGES_KEPT:]
        runs = [len(list(run)) for _, run in groupby(kept, key=_TOPIC_OF)]
        dropped = sum(runs[:-FEED_RUNS_KEPT])
        return FeedRow(version=self.version + len(changes), changes=kept[dropped:])

    def since(self, version: int) -> Sequence[FeedChange] | None:
        """Changes after the first `version` ones; None: too long ago, or of another feed."""
        count = self.version - version
        if not 0 <= count <= len(self.changes):
            return None
        return self.changes[len(self.changes) - count :]
