"""Positions of a query, their JSON, and their comparison with the log. Pure.

    {"topics": {"orders": {"id": "5f0c…", "next": {"0": 1200, "1": 1187}}}, "version": 1}

`next` is the first offset not read yet. The topic id is that of one life of the topic: deleted and
created again, it is another topic, and its offsets start over. Spark compares these as text, so
equal positions must give equal text: topics by name, partitions by number, nothing that changes by
itself.

The end of a batch also has `first`, for each partition whose first batch it is: where it begins.

    {"topics": {"orders": {"first": {"1": 40}, "id": "5f0c…", "next": {"0": 1200, "1": 1187}}}, …}

Spark stores where batch 0 ends, and asks again where it began when it replays it: by then log start
or a time may lead elsewhere. A partition that is new has no place in the batch's start at all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from logstore.errors import Invalid, Refused
from logstore.formats.offset_range import OffsetRange
from logstore.formats.topic_partition import TopicPartition
from logstore.reading.planning.extents import Extent, Extents, TopicExtent, TopicRange
from spark_source.planning.choices import EARLIEST, LATEST, OffsetChoice

VERSION = 1
LOSSES_SHOWN = 5  # in one error; a lost topic may have thousands of partitions

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class TopicPosition:
    """How far one life of a topic has been read: next offset by partition."""

    topic_id: bytes
    next: Mapping[int, int]


Position = Mapping[str, TopicPosition]


def position_to_json(position: Position, first: Position | None = None) -> Json:
    """`first` is for the end of a batch: where partitions begin that had no batch before."""
    topics = {}
    for name, topic in sorted(position.items()):
        known = (first or {}).get(name)
        begun = {} if known is None else {"first": _offsets_to_json(known)}
        topics[name] = {
            **begun,
            "id": topic.topic_id.hex(),
            "next": _offsets_to_json(topic),
        }
    return {"topics": topics, "version": VERSION}


def position_of_json(data: Json) -> Position:
    """Raises `Refused` for what this version did not write."""
    return _read(data, "next")


def begin_of_batch(start: Json, end: Json) -> Position:
    """Where a batch between two offsets begins: at `start`, unless its end says otherwise.

    Raises `Refused` for what this version did not write.
    """
    begin = dict(position_of_json(start))
    for name, first in _read(end, "first").items():
        known = begin.get(name)
        others = known.next if known is not None and known.topic_id == first.topic_id else {}
        begin[name] = TopicPosition(first.topic_id, {**others, **first.next})
    return begin


def _offsets_to_json(topic: TopicPosition) -> dict[str, int]:
    return {str(partition): offset for partition, offset in sorted(topic.next.items())}


def _read(data: Json, field: str) -> Position:
    """Of topics that have it, in what `position_to_json` wrote."""
    if data.get("version") != VERSION:
        raise Refused(
            f"offsets of an unknown version: version={data.get('version')} known={VERSION}; the "
            "checkpoint belongs to a newer version of logstore, or to another source"
        )
    try:
        return {
            name: TopicPosition(
                bytes.fromhex(topic["id"]),
                {int(partition): int(offset) for partition, offset in topic[field].items()},
            )
            for name, topic in data["topics"].items()
            if field == "next" or field in topic
        }
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Refused(
            f"offsets that cannot be read: {error!r}; is the checkpoint damaged?"
        ) from error


def latest(extents: Extents) -> Position:
    return {
        name: TopicPosition(
            topic.topic_id, {number: extent.end for number, extent in topic.partitions.items()}
        )
        for name, topic in extents.items()
    }


def chosen(extents: Extents, choice: OffsetChoice, option: str) -> Position:
    """The position that `startingOffsets` or `endingOffsets` (its name is `option`) asks for.

    Raises `Invalid` for partitions that do not exist and offsets above the end of the log.
    """
    position: dict[str, TopicPosition] = {}
    for name, topic in extents.items():
        given = choice.given.get(name, {})
        if unknown := sorted(set(given) - set(topic.partitions)):
            raise Invalid(
                f"option {option} names partitions that do not exist: topic={name} "
                f"partitions={unknown} existing=0 to {len(topic.partitions) - 1}"
            )
        position[name] = TopicPosition(
            topic.topic_id,
            {
                number: _offset(given.get(number, choice.default), extent, option, name, number)
                for number, extent in topic.partitions.items()
            },
        )
    return position


def _offset(asked: int, extent: Extent, option: str, topic: str, partition: int) -> int:
    if asked == EARLIEST:
        return extent.start
    if asked == LATEST:
        return extent.end
    if asked > extent.end:
        raise Invalid(
            f"option {option} is beyond the end: topic={topic} partition={partition} "
            f"offset={asked} end={extent.end}"
        )
    return asked


def check_order(start: Position, end: Position) -> None:
    """Raises `Invalid` where a batch would end before it starts."""
    for name, topic in sorted(end.items()):
        for number, until in sorted(topic.next.items()):
            since = start[name].next[number]
            if since > until:
                raise Invalid(
                    f"the start is after the end: topic={name} partition={number} start={since} "
                    f"end={until}; correct startingOffsets or endingOffsets, or the options that "
                    "give them by time"
                )


def settle(
    position: Position, extents: Extents, *, fail_on_data_loss: bool, option: str = ""
) -> Position:
    """Where reading can go on from `position`: every partition there is, none that is gone.

    New partitions begin at their start. Raises `Refused` where records were lost to this query,
    or without `fail_on_data_loss` continues with the remaining ones. `option`: its origin.

    Raises `Refused` whatever `fail_on_data_loss` says where the log ends below `position`. No log
    loses its end: the registry is older than the log. A query that went back to that end would read
    the same offsets twice after `logstore restore`, or skip those that its batch ends with.
    """
    _check_ends(position, extents)
    losses = list(_losses(position, extents))
    if losses and fail_on_data_loss:
        raise _lost(losses, f" (option {option} asks for them)" if option else "")
    settled: dict[str, TopicPosition] = {}
    for name, topic in extents.items():
        known = position.get(name)
        read = known.next if known is not None and known.topic_id == topic.topic_id else {}
        following = {}
        for number, extent in topic.partitions.items():
            offset = read.get(number, extent.start)
            following[number] = max(offset, extent.start)
        settled[name] = TopicPosition(topic.topic_id, following)
    return settled


def _check_ends(position: Position, extents: Extents) -> None:
    """Raises `Refused` where a partition, in the same life of its topic, ends below `position`."""
    shorter = [
        f"topic={name} id={topic.topic_id.hex()} partition={number} offset={offset} "
        f"there=[{extent.start}, {extent.end})"
        for name, topic in sorted(position.items())
        if (now := extents.get(name)) is not None and now.topic_id == topic.topic_id
        for number, offset in sorted(topic.next.items())
        if (extent := now.partitions.get(number)) is not None and offset > extent.end
    ]
    if shorter:
        more = len(shorter) - LOSSES_SHOWN
        raise Refused(
            f"the log ends below offsets of this query: {'; '.join(shorter[:LOSSES_SHOWN])}"
            f"{f'; and {more} more' if more > 0 else ''}; the registry is older than the log: stop "
            "the brokers, run: logstore restore, then start this query again. failOnDataLoss does "
            "not apply: the same offsets would be read twice. If the records above the end are "
            "lost for good, start a new query with startingOffsets and another checkpointLocation"
        )


def _lost(losses: Sequence[str], asked: str = "") -> Refused:
    shown, more = losses[:LOSSES_SHOWN], len(losses) - LOSSES_SHOWN
    return Refused(
        f"records of this query are gone{asked}: {'; '.join(shown)}"
        f"{f'; and {more} more' if more > 0 else ''}; to go on with what is left, set "
        "failOnDataLoss to false"
    )


def _losses(position: Position, extents: Extents) -> list[str]:
    losses = []
    for name, topic in sorted(position.items()):
        now = extents.get(name)
        if now is None:
            losses.append(f"topic was deleted, or is no longer subscribed: topic={name}")
        elif now.topic_id != topic.topic_id:
            losses.append(
                f"topic was deleted and created again: topic={name} "
                f"id={topic.topic_id.hex()} now={now.topic_id.hex()}"
            )
        else:
            losses += _lost_offsets(name, topic, now)
    return losses


def _lost_offsets(name: str, topic: TopicPosition, now: TopicExtent) -> list[str]:
    losses = []
    for number, offset in sorted(topic.next.items()):
        extent = now.partitions.get(number)
        if extent is None:
            losses.append(
                f"partition is gone, or is no longer assigned: topic={name} partition={number} "
                f"offset={offset}"
            )
        elif offset < extent.start:
            losses.append(
                f"offset is not in the log: topic={name} partition={number} "
                f"offset={offset} there=[{extent.start}, {extent.end})"
            )
    return losses


def begun(position: Position, begin: Position) -> Position:
    """Of `begin`, where `position` settled, what is not in `position`: new partitions."""
    positions = {}
    for name, topic in begin.items():
        known = position.get(name)
        read = known.next if known is not None and known.topic_id == topic.topic_id else {}
        new = {number: offset for number, offset in topic.next.items() if number not in read}
        if new:
            positions[name] = TopicPosition(topic.topic_id, new)
    return positions


def check_begun(new: Position, extents: Extents, *, fail_on_data_loss: bool) -> None:
    """Raises `Refused` where a new partition has lost records before the query saw it."""
    losses = [
        f"partition is new to the query and does not begin at 0: topic={name} "
        f"partition={number} there=[{offset}, {extents[name].partitions[number].end})"
        for name, topic in sorted(new.items())
        for number, offset in sorted(topic.next.items())
        if offset > 0
    ]
    if losses and fail_on_data_loss:
        raise _lost(losses)


def has_new_offsets(position: Position, extents: Extents) -> bool:
    """Whether going on from `position` would lead anywhere else."""
    return not covers(extents, position) or any(
        name not in position or position[name].next.get(number) != extent.end
        for name, topic in extents.items()
        for number, extent in topic.partitions.items()
    )


def covers(extents: Extents, position: Position) -> bool:
    """Whether `extents` know every topic, by its id, and every offset of `position`."""
    for name, topic in position.items():
        known = extents.get(name)
        if known is None or known.topic_id != topic.topic_id:
            return False
        for number, offset in topic.next.items():
            extent = known.partitions.get(number)
            if extent is None or offset > extent.end:
                return False
    return True


def farther(first: Position, second: Position) -> Position:
    """Per partition, the larger offset of two positions in the same lives of the same topics."""
    return {
        name: TopicPosition(
            topic.topic_id,
            {
                number: max(offset, first[name].next[number])
                for number, offset in topic.next.items()
            },
        )
        for name, topic in second.items()
    }


def ranges_between(start: Position, end: Position) -> list[TopicRange]:
    """Ranges between two positions; none for a partition whose start is not below its end."""
    ranges = []
    for name, topic in sorted(end.items()):
        known = start.get(name)
        read = known.next if known is not None and known.topic_id == topic.topic_id else {}
        for number, until in sorted(topic.next.items()):
            since = read.get(number, 0)
            if since < until:
                partition = TopicPartition(topic.topic_id, number)
                ranges.append(TopicRange(name, OffsetRange(partition, since, until)))
    return ranges
