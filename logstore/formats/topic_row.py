"""Row of a topic. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from logstore.formats.row_fields import ID, JSON_TEXTS, decode_row, encode_row
from logstore.ports.registry import Row

TOPIC = "topic"


class TopicStatus(StrEnum):
    LIVE = "live"
    DELETING = "deleting"
    DELETED = "deleted"
    """Kept for a while: a put of this row that was given up as lost would find its place free."""


@dataclass(frozen=True, slots=True)
class TopicRow:
    topic_id: Annotated[bytes, ID]
    status: TopicStatus
    partitions: int
    configs: Annotated[Mapping[str, str], JSON_TEXTS]
    replicas: int = 1
    """Replicas per partition that were asked for; answers show no more than there are brokers."""
    version: int = 0
    """Goes up with every change: of the record in the store that says the same. 0: none does."""

    def row(self) -> Row:
        return encode_row(self)

    @staticmethod
    def of(row: Row) -> "TopicRow":
        return decode_row(TopicRow, row)
