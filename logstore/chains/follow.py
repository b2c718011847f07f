"""Follow a chain without owning it: its state up to the first gap or the seal, seen so far.

A follower enters at the chain's last checkpoint (safety rule 6) and reads on by GET of the next
seq. Its index rows go back to that checkpoint; when the owner checkpoints again, what that sums up
is dropped here and found there, so that memory stays bounded however long one follows.
"""

from logstore.chains.checkpoint import Checkpoint
from logstore.chains.replay import ChainState
from logstore.chains.seal import read_chain_row
from logstore.chains.walk import Sealed, read_chain_at, read_checkpoint, read_on
from logstore.index.rows import ROW_BYTES, first_row_for_seq
from logstore.rows import ChainRow
from logstore.steps import Steps

SEGMENTS_PER_ROW_READ = 64
"""How many new segments it takes until the chain's row is read again for a newer checkpoint."""


class Follower:
    """One chain as a reader knows it. `state` is at the first seq not seen yet."""

    def __init__(self, cluster_id: bytes, epoch: int) -> None:
        self.epoch = epoch
        self.is_sealed = False
        self._cluster_id = cluster_id
        self._state: ChainState | None = None
        self._row_read_at = 0

    @property
    def state(self) -> ChainState:
        assert self._state is not None, "not entered yet"
        return self._state

    @property
    def checkpoints(self) -> tuple[int, ...]:
        return tuple(self.state.checkpoints)

    def advance(self) -> Steps[int]:
        """Read what has been committed since; the number of segments that were new."""
        if self._state is None:
            row = yield from read_chain_row(self.epoch)
            self._state = yield from read_chain_at(self._cluster_id, self.epoch, row.checkpoint)
            self._row_read_at = self._state.next_seq
        if self.is_sealed:
            return 0
        before = self.state.next_seq
        self.is_sealed = isinstance((yield from read_on(self.state, width=1)), Sealed)
        if self.state.next_seq - self._row_read_at >= SEGMENTS_PER_ROW_READ:
            self._row_read_at = self.state.next_seq
            yield from self._drop_what_is_summed_up((yield from read_chain_row(self.epoch)))
        return self.state.next_seq - before

    def _drop_what_is_summed_up(self, row: ChainRow) -> Steps[None]:
        if self.state.checkpoint < row.checkpoint <= self.state.next_seq:
            front = yield from read_checkpoint(self.epoch, row.checkpoint)
            rebase(self.state, front)


def rebase(chain: ChainState, checkpoint: Checkpoint) -> None:
    """Make `chain`, which is past `checkpoint`, go on from it."""
    dropped = checkpoint.seq - chain.checkpoint
    for stretch in chain.stretches.values():
        number = first_row_for_seq(stretch.rows, checkpoint.seq)
        stretch.rows = stretch.rows[number * ROW_BYTES :]
    chain.spans = chain.spans[dropped:]
    chain.checkpoints = [*checkpoint.earlier, checkpoint.seq]
