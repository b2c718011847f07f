"""The row that names a leader changes only from the leadership that was seen (safety rule 5)."""

import pytest

from logstore.errors import ConditionFailed
from logstore.formats.partition_row import PartitionRow, partition_pk, partition_sk
from logstore.formats.topic_partition import TopicPartition
from logstore.protocol.leading.leadership import change_leader
from logstore.protocol.steps import PutRow, Steps
from logstore.testing.simulated_rows import at_once
from logstore.testing.virtual_loop import run
from tests.logstore.written import WrittenLog

KEY = TopicPartition(bytes(16), 0)
PLACE = (partition_pk(*KEY), partition_sk(*KEY))


def put(row: PartitionRow) -> Steps[None]:
    yield PutRow(*PLACE, row.row(), [])


def test_a_change_decided_from_an_older_leadership_leaves_the_row_alone() -> None:
    async def scenario() -> tuple[PartitionRow, PartitionRow]:
        written = WrittenLog()
        seen = PartitionRow.new(1, 1)
        await written.runner.run(put(seen))
        second = change_leader(KEY, seen, broker=2, chain=2, start=10, known_from=0)
        taken = await written.runner.run(second)
        late = change_leader(KEY, seen, broker=3, chain=3, start=10, known_from=0)
        with pytest.raises(ConditionFailed):
            await written.runner.run(late)
        row = at_once(written.rows.get(*PLACE))
        assert row is not None
        return taken, PartitionRow.of(row)

    taken, row = run(scenario())
    assert (row.chain, row.leader_epoch) == (taken.chain, taken.leader_epoch) == (2, 1)
