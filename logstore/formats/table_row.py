"""Row of a topic's table, the table pointer: up to where the table is known to hold the topic.
Pure.

Ends per partition are packed, since a topic may have thousands and a row has 400 KB at most:
Kafka's varints, zig-zag. A partition is stored as its distance from the one before, so most numbers
take a byte or two.

    ends    (partition - one before, end) ...
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated

from logstore.errors import Corrupt
from logstore.formats.row_fields import OPTIONAL_INT, Form, decode_row, encode_row
from logstore.ports.registry import Row
from logstore.records.batch import CorruptBatch
from logstore.records.varint import decode_varint, encode_varint

TABLE = "table"

POINTER_AGAIN_S = 10.0
"""For how long a broker believes a table pointer: within it, it may serve records from the version
before."""


def pack_ends(ends: Mapping[int, int]) -> bytes:
    packed = bytearray()
    before = 0
    for partition, end in sorted(ends.items()):
        packed += encode_varint(partition - before) + encode_varint(end)
        before = partition
    return bytes(packed)


def unpack_ends(packed: bytes) -> dict[int, int]:
    """Raises `Corrupt`."""
    ends: dict[int, int] = {}
    numbers = _numbers(packed, 0)
    partition = 0
    for distance in numbers:
        partition += distance
        ends[partition] = next(numbers, -1)
    if any(number < 0 for pair in ends.items() for number in pair):
        raise Corrupt("table row: its packed ends are cut short or invalid")
    return ends


def _numbers(packed: bytes, at: int) -> Iterator[int]:
    while at < len(packed):
        try:
            number, at = decode_varint(packed, at, len(packed))
        except CorruptBatch as error:
            raise Corrupt(f"table row: its ends cannot be read: {error}") from error
        yield number


_ENDS = Form(bytes, pack_ends, unpack_ends)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """The table pointer: a hint that only goes up. The table itself says where it ends.

    `version` is the lowest version of the table to use, `ends` what that version holds. A row with
    version 0 and no ends says that there may be a table soon.
    """

    version: int = 0
    ends: Annotated[Mapping[int, int], _ENDS] = field(default_factory=dict)
    topic: str = ""
    """Name of the topic, for readers of this row after the topic was deleted."""
    on_delete: str = "drop"
    """Fate of the table once the topic is deleted: `logstore.table.on.delete`."""
    gone_ms: int = 0
    """When a run first found that the topic is deleted; 0: it is not, as far as is known."""
    swept_ms: int = 0
    """When the table's folder was last cleared of files that nothing names."""
    behind_ms: Annotated[int, OPTIONAL_INT] = 0
    """When a run last found that the one before had died between a commit that took records out and
    this row: until then brokers may have served these records, whatever the commit's time."""

    def row(self) -> Row:
        return encode_row(self)

    @staticmethod
    def of(row: Row) -> "TableRow":
        return decode_row(TableRow, row)
