"""Topics that a registry must have, by existing rows, records and leadership-begin entries. Pure.

    row    record     leadership-begin entry
    yes    newer      any          the record
    live   deleted    any          the row says `deleting`: the next start finishes it
    none   deleted    any          nothing: the deletion was complete
    none   live       yes          the record
    none   live       none         the record, unless another topic ever had the name
    none   none       yes          `restored-<id>` with default settings, if it has records

Of a topic's records the newest counts, also if its row was never changed to it: then its writer
died and the change was not acknowledged. A deletion counts whatever its version.

A topic that no chain has led was created a moment before its row was lost, or its creation died on
its way: both look alike, so it comes back, empty. Its name says whether it may: where another topic
has or had it, by a row or by any record, live or deleted, that one may be the later of the two.
"""

from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from logstore.errors import Refused
from logstore.formats.topic_record import TopicRecord, newest_version, record_problem, valid_record
from logstore.formats.topic_row import TopicRow, TopicStatus

RESTORED = "restored-"
"""Begins the names of topics whose own were lost."""

Records = Mapping[bytes, Sequence[TopicRecord]]
"""Those of each topic, by its id."""


class ChainTopic(NamedTuple):
    """A topic as chains hold it: how many partitions were led, and whether a record is left."""

    partitions: int
    is_empty: bool


@dataclass(slots=True)
class Topics:
    """`rows` by name; `records` are to be written before them."""

    rows: dict[str, TopicRow]
    records: list[TopicRecord] = field(default_factory=list)


def plan_topics(
    old: Mapping[str, TopicRow],
    led: Mapping[bytes, ChainTopic],
    records: Records,
    given: Mapping[bytes, str],
) -> Topics:
    """Raises `Refused` when two topics are to have one name. `given` are names of lost ones."""
    planned = Topics({})
    for name, row in old.items():
        known = records.get(row.topic_id, ())
        topic = _kept(row, known)
        if topic.status is TopicStatus.LIVE:
            topic = _recorded(planned, name, _as_led(topic, led), known)
        planned.rows[name] = topic
    there = {topic.topic_id for topic in old.values()}
    for topic_id in sorted({*led, *records} - there):
        known = records.get(topic_id, ())
        lost = _lost(topic_id, known, led.get(topic_id), given.get(topic_id))
        if lost is not None:
            _check_name(planned, lost.name, topic_id)
            topic = _recorded(planned, lost.name, _as_led(lost.topic, led), known)
            planned.rows[lost.name] = topic
    for record in _never_led(planned, led, records):
        planned.rows[record.name] = _recorded(
            planned, record.name, record.topic, records[record.topic.topic_id]
        )
    return planned


def _never_led(planned: Topics, led: Container[bytes], records: Records) -> list[TopicRecord]:
    """Live topics without a row or a leadership whose names no other topic ever had."""
    there = {topic.topic_id for topic in planned.rows.values()}
    owners: defaultdict[str, set[bytes]] = defaultdict(set)
    for name, topic in planned.rows.items():
        owners[name].add(topic.topic_id)
    for topic_id, known in records.items():
        for record in known:
            owners[record.name].add(topic_id)
    newest = [
        valid_record(records[topic_id])
        for topic_id in sorted(records)
        if topic_id not in led and topic_id not in there
    ]
    return [
        record
        for record in newest
        if record.topic.status is TopicStatus.LIVE and len(owners[record.name]) == 1
    ]


def _kept(row: TopicRow, records: Sequence[TopicRecord]) -> TopicRow:
    if row.status is not TopicStatus.LIVE or not records:
        return row
    newest = valid_record(records).topic
    if newest.status is TopicStatus.DELETED:
        return replace(row, status=TopicStatus.DELETING)
    return newest if newest.version > row.version else row


def _lost(
    topic_id: bytes, records: Sequence[TopicRecord], led: ChainTopic | None, given: str | None
) -> TopicRecord | None:
    """A topic without a row, if there is one. Without a record it may be one that was deleted.

    One that was never led has to be asked for by name, or to be the only one of its name.
    """
    if led is None and (given is None or not records):
        return None
    if records:
        newest = valid_record(records)
        is_over = newest.topic.status is not TopicStatus.LIVE
        return None if is_over else newest._replace(name=given or newest.name)
    assert led is not None, "it has no record"
    if led.is_empty and given is None:
        return None
    name = given or f"{RESTORED}{topic_id.hex()}"
    return TopicRecord(name, TopicRow(topic_id, TopicStatus.LIVE, led.partitions, {}))


def _as_led(topic: TopicRow, led: Mapping[bytes, ChainTopic]) -> TopicRow:
    """With as many partitions as were led at least."""
    chain_topic = led.get(topic.topic_id)
    count = (
        topic.partitions if chain_topic is None else max(topic.partitions, chain_topic.partitions)
    )
    return replace(topic, partitions=count)


def _check_name(planned: Topics, name: str, topic_id: bytes) -> None:
    """The row of an earlier life gives way."""
    row = planned.rows.get(name)
    if row is not None and row.status is TopicStatus.LIVE:
        raise Refused(
            f"a topic of this name exists: name={name} lost={topic_id.hex()}; "
            "give the lost one another with --topic ID=NAME"
        )


def _recorded(
    planned: Topics, name: str, topic: TopicRow, records: Sequence[TopicRecord]
) -> TopicRow:
    """The row, in the version of the record that says the same: a new one unless one is there."""
    if record_problem(name, topic, records) is None:
        return topic
    version = max(topic.version, newest_version(records)) + 1
    topic = replace(topic, version=version)
    planned.records.append(TopicRecord(name, topic))
    return topic
