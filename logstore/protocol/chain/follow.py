"""Follow a chain without owning it: its state up to the first gap or the seal, seen so far.

A follower enters at the chain's last checkpoint (safety rule 6) and reads on by GET of the next
seq. Its index rows go back to that checkpoint; when the owner writes the next checkpoint, the rows
that it covers are dropped here and read from it, so memory stays bounded however long it follows.

An absent segment means the tail only while the chain's row is younger than half the grace of
deletion and has its trim point no higher. Otherwise the row is read after the segments: if the trim
point has passed what was read, or a seal lies below it, the chain is entered again at its newest
checkpoint. Entering ends with the same comparison, because it may take longer than the grace.
"""

from collections.abc import Mapping, Sequence

from logstore.errors import NotFound, Retryable, Unavailable
from logstore.formats.chain_row import ChainRow
from logstore.formats.chain_state import ChainState, EpochRange
from logstore.formats.checkpoint import rebase
from logstore.formats.keys import checkpoints_prefix, seq_of
from logstore.protocol.chain.seal import read_chain_row
from logstore.protocol.chain.walk import (
    MissingCheckpoint,
    MissingStateChunk,
    Sealed,
    Seen,
    Started,
    list_retrying,
    read_chain_at,
    read_checkpoint,
    read_on,
)
from logstore.protocol.steps import MonotonicS, Steps, sliced

UNNAMED_SEGMENTS_MAX = 512
"""Segments beyond the last checkpoint, while the row cannot be read, until the store is listed."""

SEGMENTS_PER_ROW_READ = 64
"""How many new segments it takes until the chain's row is read again for a newer checkpoint."""

ROW_AGE_S_MAX = 30.0
"""Half of the shortest grace of deletion that a broker accepts (`logstore.delete.grace.ms`)."""

ENTERS_MAX = 100


