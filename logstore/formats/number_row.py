"""Row of a broker number that a process took by itself (`--broker auto`). Pure."""

from dataclasses import dataclass

from logstore.formats.row_fields import decode_row, encode_row
from logstore.ports.registry import Row

NUMBER = "number"


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberRow:
    """`holder` is drawn once for each lock directory; `heartbeat` rises while the broker starts."""

    holder: str
    epoch: int
    """Epoch of the number's broker row when it was taken, -1: none. A higher one has replaced it
    since the holder, or a broker with a fixed number, has started."""
    heartbeat: int

    def row(self) -> Row:
        return encode_row(self)

    @staticmethod
    def of(row: Row) -> "NumberRow":
        return decode_row(NumberRow, row)
