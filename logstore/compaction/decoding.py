"""Stored batches of one partition → rows of its table, with decoded bytes bounded per process.

A batch of 50 KB can inflate to a gigabyte. Batches up to `LIGHT_BYTES` are decoded by any number of
threads at a time. A larger one waits until `BUDGET` has room for it, and keeps that room until its
rows are written. A batch that inflates beyond `INFLATED_BYTES_MAX` becomes a `raw_batch` row, as an
undecodable batch does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, groupby
from threading import Condition
from typing import TYPE_CHECKING

from logstore.errors import Corrupt, Refused
from logstore.formats.segment_ranges import SegmentRange
from logstore.history.forms.columns import TABLE_COLUMNS
from logstore.reading.direct.segment_fetch import FoundBatch
from logstore.records.arrow import INFLATED_BYTES_MAX, decode_to_arrow
from logstore.records.batch import CODEC_BITS, CorruptBatch
from logstore.records.crc32c import Buffer

if TYPE_CHECKING:
    import pyarrow as pa

MiB = 1024 * 1024
ROWS_MAX = 65_536
BYTES_MAX = 8 * MiB

LIGHT_BYTES = 8 * MiB
"""Decompressed, of one batch: eight times what a producer's defaults allow."""

_ATTRIBUTES_AT = 22  # the low byte, in a batch
_KINDS, _TRANSACTIONAL = 0x30, 0x10  # control, transactional; transactional and no control


class DecodedBudget:
    """Room for decoded bytes, shared by threads. One holder always gets room, however large."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._held_bytes = 0
        self._changed = Condition()

    @contextmanager
    def room(self, size_bytes: int) -> Iterator[None]:
        """Waits for room. Not for a thread that holds some already."""
        with self._changed:
            self._changed.wait_for(lambda: self._has_room(size_bytes))
            self._held_bytes += size_bytes
        try:
            yield
        finally:
            with self._changed:
                self._held_bytes -= size_bytes
                self._changed.notify_all()

    def _has_room(self, size_bytes: int) -> bool:
        return not self._held_bytes or self._held_bytes + size_bytes <= self._bytes_max


BUDGET = DecodedBudget(INFLATED_BYTES_MAX)
"""Of this process: tasks of `LocalCarrier` are threads, and a task writes several partitions."""


def decoded(batches: Sequence[FoundBatch], topic: str) -> Iterator[pa.RecordBatch]:
    """Rows of one partition in offset order, at most `BYTES_MAX` each unless one row is larger.

    The caller has stored or dropped each result when it asks for the next one: the room of a large
    batch is given up then. Raises `Corrupt` for damage, `Refused` for transactional batches.
    """
    for segments, neighbours in groupby(batches, lambda batch: batch.segments):
        try:
            yield from _rows_of(segments, _without_transactions(neighbours, topic))
        except CorruptBatch as fault:
            offsets = segments.offsets
            raise Corrupt(
                f"a stored batch is damaged: topic={topic} partition={offsets.number} "
                f"offsets=[{offsets.start}, {offsets.end}) chain={segments.chain} cause={fault}; "
                "this topic is not compacted until it is repaired; see: logstore fsck"
            ) from fault


def _rows_of(segments: SegmentRange, batches: Iterator[Buffer]) -> Iterator[pa.RecordBatch]:
    """A batch that begins below the range is decoded alone: as a raw row it would not be seen."""
    for batch in batches:
        if int.from_bytes(batch[:8]) < segments.offsets.start:
            yield from _heavy(segments, batch)
            continue
        for rows in _decode(segments, chain([batch], batches), LIGHT_BYTES):
            raw = _raw_batch(rows)
            if raw is None:
                yield rows
            else:
                yield from _heavy(segments, raw)


def _heavy(segments: SegmentRange, batch: Buffer) -> Iterator[pa.RecordBatch]:
    is_plain = not batch[_ATTRIBUTES_AT] & CODEC_BITS
    size_bytes = len(batch) if is_plain else INFLATED_BYTES_MAX
    with BUDGET.room(size_bytes):
        yield from _decode(segments, [batch], INFLATED_BYTES_MAX)


def _decode(
    segments: SegmentRange, batches: Iterable[Buffer], payload_bytes_max: int
) -> Iterator[pa.RecordBatch]:
    return decode_to_arrow(
        batches,
        start=segments.offsets.start,
        end=segments.offsets.end,
        columns=TABLE_COLUMNS,
        rows_max=ROWS_MAX,
        bytes_max=BYTES_MAX,
        payload_bytes_max=payload_bytes_max,
    )


def _raw_batch(rows: pa.RecordBatch) -> Buffer | None:
    """The batch that was not decoded; it comes as one row alone."""
    raw = rows.column("raw_batch")
    return memoryview(raw[0].as_buffer()) if raw.null_count < len(raw) else None


def _without_transactions(batches: Iterable[FoundBatch], topic: str) -> Iterator[Buffer]:
    """Whether a transaction was aborted is not known here yet; its records may be none."""
    for one in batches:
        if one.data[_ATTRIBUTES_AT] & _KINDS == _TRANSACTIONAL:
            raise Refused(
                f"transactional batches need a newer version of logstore: topic={topic} "
                f"partition={one.segments.offsets.number} offset={one.base_offset}"
            )
        yield one.data
