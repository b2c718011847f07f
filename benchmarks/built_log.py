"""A long log without its segments: checkpoints and rows by the real encoders, in a directory.

A planner of reads needs no more, as long as chains end at a checkpoint. Chains are open, and each
leads its share of one topic's partitions. Segment n of a chain holds one batch of each of some
partitions, the next ones in turn.
"""

import asyncio
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

from logstore.epoch.writer import ChainLimits
from logstore.formats.chain_row import CHAIN, ChainRow, ChainStatus, chain_sk
from logstore.formats.chain_state import ChainState
from logstore.formats.checkpoint import decode_checkpoint, encode_checkpoint, rebase
from logstore.formats.keys import checkpoint_key
from logstore.formats.partition_row import EpochEntry, PartitionRow, partition_pk, partition_sk
from logstore.formats.partition_state import PartitionState, encode_state
from logstore.formats.segment import Entry, EntryKind, Header, Index, SegmentKind
from logstore.formats.topic_row import TOPIC, TopicRow, TopicStatus
from logstore.ports.clock import SystemClock
from logstore.protocol.steps import Create, PutRow, Steps
from logstore.wiring.open import OpenLog, open_log

TOPIC_NAME = "orders"
TOPIC_ID = bytes(range(16))
RECORDS_PER_BATCH = 100
BODY_BYTES = 1_000_000
BATCH_BYTES = 1_000
CREATED_MS = 1_700_000_000_000
ROWS_TOGETHER = 500


@dataclass(frozen=True, slots=True)
class Shape:
    """`chains` brokers, each with its share of `partitions` and with `segments` segments."""

    chains: int
    partitions: int
    segments: int
    batches_per_segment: int

    def partitions_of(self, chain: int) -> Sequence[int]:
        return range(chain, self.partitions, self.chains)


def build(directory: Path, shape: Shape) -> None:
    asyncio.run(_build(directory, shape))


async def _build(directory: Path, shape: Shape) -> None:
    opened = await open_log(str(directory), clock=SystemClock(), rng=random.Random(1))
    try:
        rows = [_topic_row(shape)]
        for number in range(shape.chains):
            rows += await _put_chain(opened, shape, number)
        for first in range(0, len(rows), ROWS_TOGETHER):
            await asyncio.gather(
                *(opened.runner.run(row) for row in rows[first : first + ROWS_TOGETHER])
            )
    finally:
        await opened.close()


async def _put_chain(opened: OpenLog, shape: Shape, number: int) -> list[Steps[None]]:
    """Its checkpoints; the rows that are to name it."""
    limits = ChainLimits()
    chain = ChainState(opened.identity.cluster_id, epoch=number + 1)
    ends = dict.fromkeys(shape.partitions_of(number), 0)
    takes = [_take(partition) for partition in ends]
    turns = cycle(ends)
    for seq in range(shape.segments):
        entries = takes if seq == 1 else []
        if seq > 1:
            entries = [_batch(p, ends) for p in islice(turns, shape.batches_per_segment)]
        chain.apply_segment(_index(chain, entries), {0: _NO_STATE})
        is_due = len(chain.spans) >= limits.checkpoint_segments
        if is_due or chain.entry_count >= limits.checkpoint_entries or seq == shape.segments - 1:
            data = encode_checkpoint(chain)
            await opened.runner.run(_create(checkpoint_key(chain.epoch, chain.next_seq), data))
            rebase(chain, decode_checkpoint(data))
            chain.entry_count = 0
    return list(_rows_of(chain, number))


def _index(chain: ChainState, entries: Sequence[Entry]) -> Index:
    seq = chain.next_seq
    header = Header(
        kind=SegmentKind.DATA if seq else SegmentKind.OPENING,
        cluster_id=chain.cluster_id,
        epoch=chain.epoch,
        seq=seq,
        broker=chain.epoch,
        entry_count=len(entries),
        nonce=(seq + 1).to_bytes(16),
        previous_nonce=chain.last_nonce,
        created_ms=CREATED_MS + seq,
        index_bytes=96 * len(entries),
        place_count=0,
        body_bytes=BODY_BYTES,
        body_crc=0,
    )
    return Index(header, entries, ())


_NO_STATE = encode_state(PartitionState())


def _take(partition: int) -> Entry:
    return _entry(EntryKind.TAKE, partition, 0, -1)


def _batch(partition: int, ends: dict[int, int]) -> Entry:
    start = ends[partition]
    ends[partition] = start + RECORDS_PER_BATCH
    return _entry(EntryKind.BATCH, partition, start, start + RECORDS_PER_BATCH - 1)


def _entry(kind: EntryKind, partition: int, base_offset: int, last_offset: int) -> Entry:
    return Entry(
        kind=kind,
        flags=0,
        place=0,
        partition=partition,
        topic_id=TOPIC_ID,
        leader_epoch=0,
        length=BATCH_BYTES,
        position=0,
        base_offset=base_offset,
        last_offset=last_offset,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        max_timestamp=CREATED_MS + base_offset,
        max_timestamp_offset=last_offset,
        record_count=last_offset - base_offset + 1,
        crc=0,
    )


def _rows_of(chain: ChainState, number: int) -> Iterator[Steps[None]]:
    row = ChainRow(broker=chain.epoch, status=ChainStatus.OPEN, checkpoint=chain.checkpoint)
    yield _put(CHAIN, chain_sk(chain.epoch), row)
    for key in chain.epoch_ranges:
        found = PartitionRow(
            broker=chain.epoch,
            chain=chain.epoch,
            leader_epoch=0,
            log_start=0,
            epoch_ranges=(EpochEntry(0, chain.epoch, 0),),
            replicas=(chain.epoch,),
        )
        yield _put(partition_pk(TOPIC_ID, key.partition), partition_sk(*key[:2]), found)


def _topic_row(shape: Shape) -> Steps[None]:
    return _put(TOPIC, TOPIC_NAME, TopicRow(TOPIC_ID, TopicStatus.LIVE, shape.partitions, {}))


def _put(pk: str, sk: str, row: ChainRow | PartitionRow | TopicRow) -> Steps[None]:
    yield PutRow(pk, sk, row.row(), ())


def _create(key: str, data: bytes) -> Steps[None]:
    yield Create(key, (data,))
