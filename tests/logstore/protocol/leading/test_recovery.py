"""What the next leaders inherit: a chain is read once for all of them, and up to its end."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import pytest

from logstore.errors import Corrupt, LogstoreError, Retryable
from logstore.formats.chain_row import ChainStatus
from logstore.formats.chain_state import ChainState
from logstore.formats.partition_row import PartitionRow, partition_pk, partition_sk
from logstore.formats.partition_state import PartitionState, unpack_producer
from logstore.formats.topic_partition import TopicPartition
from logstore.protocol.chain.follow import Follower, copy_of
from logstore.protocol.chain.seal import seal_chain
from logstore.protocol.leading.recovery import Chains, newest_epoch_range, recover
from logstore.protocol.leading.takeover import Successor, take_over
from logstore.protocol.rows.metadata import read_partition_rows
from logstore.protocol.steps import GetRow, Request, Steps
from logstore.testing.virtual_loop import EPOCH_MS, run
from tests.golden.samples import CLUSTER_ID, EPOCH, TOPIC_ID
from tests.logstore.protocol.built import BuiltChain, open_chain_row
from tests.logstore.written import WrittenLog

T = TypeVar("T")
SEALER, SUCCESSOR_CHAIN, LOST_CHAIN = 2, 90, 91
KEY = TopicPartition(TOPIC_ID, 0)


def counted(steps: Steps[T], made: list[Request]) -> Steps[T]:
    """The same steps; `made` has what they asked for."""
    answer: Any = None
    error: LogstoreError | None = None
    while True:
        try:
            request = steps.send(answer) if error is None else steps.throw(error)
        except StopIteration as end:
            result: T = end.value
            return result
        made.append(request)
        answer, error = None, None
        try:
            answer = yield request
        except LogstoreError as failed:
            error = failed


@dataclass
class DeadBroker:
    """A log whose only broker died; `followed` is its chain as it stood before the last writes."""

    written: WrittenLog
    cluster_id: bytes
    epoch: int
    followed: ChainState
    ends: dict[TopicPartition, int] = field(default_factory=dict)

    def run(self, steps: Steps[T]) -> T:
        return run(self.written.runner.run(steps))

    def known(self, epoch: int) -> ChainState | None:
        return copy_of(self.followed) if epoch == self.epoch else None

    def named(self, chain: int = SUCCESSOR_CHAIN) -> dict[TopicPartition, PartitionRow]:
        """Rows as a takeover would write them, for an heir whose chain this is."""
        rows = self.run(read_partition_rows())
        return {
            key: row.taken_by(broker=2, chain=chain, start=self.ends[key])
            for key, row in rows.items()
        }


def died(partitions: int, *, is_sealed: bool = False) -> DeadBroker:
    async def life() -> DeadBroker:
        written = WrittenLog()
        async with written.life(clean=False) as log:
            topic = await log.create_topic("orders", partitions, {})
            follower = Follower(log.cluster_id, log.epoch)
            for sequence in range(2):
                if sequence:
                    await written.runner.run(follower.advance())
                for leader in topic.leaders.values():
                    await written.write(
                        log,
                        leader,
                        [EPOCH_MS] * 3,
                        producer_id=leader.partition,
                        producer_epoch=0,
                        base_sequence=3 * sequence,
                    )
        ends = {TopicPartition(topic.topic_id, number): 6 for number in range(partitions)}
        return DeadBroker(written, log.cluster_id, log.epoch, follower.state, ends)

    dead = run(life())
    if is_sealed:
        successor = Successor(SEALER, SUCCESSOR_CHAIN)
        dead.run(take_over(dead.cluster_id, dead.epoch, SEALER, lambda *_: successor))
    else:
        dead.run(seal_chain(dead.cluster_id, dead.epoch, SEALER))
    return dead


def producers_of(
    found: Mapping[TopicPartition, PartitionState | LogstoreError],
) -> list[list[tuple[int, int]]]:
    """By partition: each producer's id and last sequence."""
    states = [state for state in found.values() if isinstance(state, PartitionState)]
    assert len(states) == len(found), found
    return [
        [
            (one, unpack_producer(packed).batches[-1].last_sequence)
            for one, packed in state.producers.items()
        ]
        for state in states
    ]


@pytest.mark.parametrize("is_sealed", [False, True])
@pytest.mark.parametrize("is_followed", [False, True])
def test_all_of_a_chain_is_inherited_for_the_price_of_one(
    is_sealed: bool, is_followed: bool
) -> None:
    row_reads = []
    for partitions in (1, 40):
        dead, made = died(partitions, is_sealed=is_sealed), list[Request]()
        wanted = dead.run(read_partition_rows()) if is_sealed else dead.named()
        known = dead.known if is_followed else lambda epoch: None
        found = dead.run(counted(recover(dead.cluster_id, SEALER, wanted, known), made))

        assert producers_of(found) == [[(number, 5)] for number in range(partitions)]
        row_reads.append(sum(isinstance(request, GetRow) for request in made))
    assert row_reads[0] == row_reads[1]


