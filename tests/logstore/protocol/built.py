"""A chain built by hand, segment by segment, with whatever is wrong about it."""

import random
from dataclasses import replace

from logstore.formats.chain_row import CHAIN, ChainRow, ChainStatus, chain_sk
from logstore.formats.chain_state import ChainState
from logstore.formats.checkpoint import encode_checkpoint
from logstore.formats.cluster_row import CLUSTER, ClusterRow
from logstore.formats.keys import checkpoint_key, segment_key
from logstore.formats.leadership_payload import encode_inline
from logstore.formats.partition_state import PartitionState, encode_state
from logstore.formats.segment import EntryKind, SegmentKind
from logstore.formats.segment_builder import (
    Arena,
    FrozenSegment,
    SegmentBuilder,
    bare_header,
    freeze_bare,
)
from logstore.objects.memory import MemoryObjects, MemoryStore
from logstore.ports.clock import SystemClock
from logstore.ports.registry import Row
from logstore.protocol.chain.walk import read_on
from logstore.registry.memory import MemoryRows
from logstore.registry.retrying import RetryingRegistry
from logstore.runners.step_runner import BlockingStepRunner, StepRunner
from logstore.testing.simulated_rows import at_once
from logstore.testing.virtual_loop import VirtualClock
from tests.golden.samples import BROKER, CLUSTER_ID, CREATED_MS, EPOCH, TOPIC_ID, nonce


def open_chain_row() -> ChainRow:
    return ChainRow(broker=BROKER, status=ChainStatus.OPEN)


class BuiltChain:
    """Chain `EPOCH` in a store of its own. `add` puts what is given at the next seq."""

    def __init__(self) -> None:
        self.objects = MemoryObjects(SystemClock())
        self.rows = MemoryRows()
        self.rng = random.Random(0)
        self.clock = VirtualClock()
        self.seq = 0
        self.offset = 0

    @property
    def runner(self) -> StepRunner:
        registry = RetryingRegistry(
            self.rows, lambda: self.rng.randbytes(8).hex(), self.clock, self.rng
        )
        store = MemoryStore(self.objects)
        return StepRunner(store, registry, self.clock, self.rng, lambda: self.rng.randbytes(16))

    def set_row(self, pk: str, sk: str, row: Row) -> None:
        at_once(self.rows.put_if(pk, sk, row, [], self.rng.randbytes(8).hex()))

    def register(self, row: ChainRow) -> None:
        self.set_row(CHAIN, chain_sk(EPOCH), row.row())

    def register_cluster(self, next_epoch: int) -> None:
        self.set_row(CLUSTER, CLUSTER, ClusterRow(CLUSTER_ID, next_epoch, 1).row())

    def chain_row(self, epoch: int = EPOCH) -> ChainRow:
        row = at_once(self.rows.get(CHAIN, chain_sk(epoch)))
        assert row is not None
        return ChainRow.of(row)

    def add(self, segment: FrozenSegment) -> None:
        self.objects.create(segment_key(EPOCH, self.seq), segment.parts)
        self.seq += 1

    def add_opening(self) -> None:
        self.add(self.bare(SegmentKind.OPENING, bytes(16)))

    def add_seal(self) -> None:
        self.add(self.bare(SegmentKind.SEAL, nonce(self.seq - 1)))

    def add_take(self, *, leader_epoch: int = 0, payload: bytes | None = None) -> None:
        self.add(self.frozen(self.with_take(self.builder(), leader_epoch, payload)))

    def add_release(self, *, leader_epoch: int = 0) -> None:
        builder = self.builder()
        builder.add_state_entry(
            EntryKind.RELEASE,
            topic_id=TOPIC_ID,
            partition=0,
            leader_epoch=leader_epoch,
            offset=self.offset,
            payload=encode_inline(encode_state(PartitionState())),
        )
        self.add(self.frozen(builder))

    def add_batches(self, *counts: int, leader_epoch: int = 0) -> None:
        builder = self.builder()
        for count in counts:
            self.with_batch(builder, count, leader_epoch)
        self.add(self.frozen(builder))

    def builder(self) -> SegmentBuilder:
        return SegmentBuilder(Arena(1 << 20), CREATED_MS + self.seq)

    def with_take(
        self, builder: SegmentBuilder, leader_epoch: int, payload: bytes | None = None
    ) -> SegmentBuilder:
        builder.add_state_entry(
            EntryKind.TAKE,
            topic_id=TOPIC_ID,
            partition=0,
            leader_epoch=leader_epoch,
            offset=self.offset,
            payload=payload or encode_inline(encode_state(PartitionState())),
        )
        return builder

    def with_batch(
        self, builder: SegmentBuilder, count: int, leader_epoch: int, *, skip: int = 0
    ) -> None:
        position, base = builder.body_bytes, self.offset + skip
        builder.add_bytes(b"b" * 70)
        builder.add_batch_entry(
            0, 0, TOPIC_ID, leader_epoch, 70, position, base, base + count - 1,
            -1, -1, -1, CREATED_MS + base, -1, count,
        )  # fmt: skip
        self.offset = base + count

    def frozen(
        self, builder: SegmentBuilder, *, seq: int | None = None, previous: bytes | None = None
    ) -> FrozenSegment:
        return builder.freeze(
            cluster_id=CLUSTER_ID,
            epoch=EPOCH,
            seq=self.seq if seq is None else seq,
            broker=BROKER,
            nonce=nonce(self.seq),
            previous_nonce=nonce(self.seq - 1) if previous is None else previous,
        )

    def bare(
        self, kind: SegmentKind, previous: bytes, *, cluster_id: bytes = CLUSTER_ID
    ) -> FrozenSegment:
        header = bare_header(
            kind,
            cluster_id=cluster_id,
            epoch=EPOCH,
            seq=self.seq,
            broker=BROKER,
            nonce=nonce(self.seq),
            previous_nonce=previous,
            created_ms=CREATED_MS,
        )
        return freeze_bare(header)

    def replay(self) -> ChainState:
        chain = ChainState(CLUSTER_ID, EPOCH)
        BlockingStepRunner(self.objects, None, self.rng).run(read_on(chain))
        return chain

    def add_checkpoint(self) -> int:
        """Sums up everything there is."""
        chain = self.replay()
        self.objects.create(checkpoint_key(EPOCH, chain.next_seq), [encode_checkpoint(chain)])
        self.register(replace(self.chain_row(), checkpoint=chain.next_seq))
        return chain.next_seq
