"""Epoch ranges of an open chain that are no longer needed: its owner forgets them.

A checkpoint holds every epoch range of its chain with its whole state, so that a chain that is open
for months would carry all partitions that were ever led here. An epoch range may be forgotten when

    its topic is deleted, and a record says so, which is final, or
    it was released, its partition's row, of a later leadership, lists it no more, and it has no
    offsets from log start on, by a log start that has its reason (`disposal`)

A search for an epoch range in a chain starts from a partition's row. A row drops an epoch range
only when a later one has a committed leadership-begin entry, which holds the state that would be
inherited, and when the epoch range has no offsets from log start on, or the topic's table holds
them. A reader with an older row finds nothing in the chain and reads the row again (safety rule 6);
trimming has nothing to hold for; restore finds the later leadership-begin entry.

Forgetting is an entry in the chain: a checkpoint stays a function of it. Nothing is lost by it that
the segments hold, and none is deleted by it. Repeatable.

Without the registry, an epoch range that log start passed and one that was lost look the same:
offsets that no chain holds. So the chain says of each partition below which offset its records were
deleted, in an entry before those that forget, and in its checkpoints, until the topic is deleted.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from logstore.epoch.leader import Leader
from logstore.epoch.writer import ChainWriter
from logstore.errors import LogstoreError
from logstore.formats.chain_state import EpochKey, EpochRange
from logstore.formats.partition_row import PartitionRow
from logstore.formats.topic_partition import TopicPartition
from logstore.protocol.chain.seal import read_chain_row
from logstore.protocol.leading.leadership import is_shorter, shorten_row
from logstore.protocol.rows.metadata import read_partition_row
from logstore.protocol.rules.disposal import confirmed_start
from logstore.protocol.steps import Gather, Steps, sliced
from logstore.protocol.topics.witnesses import read_deletions
from logstore.runners.step_runner import StepRunner
from logstore.slices import Slices, parts_of

NOTHING: Mapping[TopicPartition, int] = {}
"""Ends of tables if there are none, or none was read."""

AT_ONCE_MAX = 1_000
"""Of each kind and pass: the rest has its turn with the next."""

SLICE_LEADERS = 1_000
"""Some two milliseconds of work."""


CHECKPOINTS_LISTED_MIN = 64
"""Where a chain has had no more, its list of them is not worth an entry that cuts it."""


class Forgettable(NamedTuple):
    """Epoch ranges that may be forgotten, and which topics are deleted, as a record says."""

    epoch_ranges: Sequence[EpochKey]
    deleted: Collection[bytes]


async def forget_ended(
    runner: StepRunner, writer: ChainWriter, leaders: Iterable[Leader], live: Collection[bytes]
) -> int:
    """Have the owner of a chain forget what is `find_forgettable`; how many epoch ranges.

    Epoch ranges of `leaders` that are not released go on. Checkpoints that are deleted are taken
    off the chain's list, too. Raises `Fenced`, or as store and registry do.
    """
    ended = await runner.run(
        sliced(_ended(tuple(writer.chain.epoch_ranges), tuple(leaders), writer))
    )
    noted = {partition.topic_id for partition in writer.chain.deleted_below}
    forgettable = Forgettable((), ())
    if ended or not noted <= set(live):
        forgettable = await runner.run(find_forgettable(ended, live, noted))
    for partition, offset in deleted_below(ended, forgettable, writer.chain.deleted_below).items():
        writer.note_deleted(partition, offset)
    for key in forgettable.epoch_ranges:
        writer.forget(key)
    if len(writer.chain.checkpoints) >= CHECKPOINTS_LISTED_MIN:
        row = await runner.run(read_chain_row(writer.chain.epoch))
        if writer.chain.checkpoints[0] < row.deleted:
            writer.drop_checkpoints(row.deleted)
    return len(forgettable.epoch_ranges)


def _ended(
    keys: Sequence[EpochKey], leaders: Sequence[Leader], writer: ChainWriter
) -> Slices[dict[EpochKey, EpochRange]]:
    """Those of `keys` that no leader goes on with; both were listed at one moment.

    Between slices leaderships begin, which are not in `keys`, and end.
    """
    led: set[EpochKey] = set()
    for some in parts_of(leaders, SLICE_LEADERS):
        led.update(leader.key for leader in some if not leader.is_released)
        yield
    ended = {}
    for part in parts_of(keys, SLICE_LEADERS):
        for key in part:
            epoch_range = writer.chain.epoch_ranges.get(key)
            if epoch_range is not None and key not in led:
                ended[key] = epoch_range
        yield
    return ended


async def shorten_rows(
    runner: StepRunner,
    leaders: Iterable[Leader],
    durable_ends: Mapping[TopicPartition, int] = NOTHING,
) -> int:
    """Drop epoch ranges below log start, or below the end that `durable_ends` has for their
    partition, from the rows of partitions led here. Returns how many rows changed.

    Else a row would list them until the next change of leader, and those in the table for as long
    as the partition keeps its records. `durable_ends` is what tables hold by safety rule 7.
    """
    long = await runner.run(sliced(_long(tuple(leaders), durable_ends)))
    rows = await runner.run(
        _together(
            [
                shorten_row(
                    one.topic_partition,
                    one.row,
                    _durable_end(one, durable_ends),
                )
                for one in long
            ]
        )
    )
    for leader, row in zip(long, rows, strict=True):
        if isinstance(row, PartitionRow) and row.leader_epoch == leader.leader_epoch:
            leader.follow_row(replace(leader.row, epoch_ranges=row.epoch_ranges))
    return sum(isinstance(row, PartitionRow) for row in rows)


def _long(
    leaders: Sequence[Leader], durable_ends: Mapping[TopicPartition, int]
) -> Slices[list[Leader]]:
    """Leaders whose row can be shortened, as each was when its turn came."""
    long: list[Leader] = []
    for some in parts_of(leaders, SLICE_LEADERS):
        long += [
            leader
            for leader in some
            if leader.has_begun
            and not leader.is_released
            and is_shorter(leader.row, _durable_end(leader, durable_ends))
        ]
        if len(long) >= AT_ONCE_MAX:
            break
        yield
    return long[:AT_ONCE_MAX]


def _durable_end(leader: Leader, durable_ends: Mapping[TopicPartition, int]) -> int:
    return durable_ends.get(leader.topic_partition, 0)


def _together(
    steps: Sequence[Steps[PartitionRow | None]],
) -> Steps[Sequence[PartitionRow | LogstoreError | None]]:
    results: Sequence[PartitionRow | LogstoreError | None] = yield Gather(steps)
    return results


def find_forgettable(
    ended: Mapping[EpochKey, EpochRange], live: Collection[bytes], noted: Collection[bytes] = ()
) -> Steps[Forgettable]:
    """Those of `ended`, epoch ranges that are not led here any more, that may be forgotten.

    `live` are topic ids; any other may be deleted, or just unknown here. Whether topics in `noted`
    are deleted is asked too. Raises as stores do.
    """
    gone = sorted({*noted, *(key.topic_id for key in ended)} - set(live))[:AT_ONCE_MAX]
    deleted = yield from read_deletions(gone)
    moved = [key for key, one in ended.items() if key.topic_id in live and one.released]
    partitions = list(islice(dict.fromkeys(TopicPartition(*key[:2]) for key in moved), AT_ONCE_MAX))
    rows = dict(zip(partitions, (yield from _read_rows(partitions)), strict=True))
    epoch_ranges = [
        key
        for key in ended
        if key.topic_id in deleted
        or is_dropped(key, ended[key], rows.get(TopicPartition(*key[:2])))
    ]
    return Forgettable(epoch_ranges, frozenset(deleted))


def deleted_below(
    ended: Mapping[EpochKey, EpochRange],
    forgettable: Forgettable,
    noted: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Ends of deleted records that the chain has to note, beside those `noted` already, before
    the `forgettable` of `ended` are forgotten. 0 for partitions of deleted topics.

    An epoch range with records is forgotten only when log start has passed its end. One without
    records proves nothing: log start may lie below it.
    """
    new = {partition: 0 for partition in noted if partition.topic_id in forgettable.deleted}
    for key in forgettable.epoch_ranges:
        epoch_range, partition = ended[key], key.topic_partition
        if key.topic_id not in forgettable.deleted and epoch_range.end > epoch_range.start:
            known = max(new.get(partition, 0), noted.get(partition, 0))
            if epoch_range.end > known:
                new[partition] = epoch_range.end
    return new


def is_dropped(key: EpochKey, epoch_range: EpochRange, row: PartitionRow | None) -> bool:
    """Whether the partition's row says that an epoch range is over and needed no more.

    A row also drops epoch ranges that the table holds. Those are not forgotten: trimming asks the
    table about them again before it deletes.
    """
    if row is None or not epoch_range.released or key.leader_epoch >= row.leader_epoch:
        return False
    if epoch_range.end > max(epoch_range.start, confirmed_start(row)):
        return False
    return all(key.leader_epoch != ref.leader_epoch for ref in row.epoch_ranges)


def _read_rows(partitions: Sequence[TopicPartition]) -> Steps[list[PartitionRow | None]]:
    outcomes = yield from _together([read_partition_row(*one) for one in partitions])
    return [None if isinstance(one, LogstoreError) else one for one in outcomes]
