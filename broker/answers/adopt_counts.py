"""How many partitions a Spark sink asked to adopt a batch, and the answers; for metrics."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from logstore.wire.adopt import AdoptOutcome, AdoptTopicResult


@dataclass(slots=True)
class AdoptCounts:
    by_outcome: Counter[AdoptOutcome] = field(
        default_factory=lambda: Counter(dict.fromkeys(AdoptOutcome, 0))
    )
    batches: int = 0
    """Record batches that were copied, committed or not."""
    bytes: int = 0

    def note_copied(self, batches: int, size_bytes: int) -> None:
        self.batches += batches
        self.bytes += size_bytes

    def note_answer(self, topics: Iterable[AdoptTopicResult]) -> None:
        self.by_outcome.update(
            AdoptOutcome(one.outcome) for topic in topics for one in topic.partitions
        )
