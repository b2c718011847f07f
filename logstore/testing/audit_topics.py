"""Holds the rows of topics against their records in the store: what restore would make of them."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from logstore.formats.topic_record import (
    TOPICS,
    TopicRecord,
    decode_record,
    deletion_in,
    record_problem,
    valid_record,
)
from logstore.formats.topic_row import TopicRow, TopicStatus
from logstore.objects.memory import MemoryObjects
from logstore.ports.registry import Row


def topic_violations(
    objects: MemoryObjects,
    rows: Sequence[tuple[str, Row]],
    with_partitions: Collection[bytes],
    seen: Counter[str],
) -> Iterator[str]:
    """`rows` are those of all topics; one that was put without a version has no record.

    `with_partitions`: ids of topics of which any partition has a row.
    """
    records = _records(objects)
    for name, row in rows:
        topic = TopicRow.of(row)
        known = records.get(topic.topic_id, [])
        if not topic.version:
            continue
        has_partitions = topic.topic_id in with_partitions
        problem = record_problem(name, topic, known, has_partitions=has_partitions)
        if problem is not None:
            yield f"record of a topic: name={name}: {problem}"
        elif topic.status is TopicStatus.LIVE and known and valid_record(known).topic != topic:
            seen["change recorded, never made"] += 1


def deleted_topics(objects: MemoryObjects) -> set[bytes]:
    """Ids of the topics whose deletion is recorded."""
    return {topic_id for topic_id, known in _records(objects).items() if deletion_in(known)}


def _records(objects: MemoryObjects) -> dict[bytes, list[TopicRecord]]:
    records: dict[bytes, list[TopicRecord]] = {}
    for info in objects.list(TOPICS):
        record = decode_record(info.key, objects.get(info.key))
        records.setdefault(record.topic.topic_id, []).append(record)
    return records