class Follower:
    """One chain as a reader knows it. `state` is at the first seq not seen yet."""

    def __init__(
        self,
        cluster_id: bytes,
        epoch: int,
        *,
        row_age_s_max: float = ROW_AGE_S_MAX,
        may_list: bool = False,
        started: Started = lambda start: None,
    ) -> None:
        """`row_age_s_max`: half of the grace of deletion, or less where that is not known.

        `may_list`: where the registry is away, look for newer checkpoints in the store. `started`
        is called with the start of each checkpoint at which the chain is entered.
        """
        self._started = started
        self._may_list = may_list
        self.epoch = epoch
        self.is_sealed = False
        self.entered_count = 0
        """How often it was entered; segments skipped between two entries were not applied here."""
        self._cluster_id = cluster_id
        self._state: ChainState | None = None
        self._row_read_at = 0
        self._row_age_s_max = row_age_s_max
        self._row_s = 0.0
        self.topic_defaults: Mapping[str, str] = {}
        """Of the chain's row, once entered."""

    @property
    def is_entered(self) -> bool:
        return self._state is not None

    @property
    def state(self) -> ChainState:
        assert self._state is not None, "not entered yet"
        return self._state

    @property
    def checkpoints(self) -> Sequence[int]:
        """Not to be changed, and good until the next step."""
        return self.state.checkpoints

    def advance(
        self, *, width: int = 1, segments_max: int | None = None, seen: Seen | None = None
    ) -> Steps[int]:
        """Read what has been committed since; the number of segments that were new.

        At most `segments_max`, `width` at a time at first; entering reads all there is.
        """
        if self._state is None:
            yield from self._enter((yield from self._read_row()))
            return self.state.next_seq - self._row_read_at
        if self.is_sealed:
            return 0
        before = self.state.next_seq
        try:
            stop = yield from read_on(self.state, width=width, segments_max=segments_max, seen=seen)
        except MissingStateChunk:
            row = yield from self._read_row()
            if row.checkpoint <= self.state.next_seq:
                raise
            yield from self._enter(row)
            return self.state.next_seq - before
        is_seal = isinstance(stop, Sealed)
        is_row_due = is_seal or (yield from self._is_row_due())
        try:
            if not (is_row_due and (yield from self.read_row())):
                self.is_sealed = is_seal
        except Unavailable:
            if self._may_list:
                yield from self._drop_without_the_row()
            raise
        return self.state.next_seq - before

    def read_row(self) -> Steps[bool]:
        """Read the chain's row; True: what followed had been trimmed, the chain was entered again.

        Only this tells a deleted segment or a void seal from the end of the chain (safety rule 6).
        """
        row = yield from self._read_row()
        while row.trim <= self.state.next_seq:
            try:
                yield from self._drop_checkpointed(row)
            except MissingCheckpoint:
                before, row = row, (yield from self._read_row())
                if row.checkpoint <= before.checkpoint:
                    raise
            else:
                self._row_read_at = self.state.next_seq
                return False
        yield from self._enter(row)
        return True

    def _drop_without_the_row(self) -> Steps[None]:
        """The registry is away, maybe for long. A checkpoint that can be found is as good as one
        that the row names: it was put when all below it was committed.
        """
        if len(self.state.spans) < UNNAMED_SEGMENTS_MAX:
            return
        keys = yield from list_retrying(checkpoints_prefix(self.epoch))
        there = [seq for seq in map(seq_of, keys) if seq <= self.state.next_seq]
        if there and max(there) > self.state.checkpoint:
            yield from self._rebase(max(there))

    def _is_row_due(self) -> Steps[bool]:
        if self.state.next_seq - self._row_read_at >= SEGMENTS_PER_ROW_READ:
            return True
        now_s: float = yield MonotonicS()
        return now_s - self._row_s > self._row_age_s_max

    def _read_row(self) -> Steps[ChainRow]:
        asked_s: float = yield MonotonicS()
        row = yield from read_chain_row(self.epoch)
        self._row_s = asked_s
        self.topic_defaults = row.topic_defaults
        return row

    def _enter(self, row: ChainRow) -> Steps[None]:
        """Enter at the last checkpoint and read to the tail.

        Retry if it was trimmed concurrently.
        """
        for _ in range(ENTERS_MAX):
            try:
                entered = yield from read_chain_at(
                    self._cluster_id, self.epoch, row.checkpoint, self._started
                )
                entered_at = entered.next_seq
                stop = yield from read_on(entered, width=1)
            except (MissingCheckpoint, MissingStateChunk, NotFound):
                before, row = row, (yield from self._read_row())
                if row.checkpoint <= before.checkpoint:
                    raise
                continue
            row = yield from self._read_row()
            if row.trim <= entered.next_seq:
                self._row_read_at = entered_at
                self.is_sealed = isinstance(stop, Sealed)
                self._state = entered
                self.entered_count += 1
                return
        raise Retryable(f"the trim point of a chain keeps moving while it is read: {self.epoch}")

    def _drop_checkpointed(self, row: ChainRow) -> Steps[None]:
        if self.state.checkpoint < row.checkpoint <= self.state.next_seq:
            yield from self._rebase(row.checkpoint)

    def _rebase(self, checkpoint: int) -> Steps[None]:
        rebase(self.state, (yield from read_checkpoint(self.epoch, checkpoint)))
        # The owner forgot its idle producers with that checkpoint; so does this copy.
        for epoch_range in tuple(self.state.epoch_ranges.values()):
            yield from sliced(epoch_range.state.expire_in_slices(self.state.created_ms))


def copy_of(chain: ChainState) -> ChainState:
    """A copy of the chain, for replay or recovery that must not change the original."""
    return ChainState(
        cluster_id=chain.cluster_id,
        epoch=chain.epoch,
        broker=chain.broker,
        next_seq=chain.next_seq,
        last_nonce=chain.last_nonce,
        created_ms=chain.created_ms,
        entry_count=chain.entry_count,
        checkpoints=chain.checkpoints[:],
        cut=chain.cut,
        spans=list(chain.spans),
        places=list(chain.places),
        epoch_ranges={key: _copy_of_epoch_range(one) for key, one in chain.epoch_ranges.items()},
        deleted_below=dict(chain.deleted_below),
    )


def _copy_of_epoch_range(epoch_range: EpochRange) -> EpochRange:
    return EpochRange(
        start=epoch_range.start,
        end=epoch_range.end,
        state=epoch_range.state.snapshot(),
        released=epoch_range.released,
        max_timestamp=epoch_range.max_timestamp,
        max_timestamp_offset=epoch_range.max_timestamp_offset,
        rows=bytearray(epoch_range.rows),
    )
