"""Which bytes of which segments a read sends, by index rows; and whether they are these. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from logstore.errors import Corrupt, Refused
from logstore.formats.index_rows import ROW, Rows, row_count
from logstore.records.batch import split_batches
from logstore.slices import Slices

BATCHES_CHECKED = 1_000
"""Some two milliseconds, before others have their turn."""


class BodySlice(NamedTuple):
    """Adjacent batches in one segment's body, and their offsets [base offset, end offset)."""

    seq: int
    start: int
    end: int
    base_offset: int
    end_offset: int


class ReadPlan(NamedTuple):
    slices: Sequence[BodySlice]
    byte_count: int
    end_offset: int


def planned(
    rows: Rows, number: int, up_to: int, bytes_max: int, segments_max: int | None = None
) -> ReadPlan:
    """Which bytes to send: rows from `number` on, below `up_to`, at least one, then `bytes_max`, of
    `segments_max` segments.
    """
    slices: list[BodySlice] = []
    total, end_offset, unpack = 0, -1, ROW.unpack_from
    seq, start, end, segment_count, first_offset = -1, 0, 0, 0, 0
    for at in range(number * ROW.size, row_count(rows) * ROW.size, ROW.size):
        row_seq, position, length, _, place, _, base, last, _, _, _ = unpack(rows, at)
        if base >= up_to or (total and total + length > bytes_max):
            break
        if place:
            raise Refused("adopted batches are of a newer version of logstore; upgrade")
        if row_seq != seq:
            segment_count += 1
            if segments_max is not None and segment_count > segments_max:
                break
        if row_seq == seq and position == end:
            end += length
        else:
            if seq >= 0:
                slices.append(BodySlice(seq, start, end, first_offset, end_offset))
            seq, start, end, first_offset = row_seq, position, position + length, base
        total += length
        end_offset = last + 1
    slices.append(BodySlice(seq, start, end, first_offset, end_offset))
    return ReadPlan(slices, total, end_offset)


def check_batches(batches: memoryview, piece: BodySlice, leader_epoch: int) -> Slices[None]:
    """Whether these are the batches that the index says, each as it was produced.

    A whole body is compared with its checksum; of a part that cannot be done. Raises `Corrupt`.
    """
    offset = piece.base_offset
    for number, (_, header) in enumerate(split_batches(batches), 1):
        if (header.base_offset, header.leader_epoch) != (offset, leader_epoch):
            raise Corrupt(
                f"batch does not match its index entry: offset={header.base_offset} "
                f"epoch={header.leader_epoch} need offset={offset} epoch={leader_epoch}"
            )
        offset = header.next_offset
        if number % BATCHES_CHECKED == 0:
            yield
    if offset != piece.end_offset:
        raise Corrupt(f"batches end at offset={offset} need={piece.end_offset}")
