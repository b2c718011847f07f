"""A chain in memory: its epoch ranges, with their states and the index since a checkpoint.

`ChainState` changes only in `apply_segment`. A leader's own memory, a takeover, a checkpoint and a
reader that follows a chain all come from it, so restarting is applying the same entries again.
Pure.

Rules kept here (safety rule 4, epoch ranges)
    An epoch range begins with its leadership-begin entry; a batch before it, or of another leader
    epoch, is foreign to it and stops the replay as corrupt.
    An epoch range without a committed leadership-begin entry does not exist in the chain.
    A forgotten epoch range does not either. The chain's owner says when (`epoch.forgetting`), by an
    entry: so a checkpoint stays a function of its chain. Another entry, before it, says below which
    offset the partition's records were deleted, so that restore does not take the gap for a loss.
"""

from array import array
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from logstore.errors import Corrupt
from logstore.formats.index_rows import ROW, first_row_for_offset, row_at, row_count
from logstore.formats.partition_state import PartitionState, decode_state
from logstore.formats.segment import (
    AdoptEnd,
    Entry,
    EntryKind,
    Header,
    Index,
    SegmentKind,
    StagedObject,
)
from logstore.formats.topic_partition import TopicPartition


class EpochKey(NamedTuple):
    """One leadership of one partition."""

    topic_id: bytes
    partition: int
    leader_epoch: int

    def __str__(self) -> str:
        return f"{self.topic_partition} leader_epoch={self.leader_epoch}"

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic_id, self.partition)


@dataclass(slots=True)
class EpochRange:
    """One epoch range in this chain: offsets [start, end) and the partition state at `end`.

    `rows` are its index rows since the checkpoint the replay began at.
    """

    start: int
    end: int
    state: PartitionState
    released: bool = False
    max_timestamp: int = -1
    max_timestamp_offset: int = -1
    rows: bytearray = field(default_factory=bytearray)

    def frozen_window(self) -> "EpochRange":
        """This epoch range as it stands; its rows move there."""
        if self.released and not self.rows:
            return self  # it changes no more
        frozen = EpochRange(  # `replace` takes thrice the time, and there may be 10,000
            self.start,
            self.end,
            self.state.snapshot(),
            self.released,
            self.max_timestamp,
            self.max_timestamp_offset,
            self.rows,
        )
        self.rows = bytearray()  # another one also where it is empty: rows are appended to it
        return frozen


class SegmentSpan(NamedTuple):
    """Where the body of a segment begins, and how large the object is."""

    body_at: int
    size_bytes: int


@dataclass(slots=True)
class ChainState:
    """One chain from its opening (or a checkpoint) to `next_seq`."""

    cluster_id: bytes
    epoch: int
    broker: int = -1
    next_seq: int = 0
    last_nonce: bytes = bytes(16)
    created_ms: int = 0
    entry_count: int = 0
    checkpoints: "array[int]" = field(default_factory=partial(array, "Q"))
    """Those from `cut` on, as far as this replay knows of any; there may be a million."""
    cut: int = 0
    spans: list[SegmentSpan] = field(default_factory=list)
    places: list[StagedObject] = field(default_factory=list)
    epoch_ranges: dict[EpochKey, EpochRange] = field(default_factory=dict)
    deleted_below: dict[TopicPartition, int] = field(default_factory=dict)
    """Per partition of which epoch ranges were forgotten: the offset below which retention or a
    client had deleted all records. None of topics that are deleted."""

    @property
    def checkpoint(self) -> int:
        """Seq of the checkpoint that `rows`, `spans` and `places` go on from; 0 without one."""
        return self.checkpoints[-1] if self.checkpoints else 0

    def apply_segment(self, index: Index, states: Mapping[int, bytes]) -> None:
        """Apply the segment at `next_seq`. `states` holds take and release states by position."""
        header = index.header
        check_follows(header, self.cluster_id, self.epoch, self.next_seq, self.last_nonce)
        if header.kind is SegmentKind.OPENING:
            self.broker = header.broker
        first_place = len(self.places)
        self.places += index.places
        for entry in index.entries:
            self._apply_entry(entry, header, first_place, states)
        self.spans.append(SegmentSpan(header.body_at, header.body_at + header.body_bytes))
        self.entry_count += len(index.entries)
        self.created_ms = max(self.created_ms, header.created_ms)
        self.last_nonce = header.nonce
        self.next_seq += 1

    def frozen_window(self) -> "ChainState":
        """A copy of the current chain, to encode a checkpoint from while this one grows.

        Rows, spans and places move to what is returned; the rest is shared or copied, of a large
        state not before it changes.
        """
        frozen = replace(
            self,
            checkpoints=self.checkpoints[:],
            epoch_ranges={
                key: epoch_range.frozen_window() for key, epoch_range in self.epoch_ranges.items()
            },
            deleted_below=dict(self.deleted_below),
        )
        self.checkpoints.append(self.next_seq)
        self.spans, self.places, self.entry_count = [], [], 0
        return frozen

    def _apply_entry(
        self,
        entry: Entry,
        header: Header,
        first_place: int,
        states: Mapping[int, bytes],
    ) -> None:
        key = EpochKey(entry.topic_id, entry.partition, entry.leader_epoch)
        match entry.kind:
            case EntryKind.TAKE:
                self._begin_range(key, entry.base_offset, states[entry.position], header)
            case EntryKind.RELEASE:
                epoch_range = self._epoch_range(key, header)
                if epoch_range.end != entry.base_offset:
                    raise Corrupt(
                        f"leadership-end entry at the wrong offset: {_where(key, header)}"
                    )
                epoch_range.released = True
            case EntryKind.FORGET:
                if self.epoch_ranges.pop(key, None) is None:
                    raise Corrupt(f"forget entry for an unknown epoch range: {_where(key, header)}")
            case EntryKind.CUT:
                self.drop_checkpoints(entry.base_offset)
            case EntryKind.DELETED_BELOW:
                self.note_deleted(TopicPartition(*key[:2]), entry.base_offset)
            case EntryKind.BATCH | EntryKind.ADOPTED:
                place = entry.place + first_place if entry.place else 0
                apply_batch(self._epoch_range(key, header), entry, header, place)
            case EntryKind.ADOPT_END:
                apply_adopt_end(self._epoch_range(key, header), AdoptEnd.of(entry), header)
            case _:
                pass  # a chunk of a state: its leadership-begin entry names it

    def _begin_range(self, key: EpochKey, start: int, state: bytes, header: Header) -> None:
        if key in self.epoch_ranges:
            raise Corrupt(f"epoch range begins twice: {_where(key, header)}")
        self.epoch_ranges[key] = EpochRange(start, start, decode_state(state))

    def drop_checkpoints(self, seq: int) -> None:
        """Checkpoints below `seq` are gone; they are listed no more."""
        self.cut = max(self.cut, seq)
        self.set_checkpoints(self.checkpoints)

    def note_deleted(self, partition: TopicPartition, offset: int) -> None:
        """All records of `partition` below `offset` were deleted; 0: its topic is deleted."""
        if offset:
            self.deleted_below[partition] = offset
        else:
            self.deleted_below.pop(partition, None)

    def set_checkpoints(self, seqs: Sequence[int]) -> None:
        """`seqs` in order, those that were cut among them or not."""
        self.checkpoints = array("Q", seqs[bisect_left(seqs, self.cut) :])

    def _epoch_range(self, key: EpochKey, header: Header) -> EpochRange:
        epoch_range = self.epoch_ranges.get(key)
        if epoch_range is None or epoch_range.released:
            raise Corrupt(f"entry outside any epoch range: {_where(key, header)}")
        return epoch_range


