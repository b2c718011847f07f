"""Copies of a topic's row in the store, one record per version: a lost registry is rebuilt by them.

    topics/<topic id, 32 hex digits>/<version, 20 digits>
    {"configs": {"retention.ms": "1000"}, "format": 1, "name": "orders", "partitions": 3,
     "replicas": 2, "status": "live", "topic_id": 32 hex digits, "version": 1}

JSON in one line, keys sorted: equal rows have equal bytes. A record is created once and never
changed. The row alone decides what a topic is; but nothing of a topic is deleted before a record
says that it was deleted, since a row may be missing for other reasons
(`logstore.protocol.rules.disposal`).

A row's version is that of the record that says the same, and the record is there before the row:

    creation    the record of version 1, then the row
    change      the record of the next free version, then the row, if its version is still the same
    deletion    the row says `deleting`, then a record that says `deleted`, then the row does

So every row version that was visible is in the store. A record may be newer than its row if its
writer died between the two, or lost a race: then a later version supersedes it, or the change was
never acknowledged. `deleted` is final and is written only after its row: it overrides all other
records of the topic, whatever their versions. A topic whose creation failed has a record and no
row.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from logstore.errors import Corrupt, LogstoreError, Refused
from logstore.formats.topic_row import TopicRow, TopicStatus

TOPICS = "topics/"
FORMAT = 1
FIRST_VERSION = 1
RECORD_BYTES_MAX = 1 << 20
ROW_FIELDS = ("topic_id", "status", "partitions", "replicas", "version")


class TopicRecord(NamedTuple):
    name: str
    topic: TopicRow

    @property
    def key(self) -> str:
        return record_key(self.topic.topic_id, self.topic.version)


def records_prefix(topic_id: bytes) -> str:
    return f"{TOPICS}{topic_id.hex()}/"


def record_key(topic_id: bytes, version: int) -> str:
    return f"{records_prefix(topic_id)}{version:020d}"


def record_place(key: str) -> tuple[bytes, int] | None:
    """Topic id and version of a record's key; None for any other."""
    digits, _, version = key.removeprefix(TOPICS).partition("/")
    try:
        place = bytes.fromhex(digits), int(version)
    except ValueError:
        return None
    return place if len(place[0]) == 16 and record_key(*place) == key else None


def encode_record(record: TopicRecord) -> bytes:
    topic = record.topic
    fields = {
        "configs": dict(topic.configs),
        "format": FORMAT,
        "name": record.name,
        "partitions": topic.partitions,
        "replicas": topic.replicas,
        "status": topic.status.value,
        "topic_id": topic.topic_id.hex(),
        "version": topic.version,
    }
    return json.dumps(fields, sort_keys=True).encode() + b"\n"


def decode_record(key: str, data: bytes) -> TopicRecord:
    """Raises `Corrupt`, also for a record under another's key, or `Refused` for a newer format."""
    try:
        fields = json.loads(data)
        is_known = fields["format"] == FORMAT
        record = _of_fields(fields) if is_known else None
    except (LogstoreError, ValueError, KeyError, TypeError) as error:
        raise Corrupt(f"topic record cannot be read: key={key}: {error}") from error
    if record is None:
        raise Refused(f"topic record of an unknown format: key={key}; upgrade logstore")
    if record.key != key:
        raise Corrupt(f"topic record under the key of another: key={key} record={record.key}")
    return record


def valid_record(records: Iterable[TopicRecord]) -> TopicRecord:
    """The one of a topic's records that counts: a deletion, else the newest."""
    return max(records, key=lambda one: (_is_deletion(one), one.topic.version))


def deletion_in(records: Iterable[TopicRecord]) -> TopicRecord | None:
    """The record of the topic's deletion, if any: final, whatever the versions of the others."""
    return next((record for record in records if _is_deletion(record)), None)


def newest_version(records: Iterable[TopicRecord]) -> int:
    return max((record.topic.version for record in records), default=0)


def record_problem(
    name: str, topic: TopicRow, records: Sequence[TopicRecord], *, has_partitions: bool = True
) -> str | None:
    """How a row and the records of its topic contradict each other; `deleting` may have either.

    A live row of a deleted topic whose partitions have no row either (`has_partitions` is False) is
    a late put of its creation: harmless, and cleared away.
    """
    deletions = [one.topic.version for one in records if _is_deletion(one)]
    match topic.status:
        case TopicStatus.LIVE if deletions and not has_partitions:
            return None
        case TopicStatus.LIVE if deletions:
            return f"the topic is live, and deleted by the record of version {deletions[0]}"
        case TopicStatus.LIVE if TopicRecord(name, topic) not in records:
            return f"no topic record matches the row: version={topic.version}"
        case TopicStatus.DELETED if not deletions:
            return "the topic is deleted, and no record says so"
    return None


def _of_fields(fields: Mapping[str, Any]) -> TopicRecord:
    row = {name: fields[name] for name in ROW_FIELDS}
    return TopicRecord(
        str(fields["name"]), TopicRow.of({**row, "configs": json.dumps(fields["configs"])})
    )


def _is_deletion(record: TopicRecord) -> bool:
    return record.topic.status is TopicStatus.DELETED
