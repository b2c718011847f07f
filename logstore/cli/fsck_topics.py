"""Holds the rows of topics against their records in the store: what `logstore fsck` asks of them.

Rows were read before the records are listed: a record is there before the row that says the same.
"""

from collections import defaultdict
from collections.abc import Mapping

from logstore.chains.checks import Problem, What
from logstore.chains.walk import get_patiently
from logstore.cli.fsck_chain import Counts
from logstore.errors import LogstoreError
from logstore.log.topic_record import (
    RECORD_BYTES_MAX,
    TOPICS,
    TopicRecord,
    decode_record,
    record_place,
    record_problem,
    standing,
)
from logstore.open import ReadableLog
from logstore.rows import TopicRow, TopicStatus
from logstore.steps import Steps, Together


def look_at_topics(
    log: ReadableLog, topics: Mapping[str, TopicRow], counts: Counts
) -> list[Problem]:
    """All records of topics that have a row are read; those of others are only counted."""
    problems: list[Problem] = []
    keys = _keys(log, problems)
    counts.records = sum(map(len, keys.values()))
    wanted = [key for topic in topics.values() for key in keys.get(topic.topic_id, ())]
    records = _read(log, wanted, problems)
    for name, topic in topics.items():
        known = records.get(topic.topic_id, [])
        problem = record_problem(name, topic, known)
        if problem is not None:
            problems.append(Problem(What.NO_RECORD, f"row topic/{name}", problem, ()))
        elif topic.status is TopicStatus.LIVE:
            counts.never_made += standing(known).topic != topic
    return problems


def _keys(log: ReadableLog, problems: list[Problem]) -> Mapping[bytes, list[str]]:
    found: dict[bytes, list[str]] = defaultdict(list)
    for info in log.performer.store.list(TOPICS):
        place = record_place(info.key)
        if place is None:
            problems.append(Problem(What.STRANGE_KEY, info.key, "no record has this key", ()))
        else:
            found[place[0]].append(info.key)
    return found


def _read(
    log: ReadableLog, keys: list[str], problems: list[Problem]
) -> Mapping[bytes, list[TopicRecord]]:
    """Those that can be read, by topic id."""
    found: dict[bytes, list[TopicRecord]] = defaultdict(list)
    for key, record in zip(keys, log.performer.run(_records(keys)), strict=True):
        if isinstance(record, LogstoreError):
            problems.append(Problem(What.DAMAGED, key, str(record), ()))
        else:
            found[record.topic.topic_id].append(record)
    return found


def _records(keys: list[str]) -> Steps[list[TopicRecord | LogstoreError]]:
    found: list[TopicRecord | LogstoreError] = yield Together([_record(key) for key in keys])
    return found


def _record(key: str) -> Steps[TopicRecord]:
    return decode_record(key, (yield from get_patiently(key, 0, RECORD_BYTES_MAX)))
