"""What waits and cannot be found: damage is reported, what changes at this moment moves later."""

from typing import cast

import pytest

from logstore.compaction.backlog import Backlog, TopicState
from logstore.compaction.commit import CommitTables
from logstore.compaction.decisions.cut import TableTopic, Waiting
from logstore.errors import Corrupt, LogstoreError
from logstore.formats.partition_row import PartitionRow
from logstore.formats.segment_ranges import SegmentRange
from logstore.formats.topic_partition import TopicPartition
from logstore.ports.clock import SystemClock
from logstore.protocol.partitions.lookup import BelowTrimPoint, NotListed
from logstore.reading.direct.reader import LogReader, PartitionView

KEY = TopicPartition(b"t" * 16, 0)


class Finding:
    """Of a `LogReader`: raises what it is given."""

    def __init__(self, error: LogstoreError) -> None:
        self.error = error

    def segment_ranges(
        self, key: TopicPartition, row: PartitionRow, start: int, end: int
    ) -> list[SegmentRange]:
        raise self.error


@pytest.mark.parametrize(
    ("error", "reported"),
    [
        (NotListed("offset is in no chain"), [Corrupt]),
        (Corrupt("offset is nowhere in its chain"), [Corrupt]),
        (BelowTrimPoint("log start was raised"), []),
    ],
    ids=["in neither tier", "not in its chain", "deleted at this moment"],
)
def test_offsets_that_neither_table_nor_chains_hold_are_reported(
    error: LogstoreError, reported: list[type[LogstoreError]]
) -> None:
    """As after another program has put the table back to an older version."""
    topic = TableTopic.of("orders", KEY.topic_id, {})
    state = TopicState(topic, None)
    state.views = {KEY: PartitionView(PartitionRow.new(1, 1), 10)}
    seen: list[LogstoreError] = []
    backlog = Backlog(
        cast(LogReader, Finding(error)),
        cast(CommitTables, None),
        SystemClock(),
        lambda _, fault: seen.append(fault),
    )

    assert backlog.segment_ranges({KEY.topic_id: state}, [Waiting(KEY, 3, 3, 10)]) == {}
    assert [type(one) for one in seen] == reported
