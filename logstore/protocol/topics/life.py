"""Create and delete topics: steps on the registry, each with one outcome wherever it dies.

The topic row is the commit point: written last on creation and growth, changed first on deletion.
It is recorded in the store too, in case the registry is lost: `formats.topic_record`. Incomplete
deletions are finished by the next creation of the name; they, and partition rows without a topic,
by the controller, or at the start of a broker that is alone; so a creation looks at its partition
rows once more (`protocol.topics.orphans`).

The row of a deleted topic stays for an hour. A put that was given up as lost may land seconds
later; where it asks only that no row be there, it would bring the topic back.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from logstore.errors import (
    ConditionFailed,
    Invalid,
    LogstoreError,
    NotFound,
    Retryable,
    Unavailable,
)
from logstore.formats.partition_row import PartitionRow, partition_pk, partition_sk
from logstore.formats.topic_record import (
    FIRST_VERSION,
    RECORD_BYTES_MAX,
    TopicRecord,
    decode_record,
    deletion_in,
    encode_record,
    record_key,
)
from logstore.formats.topic_row import TOPIC, TopicRow, TopicStatus
from logstore.ports.registry import Comparison, Condition, Row, RowAbsent, RowExists
from logstore.protocol.chain.put import create_equal
from logstore.protocol.chain.walk import get_retrying
from logstore.protocol.rules.disposal import Ruling
from logstore.protocol.steps import (
    BelievedMs,
    Delete,
    DeleteRow,
    DrawNonce,
    Gather,
    GetRow,
    GraceStartMs,
    NowMs,
    PutRow,
    QueryRows,
    Steps,
    UpdateRow,
)
from logstore.protocol.topics.orphans import keep_rows
from logstore.protocol.topics.witnesses import judge_half_done

NAME_LENGTH_MAX = 249
PARTITIONS_MAX = 10_000
VERSIONS_TRIED_MAX = 100
PUT_ATTEMPTS_MAX = 10
DELETED_MS = "deleted_ms"
DELETED_KEPT_MS = 3_600_000
_NAME = re.compile(r"[a-zA-Z0-9._-]+\Z")


class TopicExists(Invalid): ...


class UnknownTopic(Invalid): ...


class BadTopicName(Invalid): ...


class BadPartitionCount(Invalid): ...


class FormerLife(Retryable):
    """The name had a life that brokers may still serve: have them confirm that it is over first."""

    def __init__(self, name: str, topic_id: bytes) -> None:
        super().__init__(
            f"a deleted topic had this name, and brokers may serve it still: name={name} "
            f"topic_id={topic_id.hex()}; try again"
        )
        self.topic_id = topic_id


class RowsRemoved(Retryable):
    """A creation was suspended for so long that its partitions were cleared away: it failed."""

    def __init__(self, name: str, topic_id: bytes) -> None:
        super().__init__(
            f"partitions of the topic were removed while it was created: name={name} "
            f"topic_id={topic_id.hex()}; try again"
        )
        self.name = name
        self.topic_id = topic_id


@dataclass(frozen=True, slots=True)
class NewTopic:
    row: TopicRow
    partitions: Sequence[PartitionRow]


def check_topic_name(name: str) -> None:
    """Kafka's rule (org.apache.kafka.common.internals.Topic). Raises `BadTopicName`."""
    if not name or len(name) > NAME_LENGTH_MAX or name in (".", "..") or not _NAME.match(name):
        raise BadTopicName(
            f"bad topic name: name={name[:NAME_LENGTH_MAX]!r}; use 1 to {NAME_LENGTH_MAX} of "
            "letters, digits, '.', '_' and '-'"
        )


def check_partition_count(partitions: int) -> None:
    if not 1 <= partitions <= PARTITIONS_MAX:
        raise BadPartitionCount(
            f"bad number of partitions: {partitions}; use 1 to {PARTITIONS_MAX}"
        )


