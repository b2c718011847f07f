"""Checks of staged batches: all that Produce checks, and that each is the batch its index names.

Timestamps are judged by the time of the manifest, as the tasks that staged the records judged them:
what was in range then is not refused because the request comes late.
"""

from collections.abc import Iterable
from typing import NamedTuple

from broker.answers.batch_checks import check_produced
from broker.answers.record_checks import RecordChecks
from broker.answers.topic_rules import TopicRules
from logstore.errors import Corrupt, LogstoreError, Unavailable
from logstore.formats.staged_object import batches_of
from logstore.protocol.adopt_plan import Bite
from logstore.records.batch import BatchHeader

VERSION = 13
"""Of the Produce request whose rules hold: all codecs are allowed."""


class CheckedBite(NamedTuple):
    bite: Bite
    batches: list[tuple[memoryview, BatchHeader]]
    """In the form in which they are appended."""


def check_bites(
    bites: Iterable[tuple[Bite, memoryview, TopicRules]], manifest_ms: int
) -> list[CheckedBite | LogstoreError]:
    """For each the batches, or the error that names its object. For a thread."""
    return [_checked(bite, data, rules, manifest_ms) for bite, data, rules in bites]


def _checked(
    bite: Bite, data: memoryview, rules: TopicRules, manifest_ms: int
) -> CheckedBite | LogstoreError:
    checks = RecordChecks(at_once_bytes_max=0)
    found, key = bite.source.found, bite.source.key
    try:
        records = [
            data[entry.position - found.start :][: entry.length]
            for entry, _ in batches_of(found, data, key)
        ]
        for one in records:
            checks.add(one, rules, manifest_ms)
        checks.run(lambda: False)
        return CheckedBite(
            bite,
            [
                check_produced(one, rules, checks, version=VERSION, now_ms=manifest_ms)
                for one in records
            ],
        )
    except Unavailable as error:
        return error
    except LogstoreError as error:
        return Corrupt(f"staged batches are refused: key={key}: {error}")