def test_a_chain_that_cannot_be_read_is_tried_once_and_the_others_are_inherited() -> None:
    dead, made = died(6), list[Request]()
    wanted = dead.named()
    lost = list(wanted)[::2]
    for key in lost:
        row = PartitionRow.new(3, LOST_CHAIN)
        wanted[key] = row.taken_by(broker=2, chain=SUCCESSOR_CHAIN, start=5)
    found = dead.run(counted(recover(dead.cluster_id, SEALER, wanted), made))

    assert {key for key, state in found.items() if isinstance(state, LogstoreError)} == set(lost)
    reads = [request.sk for request in made if isinstance(request, GetRow)]
    assert sum(int(sk) == LOST_CHAIN for sk in reads) == 1
    again = dead.run(counted(recover(dead.cluster_id, SEALER, wanted), made))
    assert again.keys() == found.keys()
    reads = [request.sk for request in made if isinstance(request, GetRow)]
    assert sum(int(sk) == LOST_CHAIN for sk in reads) == 2


def released_and_taken_again() -> tuple[BuiltChain, PartitionRow, PartitionRow]:
    """An open chain that led a partition twice and released it once; the rows after each."""
    chain = BuiltChain()
    chain.register(open_chain_row())
    chain.add_opening()
    chain.add_take()
    chain.add_batches(3)
    chain.add_release()
    row = PartitionRow.new(7, EPOCH).taken_by(broker=2, chain=SUCCESSOR_CHAIN, start=3)
    chain.add_take(leader_epoch=2)
    chain.add_batches(4, leader_epoch=2)
    again = row.taken_by(broker=7, chain=EPOCH, start=3)
    return chain, row, again.taken_by(broker=2, chain=SUCCESSOR_CHAIN, start=12)


def test_a_chain_that_was_open_when_it_was_read_first_is_read_on() -> None:
    chain, released, later = released_and_taken_again()
    chains = Chains(CLUSTER_ID, SEALER, lambda epoch: None)
    perform = chain.runner.run
    first = run(perform(newest_epoch_range(chains, KEY, released)))
    assert first is not None
    assert (first[0].end, first[1]) == (3, 0)
    chain.add_batches(5, leader_epoch=2)
    chain.register(replace(chain.chain_row(), status=ChainStatus.FENCED))
    second = run(perform(newest_epoch_range(chains, KEY, later)))

    assert second is not None
    assert (second[0].end, second[1]) == (12, 2)


def test_a_release_that_was_read_is_not_asked_for_again() -> None:
    chain, released, _ = released_and_taken_again()
    chains, made = Chains(CLUSTER_ID, SEALER, lambda epoch: None), list[Request]()
    for _ in range(3):
        run(chain.runner.run(counted(newest_epoch_range(chains, KEY, released), made)))

    assert sum(isinstance(request, GetRow) for request in made) == 1


def test_an_epoch_range_that_its_row_dropped_in_the_midst_is_looked_for_again() -> None:
    """The partition was led elsewhere since, and the open chain forgot what no row lists."""
    chain, _, later = released_and_taken_again()
    find = newest_epoch_range(Chains(CLUSTER_ID, SEALER, lambda epoch: None), KEY, later)
    newest = replace(later, epoch_ranges=later.epoch_ranges[-1:])
    chain.set_row(partition_pk(*KEY), partition_sk(*KEY), newest.row())
    with pytest.raises(Retryable, match="look again"):
        run(chain.runner.run(find))

    find = newest_epoch_range(Chains(CLUSTER_ID, SEALER, lambda epoch: None), KEY, later)
    chain.set_row(partition_pk(*KEY), partition_sk(*KEY), later.row())
    with pytest.raises(Corrupt, match="continues in its chain"):
        run(chain.runner.run(find))


def test_a_chain_that_failed_half_way_is_not_inherited_from() -> None:
    chain, released, later = released_and_taken_again()
    chains = Chains(CLUSTER_ID, SEALER, lambda epoch: None)
    perform = chain.runner.run
    run(perform(newest_epoch_range(chains, KEY, released)))
    chain.register(replace(chain.chain_row(), status=ChainStatus.FENCED))
    builder = chain.builder()
    chain.with_batch(builder, 1, 2)
    chain.with_batch(builder, 1, 2, skip=1)
    chain.add(chain.frozen(builder))
    for row in (later, released):
        with pytest.raises(Corrupt, match="not dense"):
            run(perform(newest_epoch_range(chains, KEY, row)))