def create_topic(
    name: str,
    rows: Sequence[PartitionRow],
    configs: Mapping[str, str],
    *,
    replicas: int = 1,
    is_over: Callable[[bytes], bool] = lambda _: True,
) -> Steps[NewTopic]:
    """`rows` name the leader of each partition and its open chain.

    `is_over` says whether every broker knows that the last topic of this name was deleted. Raises
    `TopicExists`; `FormerLife` where it is not over; `RowsRemoved` where a start or a controller
    took it for one that died.
    """
    check_topic_name(name)
    check_partition_count(len(rows))
    place = yield from _free_place(name, is_over)
    topic_id = yield from _draw_topic_id()
    topic = TopicRow(topic_id, TopicStatus.LIVE, len(rows), dict(configs), replicas, FIRST_VERSION)
    partitions = [_put_partition(topic_id, number, row) for number, row in enumerate(rows)]
    yield from _all_of([_put_first_record(name, topic), *partitions])
    try:
        yield PutRow(TOPIC, name, topic.row(), place)
    except ConditionFailed as failed:
        # Our own row, written by an attempt whose answer was lost, may have been changed since.
        if failed.current is None or TopicRow.of(failed.current).topic_id != topic_id:
            yield from delete_partition_rows(topic_id, len(rows))
            with suppress(Unavailable):  # harmless: it was never born
                yield Delete(record_key(topic_id, FIRST_VERSION))
            raise TopicExists(f"topic exists: name={name}") from failed
    if not (yield from keep_rows(topic_id, len(rows))):
        raise RowsRemoved(name, topic_id)
    return NewTopic(topic, list(rows))


def put_partitions(
    topic_id: bytes, rows: Mapping[int, PartitionRow]
) -> Steps[dict[int, PartitionRow]]:
    """Those that are not there yet; the rows as the registry then has them, by number."""
    results: Sequence[PartitionRow | LogstoreError] = yield Gather(
        [_put_if_absent(topic_id, number, row) for number, row in rows.items()]
    )
    there: dict[int, PartitionRow] = {}
    for number, result in zip(rows, results, strict=True):
        if isinstance(result, LogstoreError):
            raise result
        there[number] = result
    return there


def _free_place(name: str, is_over: Callable[[bytes], bool]) -> Steps[list[Condition]]:
    """Returns the conditions on which a row of this name may be put. Raises as `create_topic`.

    Finishes a deletion that is half done: its broker may be dead, and the name would be neither
    there nor free until the controller looks.
    """
    row = yield GetRow(TOPIC, name)
    if row is not None and TopicRow.of(row).status is TopicStatus.DELETING:
        with suppress(UnknownTopic):  # finished by now
            yield from delete_topic(name, TopicRow.of(row).topic_id)
        row = yield GetRow(TOPIC, name)
    if row is None:
        return [RowAbsent()]
    last = TopicRow.of(row)
    if last.status is not TopicStatus.DELETED:
        raise TopicExists(f"topic exists: name={name}")
    if not is_over(last.topic_id):
        raise FormerLife(name, last.topic_id)
    return _is_deleted(last.topic_id)


def _is_deleted(topic_id: bytes) -> list[Condition]:
    return [
        Comparison("topic_id", "=", topic_id.hex()),
        Comparison("status", "=", TopicStatus.DELETED.value),
    ]


def forget_deleted() -> Steps[None]:
    """Remove the rows of topics that were deleted long ago, where a record says so too.

    Without the row only the record distinguishes a deleted topic from one lost by an old registry.
    """
    wall_ms: int = yield NowMs()
    for name, row in (yield QueryRows(TOPIC)):
        topic, deleted_ms = TopicRow.of(row), row.get(DELETED_MS)
        if topic.status is not TopicStatus.DELETED or not isinstance(deleted_ms, int):
            continue
        if deleted_ms + DELETED_KEPT_MS > wall_ms:
            continue
        now_ms: int = yield BelievedMs()
        if deleted_ms + DELETED_KEPT_MS <= now_ms and (yield from _has_record(topic)):
            with suppress(ConditionFailed):  # the name has a new life
                yield DeleteRow(TOPIC, name, _is_deleted(topic.topic_id))


