"""The leader of a partition, as an answer names it (KIP-951)."""

from typing import NamedTuple


class Hint(NamedTuple):
    broker: int
    leader_epoch: int
    host: str
    port: int
    rack: str | None
