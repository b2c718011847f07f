"""State that the next leader of a partition recovers: that at the end of the epoch range before.

A partition's row says which epoch ranges there were. An epoch range without a committed
leadership-begin entry is empty and passed over; the newest one with one ended where its chain was
sealed, or where it was released (safety rules 4 and 5), and there the state is.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from logstore.errors import Corrupt, LogstoreError, Retryable
from logstore.formats.chain_row import ChainStatus
from logstore.formats.chain_state import ChainState, EpochKey, EpochRange
from logstore.formats.partition_row import PartitionRow
from logstore.formats.partition_state import PartitionState
from logstore.formats.topic_partition import TopicPartition
from logstore.protocol.chain.seal import read_chain_row, seal_chain
from logstore.protocol.chain.walk import reach_chain, read_on
from logstore.protocol.rows.metadata import read_partition_row
from logstore.protocol.steps import BackOff, Steps

READS_MAX = 10

Known = Callable[[int], ChainState | None]
"""Replayed prefix of a chain, if a follower has one; replay continues from it and mutates it."""


@dataclass(slots=True)
class Chains:
    """Chains read once for many partitions; one that cannot be read is not tried for each."""

    cluster_id: bytes
    sealer: int
    known: Known
    _read: dict[int, ChainState] = field(default_factory=dict)
    _over: set[int] = field(default_factory=set)
    _failed: dict[int, LogstoreError] = field(default_factory=dict)

    def give(self, epoch: int, sealed: ChainState) -> None:
        """Add a chain that was replayed up to its seal."""
        self._read[epoch] = sealed
        self._over.add(epoch)

    def is_over(self, epoch: int) -> bool:
        """Whether it was read up to its seal: nothing will come after that."""
        return epoch in self._over

    def so_far(self, epoch: int) -> ChainState | None:
        return self._read.get(epoch)

    def at_end(self, epoch: int) -> Steps[ChainState]:
        """A chain that is sealed or about to be, up to its seal; an open one up to its tail."""
        if epoch in self._over:
            return self._read[epoch]
        if epoch in self._failed:
            raise self._failed[epoch]
        try:
            yield from self._read_on(epoch)
        except LogstoreError as error:
            self._read.pop(epoch, None)  # it was only partly applied
            self._failed[epoch] = error
            raise
        return self._read[epoch]

    def _read_on(self, epoch: int) -> Steps[None]:
        row = yield from read_chain_row(epoch)
        known = self._read.get(epoch) or self.known(epoch)
        match row.status:
            case ChainStatus.FENCED:
                sealed = yield from seal_chain(self.cluster_id, epoch, self.sealer, known)
                self.give(epoch, sealed.state)
            case ChainStatus.SEALED:
                self.give(epoch, (yield from reach_chain(self.cluster_id, epoch, row.seal, known)))
            case ChainStatus.OPEN:
                chain = yield from reach_chain(self.cluster_id, epoch, row.checkpoint, known)
                yield from read_on(chain)
                self._read[epoch] = chain


def recover(
    cluster_id: bytes,
    sealer: int,
    wanted: Mapping[TopicPartition, PartitionRow],
    known: Known = lambda epoch: None,
) -> Steps[Mapping[TopicPartition, PartitionState | LogstoreError]]:
    """The state that the new leader of each partition, named by its row, begins with.

    A partition whose state cannot be found has the error that says why.
    """
    chains = Chains(cluster_id, sealer, known)
    states: dict[TopicPartition, PartitionState | LogstoreError] = {}
    for key, row in wanted.items():
        try:
            states[key] = yield from _recover_one(chains, key, row)
        except LogstoreError as error:
            states[key] = error
    return states


def _recover_one(chains: Chains, key: TopicPartition, row: PartitionRow) -> Steps[PartitionState]:
    start = row.epoch_ranges[-1].start
    before = yield from newest_epoch_range(chains, key, row)
    if before is None:
        return PartitionState()
    epoch_range, _ = before
    if epoch_range.end != start:
        raise Corrupt(
            f"epoch ranges do not meet: {key} "
            f"leader_epoch={row.leader_epoch} start={start} before_ends={epoch_range.end}"
        )
    return epoch_range.state


def newest_epoch_range(
    chains: Chains, key: TopicPartition, row: PartitionRow
) -> Steps[tuple[EpochRange, int] | None]:
    """The newest epoch range before the row's current one that was begun, and its leader epoch.

    None: the partition has never held anything. Not for several at once on the same `chains`.
    """
    for ref in reversed(row.epoch_ranges[:-1]):
        epoch_range = yield from _ended_epoch_range(
            chains, EpochKey(*key, ref.leader_epoch), ref.chain
        )
        if epoch_range is not None:
            return epoch_range, ref.leader_epoch
    if row.epoch_ranges[-1].start:
        raise Corrupt(
            f"no chain holds the epoch ranges of a partition: {key} "
            f"start={row.epoch_ranges[-1].start}; run logstore fsck"
        )
    return None


def _ended_epoch_range(chains: Chains, key: EpochKey, epoch: int) -> Steps[EpochRange | None]:
    """An epoch range that is over, None if it was never begun.

    On an open chain it is over by a committed release, so that must be there to be read; where it
    is not, the chain is being sealed just now. Or the partition has been led elsewhere since, its
    row lists the range no more, and the chain forgot it: raises `Retryable`.
    """
    for attempt in range(1, READS_MAX + 1):
        chain = chains.so_far(epoch)
        epoch_range = None if chain is None else chain.epoch_ranges.get(key)
        if epoch_range is not None and epoch_range.released:
            return epoch_range
        chain = yield from chains.at_end(epoch)
        epoch_range = chain.epoch_ranges.get(key)
        if chains.is_over(epoch) or (epoch_range is not None and epoch_range.released):
            return epoch_range
        if (yield from read_chain_row(epoch)).status is not ChainStatus.OPEN:
            return (yield from chains.at_end(epoch)).epoch_ranges.get(key)
        yield BackOff(attempt)
    row = yield from read_partition_row(key.topic_id, key.partition)
    if row is not None and key.leader_epoch not in {ref.leader_epoch for ref in row.epoch_ranges}:
        raise Retryable(
            f"the partition's row has dropped an epoch range that was looked for; look again: {key}"
        )
    raise Corrupt(
        "an epoch range has ended by its partition's row and continues in its chain: "
        f"epoch={epoch} {key}"
    )