def _has_record(topic: TopicRow) -> Steps[bool]:
    key = record_key(topic.topic_id, topic.version)
    try:
        data = yield from get_retrying(key, 0, RECORD_BYTES_MAX)
    except NotFound:
        return False
    return deletion_in([decode_record(key, data)]) is not None


def delete_topic(name: str, topic_id: bytes) -> Steps[None]:
    """Raises `UnknownTopic` when that life of the topic is over already."""
    row = yield GetRow(TOPIC, name)
    topic = None if row is None else TopicRow.of(row)
    same_life = [Comparison("topic_id", "=", topic_id.hex())]
    if topic is None or topic.topic_id != topic_id or topic.status is TopicStatus.DELETED:
        raise UnknownTopic(f"no such topic: name={name} topic_id={topic_id.hex()}")
    try:
        yield UpdateRow(TOPIC, name, {"status": TopicStatus.DELETING.value}, same_life)
        yield from delete_partition_rows(topic_id, topic.partitions)
        version = yield from _record_deletion(name, topic)
        now_ms: int = yield GraceStartMs()
        gone: Row = {
            "status": TopicStatus.DELETED.value,
            "version": version,
            DELETED_MS: now_ms,
        }
        yield UpdateRow(TOPIC, name, gone, same_life)
    except ConditionFailed:
        pass  # another deletion is in progress or done: the result is the same


def drop_lacking_topic(cluster_id: bytes, name: str, topic_id: bytes) -> Steps[Ruling]:
    """Delete a topic that lacks rows of partitions, unless chains say that it was led."""
    ruling = yield from judge_half_done(cluster_id, topic_id)
    if ruling.may:
        with suppress(UnknownTopic):
            yield from delete_topic(name, topic_id)
    return ruling


def delete_partition_rows(topic_id: bytes, partitions: int) -> Steps[None]:
    yield from _all_of([_delete_partition(topic_id, number) for number in range(partitions)])


def put_record(record: TopicRecord) -> Steps[bool]:
    """False: another record has this version."""
    data = encode_record(record)
    return (yield from create_equal(record.key, data, attempts_max=PUT_ATTEMPTS_MAX))


def _put_first_record(name: str, topic: TopicRow) -> Steps[None]:
    if not (yield from put_record(TopicRecord(name, topic))):
        raise Retryable(f"another topic has this id: topic_id={topic.topic_id.hex()}; try again")


def _record_deletion(name: str, topic: TopicRow) -> Steps[int]:
    """The version of the record that says so: the first that no other change has."""
    for version in range(topic.version + 1, topic.version + 1 + VERSIONS_TRIED_MAX):
        gone = replace(topic, status=TopicStatus.DELETED, version=version)
        if (yield from put_record(TopicRecord(name, gone))):
            return version
    raise Retryable(f"too many records of a deleted topic: name={name}; try again")


def _draw_topic_id() -> Steps[bytes]:
    """A random id whose Base64 form, which Kafka's tools show, does not begin with a dash."""
    while True:
        topic_id: bytes = yield DrawNonce()
        if topic_id[0] >> 2 != 62:
            return topic_id


def _put_partition(topic_id: bytes, number: int, row: PartitionRow) -> Steps[None]:
    pk, sk = partition_pk(topic_id, number), partition_sk(topic_id, number)
    yield PutRow(pk, sk, row.row(), [RowAbsent()])


def _put_if_absent(topic_id: bytes, number: int, row: PartitionRow) -> Steps[PartitionRow]:
    try:
        yield from _put_partition(topic_id, number, row)
    except ConditionFailed as failed:
        if failed.current is None:
            raise Retryable(f"the row of a partition came and went: partition={number}") from failed
        return PartitionRow.of(failed.current)
    return row


def _delete_partition(topic_id: bytes, number: int) -> Steps[None]:
    pk, sk = partition_pk(topic_id, number), partition_sk(topic_id, number)
    with suppress(ConditionFailed):  # gone already
        yield DeleteRow(pk, sk, [RowExists()])


def _all_of(steps: Sequence[Steps[None]]) -> Steps[None]:
    results: Sequence[LogstoreError | None] = yield Gather(steps)
    for result in results:
        if isinstance(result, LogstoreError):
            raise result
