"""Checks of staged batches: all that Produce checks, and that each is the batch its index names.

Timestamps are judged by the time of the manifest, as the tasks that staged the records judged them:
what was in range then is not refused because the request comes late.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from broker.answers.batch_checks import check_produced
from broker.answers.record_checks import RecordChecks
from broker.answers.topic_rules import TopicRules
from logstore.errors import Corrupt, LogstoreError, Unavailable
from logstore.formats.staged_object import batches_of
from logstore.formats.topic_partition import TopicPartition
from logstore.protocol.adopt_plan import Bite
from logstore.records.batch import BatchHeader

VERSION = 13
"""Of the Produce request whose rules hold: all codecs are allowed."""


class ReadPart(NamedTuple):
    """Bites that are appended to one partition at once, each with its bytes."""

    bites: Sequence[tuple[Bite, memoryview]]
    rules: TopicRules

    @property
    def partition(self) -> TopicPartition:
        return self.bites[0][0].partition


class CheckedPart(NamedTuple):
    partition: TopicPartition
    first: int
    """The number of the first batch among those of its partition."""
    batches: list[tuple[memoryview, BatchHeader]]
    """In the form in which they are appended."""


def check_parts(parts: Iterable[ReadPart], manifest_ms: int) -> list[CheckedPart | LogstoreError]:
    """For each the batches, or the error that names its object. For a thread."""
    return [_checked(part, manifest_ms) for part in parts]


def _checked(part: ReadPart, manifest_ms: int) -> CheckedPart | LogstoreError:
    batches: list[tuple[memoryview, BatchHeader]] = []
    for bite, data in part.bites:
        try:
            batches += _batches(bite, data, part.rules, manifest_ms)
        except Unavailable as error:
            return error
        except LogstoreError as error:
            return Corrupt(f"staged batches are refused: key={bite.source.key}: {error}")
    return CheckedPart(part.partition, part.bites[0][0].first, batches)


def _batches(
    bite: Bite, data: memoryview, rules: TopicRules, manifest_ms: int
) -> list[tuple[memoryview, BatchHeader]]:
    checks = RecordChecks(at_once_bytes_max=0)
    found = bite.source.found
    records = [
        data[entry.position - found.start :][: entry.length]
        for entry, _ in batches_of(found, data, bite.source.key)
    ]
    for one in records:
        checks.add(one, rules, manifest_ms)
    checks.run(lambda: False)
    return [
        check_produced(one, rules, checks, version=VERSION, now_ms=manifest_ms) for one in records
    ]
