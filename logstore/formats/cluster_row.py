"""The one row of the cluster itself. Pure."""

from dataclasses import dataclass
from typing import Annotated

from logstore.formats.row_fields import ID, decode_row, encode_row
from logstore.ports.registry import Row

CLUSTER = "cluster"


@dataclass(frozen=True, slots=True)
class ClusterRow:
    """`format_level` is the finalized one (`formats.levels`). It only goes up."""

    cluster_id: Annotated[bytes, ID]
    next_epoch: int
    format_level: int

    def row(self) -> Row:
        return encode_row(self)

    @staticmethod
    def of(row: Row) -> "ClusterRow":
        return decode_row(ClusterRow, row)
