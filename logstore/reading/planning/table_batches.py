"""Batches made from a table, in memory: spans of them, and which span tells of an offset. Pure.

A span is what was decoded at once: consecutive batches of one partition with nothing left out
between them, though offsets may be missing (compacted keys, markers of transactions). The least
recently used spans go when there are too many bytes.
"""

from bisect import bisect_right, insort
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from logstore.records.batch import Codec, with_next_offset

Compression = Codec | Literal["producer"]
"""How batches made from a table are compressed; what a producer chose is not in the table, so
"producer" means lz4 where that saves something, which costs clients and brokers least."""

OVERLAPS_MAX = 4
"""Spans that are looked at for an offset: they overlap where consumers began inside one."""


class Stream(NamedTuple):
    """One partition's batches, compressed alike."""

    topic_id: bytes
    partition: int
    compression: Compression


class TakenBatches(NamedTuple):
    batches: Sequence[bytes]
    byte_count: int
    end_offset: int
    """Where to read on."""


@dataclass(frozen=True, slots=True)
class TableBatches:
    """All that a table holds of offsets [start, end), as Kafka batches.

    `bases[i]` and `ends[i]` bound the offsets of `batches[i]`. A span without batches says that
    there is no record; one with `end` at `start`, that the table does not reach there.
    `is_last`: it ends where the table did.
    """

    start: int
    end: int
    version: int
    """Of the table that it was read from."""
    batches: Sequence[bytes] = ()
    bases: Sequence[int] = ()
    ends: Sequence[int] = ()
    byte_count: int = 0
    is_last: bool = True

    def take(self, offset: int, up_to: int, room: int, *, is_first: bool) -> TakenBatches:
        """Whole batches from `offset` on and below `up_to`, at most `room` bytes of them.

        With `is_first` the first of them is included whatever its size, and where it begins below
        `offset`. Without, such a batch ends the answer: the records below `offset` are in it
        already, in batches of a span that is cut elsewhere.

        The last one reaches as far as there is no record behind it, as after Kafka's log cleaner: a
        consumer gets there without another request, and kafka-go, which misreads a batch without
        records, gets there at all.
        """
        begin = number = bisect_right(self.ends, offset)
        if not is_first and begin < len(self.bases) and self.bases[begin] < offset:
            return TakenBatches((), 0, offset)
        taken_bytes, end_offset = 0, min(self.end, up_to)
        for batch in self.batches[begin:]:
            length = len(batch)
            if self.bases[number] >= up_to:
                break
            if taken_bytes + length > room and not (is_first and number == begin):
                end_offset = max(offset, self.ends[number - 1]) if number else offset
                break
            taken_bytes += length
            number += 1
        taken = self.batches[begin:number]
        if taken and self.ends[number - 1] < end_offset:
            taken = [*taken[:-1], with_next_offset(taken[-1], end_offset)]
        return TakenBatches(taken, taken_bytes, end_offset)


class TableBatchCache:
    """Spans by stream; their bytes are at most `bytes_max`, or those of the last one."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._spans: OrderedDict[tuple[Stream, int], TableBatches] = OrderedDict()
        self._starts: dict[Stream, list[int]] = {}
        self.byte_count = 0

    def keep(self, stream: Stream, span: TableBatches) -> None:
        self._drop(stream, span.start)
        self._spans[stream, span.start] = span
        insort(self._starts.setdefault(stream, []), span.start)
        self.byte_count += span.byte_count
        while self.byte_count > self._bytes_max and len(self._spans) > 1:
            self._drop(*next(iter(self._spans)))

    def find(self, stream: Stream, offset: int, version: int) -> TableBatches | None:
        """The span that tells of `offset`, unless it is of a table older than `version`."""
        starts = self._starts.get(stream, [])
        past = bisect_right(starts, offset)
        for start in reversed(starts[max(0, past - OVERLAPS_MAX) : past]):
            span = self._spans[stream, start]
            if span.version < version:
                self._drop(stream, start)
            elif offset < span.end:
                self._spans.move_to_end((stream, start))
                return span
        return None

    def _drop(self, stream: Stream, start: int) -> None:
        span = self._spans.pop((stream, start), None)
        if span is None:
            return
        self.byte_count -= span.byte_count
        starts = self._starts[stream]
        starts.remove(start)
        if not starts:
            del self._starts[stream]
