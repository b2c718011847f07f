"""Row of a lease: the controller's, the compactor's. Pure."""

from dataclasses import dataclass

from logstore.formats.row_fields import decode_row, encode_row
from logstore.ports.registry import Row

LEASE = "lease"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRow:
    """Holder of a lease. `epoch` rises with each new owner, `heartbeat` with each renewal."""

    owner: int
    owner_epoch: int
    epoch: int
    heartbeat: int

    def row(self) -> Row:
        return encode_row(self)

    @staticmethod
    def of(row: Row) -> "LeaseRow":
        return decode_row(LeaseRow, row)
