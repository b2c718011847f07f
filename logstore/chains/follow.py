"""Follow a chain without owning it: its state up to the first gap or the seal, seen so far.

A follower enters at the chain's last checkpoint (safety rule 6) and reads on by GET of the next
seq. Its index rows go back to that checkpoint; when the owner checkpoints again, what that sums up
is dropped here and found there, so that memory stays bounded however long one follows.
"""

from logstore.chains.checkpoint import rebase
from logstore.chains.replay import ChainState, Stretch
from logstore.chains.seal import read_chain_row
from logstore.chains.state import PartitionState, Producer
from logstore.chains.walk import (
    MissingPiece,
    Sealed,
    Seen,
    read_chain_at,
    read_checkpoint,
    read_on,
)
from logstore.rows import ChainRow
from logstore.steps import Steps

SEGMENTS_PER_ROW_READ = 64
"""How many new segments it takes until the chain's row is read again for a newer checkpoint."""


class Follower:
    """One chain as a reader knows it. `state` is at the first seq not seen yet."""

    def __init__(self, cluster_id: bytes, epoch: int) -> None:
        self.epoch = epoch
        self.is_sealed = False
        self.entered_count = 0
        """How often it was entered: what was passed over in between was seen by nobody."""
        self._cluster_id = cluster_id
        self._state: ChainState | None = None
        self._row_read_at = 0

    @property
    def is_entered(self) -> bool:
        return self._state is not None

    @property
    def state(self) -> ChainState:
        assert self._state is not None, "not entered yet"
        return self._state

    @property
    def checkpoints(self) -> tuple[int, ...]:
        return tuple(self.state.checkpoints)

    def advance(
        self, *, width: int = 1, segments_max: int | None = None, seen: Seen | None = None
    ) -> Steps[int]:
        """Read what has been committed since; the number of segments that were new.

        At most `segments_max`, `width` at a time at first; entering reads all there is.
        """
        if self._state is None:
            yield from self._enter((yield from read_chain_row(self.epoch)))
            return self.state.next_seq - self._row_read_at
        if self.is_sealed:
            return 0
        before = self.state.next_seq
        try:
            found = yield from read_on(
                self.state, width=width, segments_max=segments_max, seen=seen
            )
        except MissingPiece:
            row = yield from read_chain_row(self.epoch)
            if row.checkpoint <= self.state.next_seq:
                raise
            yield from self._enter(row)
            return self.state.next_seq - before
        self.is_sealed = isinstance(found, Sealed)
        if self.state.next_seq - self._row_read_at >= SEGMENTS_PER_ROW_READ:
            self._row_read_at = self.state.next_seq
            yield from self._drop_what_is_summed_up((yield from read_chain_row(self.epoch)))
        return self.state.next_seq - before

    def look_at_row(self) -> Steps[bool]:
        """Whether what followed had been trimmed away: then the chain was entered anew.

        To be asked when nothing was found for long: only then may the next seq be missing because
        it was deleted (safety rule 6).
        """
        row = yield from read_chain_row(self.epoch)
        if row.trim <= self.state.next_seq:
            yield from self._drop_what_is_summed_up(row)
            return False
        yield from self._enter(row)
        return True

    def _enter(self, row: ChainRow) -> Steps[None]:
        """At the last checkpoint, and on to the tail."""
        entered = yield from read_chain_at(self._cluster_id, self.epoch, row.checkpoint)
        self._row_read_at = entered.next_seq
        self.is_sealed = isinstance((yield from read_on(entered, width=1)), Sealed)
        self._state = entered
        self.entered_count += 1

    def _drop_what_is_summed_up(self, row: ChainRow) -> Steps[None]:
        if self.state.checkpoint < row.checkpoint <= self.state.next_seq:
            front = yield from read_checkpoint(self.epoch, row.checkpoint)
            rebase(self.state, front)


def copy_of(chain: ChainState) -> ChainState:
    """The same chain, to be read on or inherited from without changing this one."""
    return ChainState(
        cluster_id=chain.cluster_id,
        epoch=chain.epoch,
        broker=chain.broker,
        next_seq=chain.next_seq,
        last_nonce=chain.last_nonce,
        created_ms=chain.created_ms,
        entry_count=chain.entry_count,
        checkpoints=list(chain.checkpoints),
        spans=list(chain.spans),
        places=list(chain.places),
        stretches={key: _copy_of_stretch(one) for key, one in chain.stretches.items()},
    )


def _copy_of_stretch(stretch: Stretch) -> Stretch:
    return Stretch(
        start=stretch.start,
        end=stretch.end,
        state=_copy_of_state(stretch.state),
        released=stretch.released,
        max_timestamp=stretch.max_timestamp,
        max_timestamp_offset=stretch.max_timestamp_offset,
        rows=bytearray(stretch.rows),
    )


def _copy_of_state(state: PartitionState) -> PartitionState:
    return PartitionState(
        producers={
            producer_id: Producer(producer.epoch, producer.last_ms, list(producer.batches))
            for producer_id, producer in state.producers.items()
        },
        sinks=dict(state.sinks),
        open_transactions=dict(state.open_transactions),
        aborted=list(state.aborted),
    )
