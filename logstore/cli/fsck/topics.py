"""Holds the rows of topics against their records in the store: what `logstore fsck` asks of them.

Rows were read before the records are listed: a record is there before the row that says the same.
Chains and tables that hold data of a topic without a row were read before its rows: it was deleted,
and a record says so, or the registry is older than the log.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from logstore.cli.fsck.chain import FsckCounts
from logstore.errors import LogstoreError
from logstore.formats.topic_record import (
    RECORD_BYTES_MAX,
    TOPICS,
    TopicRecord,
    decode_record,
    deletion_in,
    record_place,
    record_problem,
    valid_record,
)
from logstore.formats.topic_row import TopicRow, TopicStatus
from logstore.protocol.chain.walk import get_retrying
from logstore.protocol.rules.checks import Problem, ProblemKind
from logstore.protocol.rules.disposal import Fate, fate_of
from logstore.protocol.steps import Gather, Steps
from logstore.wiring.open import ReadableLog


class DataLocation(NamedTuple):
    """Where data of a topic lies: an object's key or a folder, and the chain if it is one."""

    where: str
    chains: tuple[int, ...]


@dataclass(slots=True)
class SeenTopics:
    """`deleted`: topic ids that the registry has not as live and of which a record says that they
    were deleted, as far as they were asked for.
    """

    problems: list[Problem] = field(default_factory=list)
    deleted: set[bytes] = field(default_factory=set)


def check_topics(
    log: ReadableLog,
    topics: Mapping[str, TopicRow],
    held: Mapping[bytes, DataLocation],
    with_partitions: Collection[bytes],
    counts: FsckCounts,
    *,
    bodies: bool,
) -> SeenTopics:
    """All records of topics that have a row, or of which anything is `held`, are read.

    `with_partitions`: ids of topics of which any partition has a row.
    Those of others are only counted, unless `bodies` asks for every byte: a restore reads all.
    """
    seen = SeenTopics()
    keys = _keys(log, seen.problems)
    counts.records = sum(map(len, keys.values()))
    rows = {topic.topic_id: topic for topic in topics.values()}
    read_ids = [*keys] if bodies else sorted({*rows, *held})
    wanted = [key for topic_id in read_ids for key in keys.get(topic_id, ())]
    records = _read(log, wanted, seen.problems)
    for name, topic in topics.items():
        known = records.get(topic.topic_id, [])
        has_partitions = topic.topic_id in with_partitions
        problem = record_problem(name, topic, known, has_partitions=has_partitions)
        if problem is not None:
            seen.problems.append(Problem(ProblemKind.NO_RECORD, f"row topic/{name}", problem, ()))
        elif topic.status is TopicStatus.LIVE and not deletion_in(known):
            counts.never_made += valid_record(known).topic != topic
    for topic_id, (where, chains) in held.items():
        deletion = deletion_in(records.get(topic_id, ()))
        fate = fate_of(
            rows.get(topic_id),
            deletion_recorded=deletion is not None,
            has_partitions=topic_id in with_partitions,
        )
        if fate is Fate.DELETED:
            seen.deleted.add(topic_id)
        elif fate is Fate.UNKNOWN:
            detail = f"holds data of topic {topic_id.hex()}: {fate.value}"
            seen.problems.append(Problem(ProblemKind.OLD_REGISTRY, where, detail, chains))
    return seen


def _keys(log: ReadableLog, problems: list[Problem]) -> Mapping[bytes, list[str]]:
    keys: dict[bytes, list[str]] = defaultdict(list)
    for info in log.runner.store.list(TOPICS):
        place = record_place(info.key)
        if place is None:
            problems.append(
                Problem(ProblemKind.STRANGE_KEY, info.key, "no record has this key", ())
            )
        else:
            keys[place[0]].append(info.key)
    return keys


def _read(
    log: ReadableLog, keys: list[str], problems: list[Problem]
) -> Mapping[bytes, list[TopicRecord]]:
    """Those that can be read, by topic id."""
    records: dict[bytes, list[TopicRecord]] = defaultdict(list)
    for key, record in zip(keys, log.runner.run(_records(keys)), strict=True):
        if isinstance(record, LogstoreError):
            problems.append(Problem(ProblemKind.DAMAGED, key, str(record), ()))
        else:
            records[record.topic.topic_id].append(record)
    return records


def _records(keys: list[str]) -> Steps[list[TopicRecord | LogstoreError]]:
    records: list[TopicRecord | LogstoreError] = yield Gather([_record(key) for key in keys])
    return records


def _record(key: str) -> Steps[TopicRecord]:
    return decode_record(key, (yield from get_retrying(key, 0, RECORD_BYTES_MAX)))
