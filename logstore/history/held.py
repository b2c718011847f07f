"""Up to where tables hold partitions for sure, so that chains may be trimmed. See rule 7."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from logstore.history.delta import Tables
from logstore.pieces import TopicPartition


@dataclass(frozen=True, slots=True)
class Held:
    """`ends`: what a table held a grace ago and holds now. `troubles`: one line each, an alarm."""

    ends: Mapping[TopicPartition, int]
    troubles: Sequence[str]


def held_ends(tables: Tables, topic_ids: Sequence[bytes], grace_ms: int, now_ms: int) -> Held:
    """Only of topics whose every commit since starts where the version before it ended."""
    raise NotImplementedError
