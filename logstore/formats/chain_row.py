"""Row of a chain: its state, and how far it is trimmed and has checkpoints. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from logstore.formats.row_fields import OPTIONAL_TEXTS, decode_row, encode_row
from logstore.ports.registry import Row

CHAIN = "chain"


class ChainStatus(StrEnum):
    OPEN = "open"
    FENCED = "fenced"
    SEALED = "sealed"


NO_SEAL = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainRow:
    """`trim`, `checkpoint`, `seal` and `deleted` only go up; a checkpoint of 0 is none yet."""

    broker: int
    status: ChainStatus
    trim: int = 0
    checkpoint: int = 0
    seal: int = NO_SEAL
    trim_ms: int = 0
    """When the trim point was published, or the row restored."""
    deleted: int = 0
    """Segments below it are deleted; opening and seal never are."""
    topic_defaults: Annotated[Mapping[str, str], OPTIONAL_TEXTS] = field(default_factory=dict)
    """Configs of topics that say nothing themselves, as its broker was set: those of them that
    programs beside brokers need and that differ from the product's."""

    def row(self) -> Row:
        return encode_row(self)

    @staticmethod
    def of(row: Row) -> "ChainRow":
        return decode_row(ChainRow, row)


def chain_sk(epoch: int) -> str:
    return f"{epoch:020d}"
