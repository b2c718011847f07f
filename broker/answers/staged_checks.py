"""Checks of staged batches: all that Produce checks, and that each is the batch its index names.

Timestamps are judged by the time of the manifest, as the tasks that staged the records judged them:
what was in range then is not refused because the request comes late.

Each batch may unpack to `LOOKUP_BYTES_MAX`, however well it is compressed and whatever else was
staged: a topic of zeros is copied as any other. So a window of 64 MiB may stand for terabytes, and
is checked in slices, one batch in memory at a time; what a slice has checked is appended before the
next one, so a batch of any size comes to its end.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from broker.answers.decisions.batch_checks import check_produced
from broker.answers.decisions.record_checks import RecordChecks
from broker.answers.decisions.topic_rules import TopicRules
from logstore.errors import Corrupt, Invalid, LogstoreError, Unavailable
from logstore.formats.staged_object import batches_of
from logstore.formats.topic_partition import TopicPartition
from logstore.protocol.sinks.adopt_plan import PART_BYTES, Bite
from logstore.records.batch import BatchHeader, CorruptBatch, Reason
from logstore.records.lookup import LOOKUP_BYTES_MAX

VERSION = 13
"""Of the Produce request whose rules hold: all codecs are allowed."""

SLICE_BYTES = 64 << 20
"""Unpacked by one call of a thread, and a last batch beyond; some 50 ms."""


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

    @property
    def end(self) -> int:
        """The number of the batch after the last of these."""
        return self.first + len(self.batches)


class PartOutcome(NamedTuple):
    """Of some batches of part `number`, or of all that are left of it."""

    number: int
    checked: CheckedPart | LogstoreError
    """The error names the object; nothing more of the part follows."""


def check_in_slices(
    parts: Sequence[ReadPart], manifest_ms: int, *, slice_bytes: int
) -> Iterator[list[PartOutcome]]:
    """Yields the outcomes of one slice after the other, in order. Each step is for a thread."""
    outcomes: list[PartOutcome] = []
    unpacked_bytes = 0
    for number, part in enumerate(parts):
        gathered = CheckedPart(part.partition, part.bites[0][0].first, [])
        stored_bytes = 0
        try:
            for stored, size in _checked_batches(part, manifest_ms):
                gathered.batches.append(stored)
                stored_bytes += len(stored[0])
                unpacked_bytes += size
                is_full = unpacked_bytes >= slice_bytes
                if is_full or stored_bytes >= PART_BYTES:
                    outcomes.append(PartOutcome(number, gathered))
                    gathered = CheckedPart(part.partition, gathered.end, [])
                    stored_bytes = 0
                if is_full:
                    yield outcomes
                    outcomes, unpacked_bytes = [], 0
        except LogstoreError as error:
            outcomes.append(PartOutcome(number, error))
            continue
        if gathered.batches:
            outcomes.append(PartOutcome(number, gathered))
    if outcomes:
        yield outcomes


def _checked_batches(
    part: ReadPart, manifest_ms: int
) -> Iterator[tuple[tuple[memoryview, BatchHeader], int]]:
    """Yields each batch in the form in which it is appended, and to how much it unpacked."""
    for bite, data in part.bites:
        key = bite.source.key
        try:
            for entry, _ in batches_of(bite.source.found, data, key):
                start = entry.position - bite.source.found.start
                batch = data[start : start + entry.length]
                checks = RecordChecks(at_once_bytes_max=0)
                checks.add(batch, part.rules, manifest_ms)
                checks.run(lambda: False)
                stored = check_produced(
                    batch, part.rules, checks, version=VERSION, now_ms=manifest_ms
                )
                yield stored, checks.unpacked_bytes
        except Unavailable:
            raise
        except CorruptBatch as error:
            if error.reason is not Reason.TOO_LARGE:
                raise Corrupt(f"staged batches are refused: key={key}: {error}") from error
            raise Invalid(
                f"a staged batch unpacks to more than any batch may: key={key} "
                f"bytes_max={LOOKUP_BYTES_MAX}; split the row in its query, and start that with "
                "a new sinkId"
            ) from error
        except LogstoreError as error:
            raise Corrupt(f"staged batches are refused: key={key}: {error}") from error
