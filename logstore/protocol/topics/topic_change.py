"""Change the row of a live topic: first its record in the store, then the row. Pure steps.

The row changes only from the version that the new one was made of, so of two changes at once both
are kept. A version that has another's record already is passed by, once the row has been asked
again: its writer is slow, or dead. A record written in vain is not left as the newest one.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from logstore.errors import ConditionFailed, Invalid, Retryable
from logstore.formats.partition_row import PartitionRow
from logstore.formats.topic_record import TopicRecord
from logstore.formats.topic_row import TOPIC, TopicRow, TopicStatus
from logstore.ports.registry import Comparison, Condition, Row
from logstore.protocol.steps import BackOff, GetRow, Steps, UpdateRow
from logstore.protocol.topics.life import (
    BadPartitionCount,
    UnknownTopic,
    check_partition_count,
    put_partitions,
    put_record,
)

ATTEMPTS_MAX = 20

Decide = Callable[[TopicRow], TopicRow]
"""The row as it is to be, from the row as it is; the same where nothing changes."""


def change_topic(name: str, topic_id: bytes, decide: Decide) -> Steps[TopicRow]:
    """The row as it is afterwards; nothing is written where nothing changes.

    Raises `UnknownTopic` when that life of the topic is over, `Retryable` after losing many races,
    the `Invalid` that `decide` does, and as store and registry do.
    """
    taken, in_vain = 0, 0
    for attempt in range(1, ATTEMPTS_MAX + 1):
        row: Row | None = yield GetRow(TOPIC, name)
        topic = None if row is None else TopicRow.of(row)
        if row is None or topic is None or not _is_alive(topic, topic_id):
            raise UnknownTopic(f"no such topic: name={name} topic_id={topic_id.hex()}")
        wanted, refusal = _decided(decide, topic)
        if wanted != topic or in_vain > topic.version:
            taken = max(taken, topic.version) + 1
            wanted = replace(wanted, version=taken)
            if not (yield from put_record(TopicRecord(name, wanted))):
                yield BackOff(attempt)
                continue
            in_vain = taken
            if not (yield from _update(name, row, wanted)):
                yield BackOff(attempt)
                continue
        if refusal is not None:
            raise refusal
        return wanted
    raise Retryable(f"too many concurrent changes of this topic: name={name}; try again")


class Grown(NamedTuple):
    """A topic's row, and those of its new partitions by number, as the registry has them."""

    topic: TopicRow
    partitions: Mapping[int, PartitionRow]


def create_partitions(name: str, topic_id: bytes, rows: Mapping[int, PartitionRow]) -> Steps[Grown]:
    """Let a topic grow by `rows`, whose numbers follow those it has.

    A partition row that is there already is from an attempt that died before the topic's row was
    raised. It stays, and it may name another leader by now than `rows` do: only the leader that the
    registry names may lead. Raises `UnknownTopic`, or `BadPartitionCount` when the topic has grown
    in the meantime.
    """
    before, after = min(rows), max(rows) + 1
    check_partition_count(after)

    def grown(topic: TopicRow) -> TopicRow:
        if before < topic.partitions < after:
            raise BadPartitionCount(
                f"topic was grown by a concurrent change: name={name} partitions={topic.partitions}"
            )
        return replace(topic, partitions=max(topic.partitions, after))

    there = yield from put_partitions(topic_id, rows)
    return Grown((yield from change_topic(name, topic_id, grown)), there)


def _is_alive(topic: TopicRow, topic_id: bytes) -> bool:
    return topic.topic_id == topic_id and topic.status is TopicStatus.LIVE


def _decided(decide: Decide, topic: TopicRow) -> tuple[TopicRow, Invalid | None]:
    try:
        return decide(topic), None
    except Invalid as refusal:
        return topic, refusal


def _update(name: str, before: Row, wanted: TopicRow) -> Steps[bool]:
    """Whether the row was still what `wanted` was made of."""
    sets = {k: value for k, value in wanted.row().items() if before.get(k) != value}
    try:
        yield UpdateRow(TOPIC, name, sets, _as_it_was(before))
    except ConditionFailed:
        return False
    return True


def _as_it_was(row: Row) -> list[Condition]:
    """Conditions for an unchanged row; a row from before versions existed is compared by value."""
    identifying = ("version",) if "version" in row else ("partitions", "configs")
    return [Comparison(name, "=", row[name]) for name in ("topic_id", "status", *identifying)]