def apply_batch(epoch_range: EpochRange, entry: Entry, header: Header, place: int) -> None:
    if entry.base_offset != epoch_range.end or entry.last_offset < entry.base_offset:
        raise Corrupt(
            f"offsets are not dense: epoch={header.epoch} seq={header.seq} "
            f"partition={entry.partition} expected={epoch_range.end} found={entry.base_offset} to "
            f"{entry.last_offset}; records are missing or stored twice, run: logstore fsck"
        )
    epoch_range.end = entry.last_offset + 1
    if entry.max_timestamp > epoch_range.max_timestamp:
        epoch_range.max_timestamp = entry.max_timestamp
        known = entry.max_timestamp_offset >= 0
        epoch_range.max_timestamp_offset = (
            entry.max_timestamp_offset if known else entry.base_offset
        )
    if entry.producer_id >= 0 and entry.base_sequence >= 0:
        epoch_range.state.apply_batch(
            entry.producer_id,
            entry.producer_epoch,
            entry.base_sequence,
            entry.base_offset,
            entry.last_offset,
            entry.max_timestamp,
            header.created_ms,
        )
    epoch_range.rows += ROW.pack(
        header.seq,
        entry.position,
        entry.length,
        entry.record_count,
        place,
        entry.flags,
        entry.base_offset,
        entry.last_offset,
        entry.max_timestamp,
        entry.max_timestamp_offset,
        epoch_range.max_timestamp,
    )


def apply_adopt_end(epoch_range: EpochRange, end: AdoptEnd, header: Header) -> None:
    """The batches of a sink that this segment has just added are noted in the state."""
    rows = epoch_range.rows
    number = first_row_for_offset(rows, end.first_offset)
    row = row_at(rows, number) if number < row_count(rows) else None
    if (
        row is None
        or row.seq != header.seq
        or row.base_offset != end.first_offset
        or epoch_range.end != end.last_offset + 1
        or not 0 < end.batches_done <= end.batches_total
    ):
        raise Corrupt(
            f"adopt end without its batches: epoch={header.epoch} seq={header.seq} "
            f"offsets={end.first_offset} to {end.last_offset} epoch range ends={epoch_range.end} "
            f"done={end.batches_done} of {end.batches_total}; run: logstore fsck"
        )
    epoch_range.state.apply_adopted(end, header.created_ms)


def check_follows(
    header: Header, cluster_id: bytes, epoch: int, seq: int, previous_nonce: bytes
) -> None:
    """Raises `Corrupt` unless this is the segment that belongs at `seq` of chain `epoch`."""
    if header.cluster_id != cluster_id:
        raise Corrupt(f"segment of another cluster: epoch={epoch} seq={seq}")
    if header.epoch != epoch or header.seq != seq:
        raise Corrupt(
            f"segment does not match its key: epoch={epoch} seq={seq} "
            f"found epoch={header.epoch} seq={header.seq}"
        )
    if (header.kind is SegmentKind.OPENING) != (seq == 0):
        raise Corrupt(f"opening out of place: epoch={epoch} seq={seq}")
    if header.previous_nonce != previous_nonce:
        raise Corrupt(
            f"chain is spliced: epoch={epoch} seq={seq}: this segment does not follow the one "
            "before it, one of them is from another copy of the log; run: logstore fsck"
        )


def _where(key: EpochKey, header: Header) -> str:
    return f"epoch={header.epoch} seq={header.seq} {key}"
