"""Where wanted batches lie in segments of a chain, and which byte ranges fetch them. Pure.

    object      ├ front ┤ others ├ A ┤ others, 2 MB ├ B ┤ others, 20 KB ├ C ┤ others ┤
    fetched                      └───┘              └───────────────────────┘

Neighbours are fetched together where the gap between them costs less than another request; a
segment that is wanted almost whole is fetched whole. A planner finds places in the index, so a task
reads no index, and of a segment without a wanted batch nothing at all.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from logstore.formats.chain_state import EpochKey

GAP_BYTES_MAX = 64 * 1024
"""Some 0.1 ms of CPU and 1 ms of one connection; a request takes 0.5 ms of CPU and 25 ms."""

WHOLE_SHARE = 0.8
"""Where ranges make up this much of an object, one request fetches all of it."""

_PLACED = struct.Struct(">IQIqq")  # number of its key; place, length in the object; offsets


class PlacedBatch(NamedTuple):
    """One batch: bytes [at, at + length) of its object."""

    key: EpochKey
    at: int
    length: int
    base_offset: int
    last_offset: int


class JoinedBatches(NamedTuple):
    """Bytes [start, end) of an object, fetched by one request, and the wanted batches in them."""

    start: int
    end: int
    batches: Sequence[PlacedBatch]


@dataclass(frozen=True, slots=True)
class BatchPlaces:
    """Packed by seq. A segment that is not in `by_seq` is fetched whole and read by its index;
    `sizes` are the bytes of such ones, by seq, as far as they are known.
    """

    keys: tuple[EpochKey, ...] = ()
    by_seq: Mapping[int, bytes] = field(default_factory=dict)
    sizes: Mapping[int, int] = field(default_factory=dict)

    def has(self, seq: int) -> bool:
        return seq in self.by_seq

    def of(self, seq: int) -> list[PlacedBatch]:
        """All that is wanted of segment `seq`, by place in the object."""
        return [
            PlacedBatch(self.keys[number], *placed)
            for number, *placed in _PLACED.iter_unpack(self.by_seq[seq])
        ]

    def within(self, first_seq: int, last_seq: int) -> "BatchPlaces":
        """The same of segments [first seq, last seq]."""
        seqs = range(first_seq, last_seq + 1)
        inside = {seq: self.by_seq[seq] for seq in seqs if seq in self.by_seq}
        sizes = {seq: self.sizes[seq] for seq in seqs if seq in self.sizes}
        return BatchPlaces(self.keys if inside else (), inside, sizes)

    @staticmethod
    def packed(
        by_seq: Mapping[int, Sequence[PlacedBatch]],
        keys: Iterable[EpochKey],
        sizes: Mapping[int, int],
    ) -> "BatchPlaces":
        known = tuple(dict.fromkeys(keys))
        numbers = {key: number for number, key in enumerate(known)}
        return BatchPlaces(
            known,
            {
                seq: b"".join(_PLACED.pack(numbers[one.key], *one[1:]) for one in batches)
                for seq, batches in by_seq.items()
            },
            sizes,
        )


def joined(batches: Iterable[PlacedBatch]) -> list[JoinedBatches]:
    """Requests for `batches` of one object, which come by place."""
    runs: list[JoinedBatches] = []
    for batch in batches:
        end = batch.at + batch.length
        if runs and batch.at - runs[-1].end <= GAP_BYTES_MAX:
            last = runs[-1]
            runs[-1] = JoinedBatches(last.start, max(last.end, end), [*last.batches, batch])
        else:
            runs.append(JoinedBatches(batch.at, end, [batch]))
    return runs


def is_whole(requests: Iterable[JoinedBatches], object_bytes: int) -> bool:
    """Whether one request for all of the object is the better."""
    return sum(one.end - one.start for one in requests) >= WHOLE_SHARE * object_bytes
