"""The order in which batches lie in a segment's body: by topic and partition. Pure.

    as they came   │ b1 │ a0 │ S │ a1 │ b1 │ a0 │      topics a, b; partitions 0, 1; a state S
    stored         │ S │ a0 │ a0 │ a1 │ b1 │ b1 │

So a reader of one topic, or of one partition, finds its batches of a segment in one byte range.
Batches of a partition stay in the order they came, as states do; these are first, where replay
reads them with the front. Entries of the index keep their order: their positions alone change.
Where each topic's batches lie together as they came, nothing is moved.

The native codec does the same, ten times faster.
"""

import struct
import sys
from array import array
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from logstore.formats.chain_state import EpochKey
from logstore.formats.segment import ENTRY_BYTES, EntryKind
from logstore.records import native

_FIELDS = struct.Struct(">B3x24sIQ56x")
"""Of an entry: kind; partition, topic id and leader epoch together; length; position."""
_KEY = struct.Struct(">i16si")
_PIECE = struct.Struct("=QQ")
_TOPIC_AT, _TOPIC_BYTES = 8, 16
_POSITION_AT, _POSITION_BYTES = 32, 8
_BATCH = int(EntryKind.BATCH)

_Ordered = tuple[bytes, bytes, list[tuple[bytes, bytes]]]

assert _FIELDS.size == ENTRY_BYTES


class BodyOrder(NamedTuple):
    """How a body is moved into the order in which it is stored."""

    pieces: bytes
    """[start, end) of the body as it came, one after the other as they are stored: for `gather`."""
    positions: bytes
    """Of all entries of the index: 8 bytes each, big-endian."""
    batch_positions: list[tuple[EpochKey, bytes]]
    """Those of each epoch range's batches, in the order of the index."""


def body_order(entries: bytearray) -> BodyOrder | None:
    """The order of a body with these packed index entries; None: as it is."""
    if not _has_many_topics(entries):
        return None
    codec = native.codec
    ordered = _ordered(entries) if codec is None else codec.order_body(entries)
    if ordered is None:
        return None
    pieces, positions, by_key = ordered
    return BodyOrder(pieces, positions, [(_epoch_key(key), mine) for key, mine in by_key])


def gather(target: memoryview, source: memoryview, pieces: bytes) -> None:
    """Fill `target` with these pieces of `source`. Raises `ValueError` if it is of another size."""
    codec = native.codec
    if codec is not None:
        codec.gather(target, source, pieces)
        return
    at = 0
    for start, end in _PIECE.iter_unpack(pieces):
        after = at + end - start
        target[at:after] = source[start:end]
        at = after
    if at != len(target):
        raise ValueError(f"pieces of another size: bytes={at} target={len(target)}")


def set_positions(entries: bytearray, positions: bytes) -> None:
    """All entries get `positions`, those of a `BodyOrder`."""
    assert len(positions) // _POSITION_BYTES == len(entries) // ENTRY_BYTES
    for byte in range(_POSITION_BYTES):
        entries[_POSITION_AT + byte :: ENTRY_BYTES] = positions[byte::_POSITION_BYTES]


def _has_many_topics(entries: bytearray) -> bool:
    """Fast, since it is asked for each segment: a byte of all topic ids at once."""
    for at in range(_TOPIC_AT, _TOPIC_AT + _TOPIC_BYTES):
        column = entries[at::ENTRY_BYTES]
        if column.count(column[:1]) != len(column):
            return True
    return False


def _ordered(entries: bytearray) -> _Ordered | None:
    fields = list(_FIELDS.iter_unpack(entries))
    states: list[int] = []
    batches: dict[bytes, list[int]] = {}
    for number, (kind, key, _, _) in enumerate(fields):
        if kind != _BATCH:
            states.append(number)
        else:
            batches.setdefault(key, []).append(number)
    if _is_together(batches):
        return None
    keys = sorted(batches, key=_topic_first)
    order = states + [number for key in keys for number in batches[key]]
    positions = [0] * len(fields)
    at = 0
    for number in order:
        positions[number] = at
        at += fields[number][2]
    pieces = b"".join(_PIECE.pack(*piece) for piece in _pieces(fields, order))
    by_key = [(key, _packed([positions[n] for n in batches[key]])) for key in keys]
    return pieces, _packed(positions), by_key


def _is_together(batches: dict[bytes, list[int]]) -> bool:
    """Whether nothing lies between batches of the same topic; numbers rise."""
    spans: dict[bytes, tuple[int, int, int]] = {}
    for key, numbers in batches.items():
        first, last, count = spans.get(_topic(key), (numbers[0], numbers[-1], 0))
        first, last = min(first, numbers[0]), max(last, numbers[-1])
        spans[_topic(key)] = (first, last, count + len(numbers))
    return all(last - first + 1 == count for first, last, count in spans.values())


def _topic(key: bytes) -> bytes:
    return key[4 : 4 + _TOPIC_BYTES]


def _topic_first(key: bytes) -> tuple[bytes, bytes]:
    return _topic(key), key


def _pieces(
    fields: Sequence[tuple[int, bytes, int, int]], order: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """Bytes of the entries numbered in `order`; neighbours are one piece."""
    _, _, length, start = fields[order[0]]
    end = start + length
    for number in order[1:]:
        _, _, length, position = fields[number]
        if position != end:
            yield start, end
            start = position
        end = position + length
    yield start, end


def _packed(positions: Sequence[int]) -> bytes:
    packed = array("Q", positions)
    if sys.byteorder == "little":
        packed.byteswap()
    return packed.tobytes()


def _epoch_key(key: bytes) -> EpochKey:
    partition, topic_id, leader_epoch = _KEY.unpack(key)
    return EpochKey(topic_id, partition, leader_epoch)
