"""First offsets at or after a time, of many partitions side by side, in segments. Steps."""

from collections.abc import Sequence
from typing import NamedTuple

from logstore.errors import LogstoreError
from logstore.formats.chain_state import EpochKey
from logstore.formats.index_rows import find_time, row_at
from logstore.formats.keys import segment_key
from logstore.formats.partition_row import EpochEntry, PartitionRow
from logstore.formats.segment import decode_header
from logstore.formats.topic_partition import TopicPartition
from logstore.protocol.chain.follow import Follower
from logstore.protocol.chain.walk import get_retrying
from logstore.protocol.partitions.lookup import NotListed, rows_for_time
from logstore.protocol.steps import Gather, Steps, results_of
from logstore.reading.direct.followed_chains import FollowedChains
from logstore.records.lookup import first_record_at_or_after


class TimeLookup(NamedTuple):
    """Wanted: the first record at or after `timestamp` (ms) among offsets [start, end)."""

    key: TopicPartition
    row: PartitionRow
    timestamp: int
    start: int
    end: int

    @property
    def epoch_ranges(self) -> list[EpochEntry]:
        """Those that hold wanted offsets, in order."""
        ends = ((ref, self.row.end_of(place)) for place, ref in enumerate(self.row.epoch_ranges))
        return [ref for ref, end in ends if end is None or end > self.start]


def offsets_for_time(
    chains: FollowedChains, wanted: Sequence[TimeLookup]
) -> Steps[list[int | None]]:
    """For each, the offset of that record; None without one.

    Raises `NotListed` where a row lists no epoch range for offsets from `start` on: these are
    in the topic's table.
    """
    for one in wanted:
        first = one.row.epoch_ranges[0].start
        if one.start < min(first, one.end):
            raise NotListed(f"epoch ranges are no longer listed: offset={one.start} first={first}")
    # Before look-ups run side by side, so that no two of them enter one chain.
    unique = sorted({ref.chain for one in wanted for ref in one.epoch_ranges})
    entered: Sequence[Follower | LogstoreError | None] = yield Gather(
        [chains.enter(chain) for chain in unique]
    )
    results_of(entered)
    offsets: Sequence[int | LogstoreError | None] = yield Gather(
        [_offset_for_time(chains, one) for one in wanted]
    )
    return [
        None if offset is None else max(offset, one.start)
        for one, offset in zip(wanted, results_of(offsets), strict=True)
    ]


def _offset_for_time(chains: FollowedChains, wanted: TimeLookup) -> Steps[int | None]:
    for ref in wanted.epoch_ranges:
        key = EpochKey(wanted.key.topic_id, wanted.key.partition, ref.leader_epoch)
        checkpoints = yield from chains.checkpoints(ref.chain)
        located = yield from rows_for_time(
            chains.cache, ref.chain, checkpoints, key, wanted.timestamp, wanted.start
        )
        row = None if located is None else row_at(located.rows, located.number)
        follower = yield from chains.enter(ref.chain)
        if row is None and follower is not None:
            epoch_range = follower.state.epoch_ranges.get(key)
            rows = [] if epoch_range is None else [epoch_range.rows]
            here = find_time(rows, wanted.timestamp, wanted.start)
            row = None if here is None else row_at(*here)
        if row is not None:
            data = yield from _read_body_range(ref.chain, row.seq, row.position, row.length)
            record = first_record_at_or_after(
                memoryview(data), wanted.timestamp, from_offset=wanted.start
            )
            if record is None and row.base_offset < wanted.start <= row.last_offset:
                # Only records below the start are late enough in this batch.
                after = wanted._replace(start=row.last_offset + 1)
                return (yield from _offset_for_time(chains, after))
            return None if record is None or record[0] >= wanted.end else record[0]
    return None


def _read_body_range(chain: int, seq: int, position: int, length: int) -> Steps[bytes]:
    key = segment_key(chain, seq)
    header = decode_header((yield from get_retrying(key, 0, 4096)))
    return (yield from get_retrying(key, header.body_at + position, length))
