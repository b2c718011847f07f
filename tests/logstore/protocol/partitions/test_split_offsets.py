"""A cut by seqs is known by offsets, from checkpoints and from what was followed."""

import random
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logstore.errors import Corrupt
from logstore.formats.chain_state import ChainState, EpochKey, EpochRange, SegmentSpan
from logstore.formats.checkpoint import PAGE_ROWS_MAX, encode_checkpoint
from logstore.formats.index_rows import ROW, ROW_BYTES
from logstore.formats.keys import CHECKPOINTS, checkpoint_key
from logstore.formats.partition_state import PartitionState
from logstore.objects.memory import MemoryObjects
from logstore.ports.clock import SystemClock
from logstore.protocol.partitions.index_cache import READ_BYTES, IndexCache
from logstore.protocol.partitions.split_offsets import (
    ChainSplit,
    end_in_memory,
    ends_in_checkpoints,
)
from logstore.runners.step_runner import BlockingStepRunner

CHAIN = 9
Written = Mapping[int, Sequence[tuple[int, int]]]
"""(seq, records) of each batch, by partition."""


class Counted(MemoryObjects):
    """Counts reads of checkpoints."""

    reads = 0

    def get_range(self, key: str, start: int, length: int) -> bytes:
        self.reads += key.startswith(CHECKPOINTS)
        return super().get_range(key, start, length)


class Chain:
    """Checkpoints at `seqs`; what is at or above the last of them is only in memory."""

    def __init__(self, written: Written, seqs: Sequence[int], end_seq: int) -> None:
        self.written = written
        self.checkpoints = list(seqs)
        self.objects = Counted(SystemClock())
        self.state = ChainState(bytes(16), CHAIN)
        for seq in sorted({*seqs, end_seq}):
            self._extend(seq)
            if seq in seqs:
                data = encode_checkpoint(self.state)
                self.objects.create(checkpoint_key(CHAIN, seq), [data])
                self._rebase(seq)

    def ends(self, cuts: Sequence[ChainSplit], cache: IndexCache | None = None) -> list[int]:
        runner = BlockingStepRunner(self.objects, None, random.Random(0))
        last = self.state.checkpoint
        older = [cut for cut in cuts if cut.seq < last]
        found = runner.run(
            ends_in_checkpoints(cache or IndexCache(), CHAIN, self.checkpoints, older)
        )
        return [found[cut] if cut in found else end_in_memory(self.state, cut) for cut in cuts]

    def expected(self, cut: ChainSplit) -> int:
        batches = self.written[cut.key.partition]
        return sum(records for seq, records in batches if seq < cut.seq)

    def _extend(self, end_seq: int) -> None:
        for partition, batches in self.written.items():
            epoch_range = self.state.epoch_ranges.setdefault(
                key_of(partition), EpochRange(0, 0, empty())
            )
            for seq, records in batches:
                if self.state.next_seq <= seq < end_seq:
                    end = epoch_range.end + records
                    epoch_range.rows += ROW.pack(
                        seq, 0, 1, records, 0, 0, epoch_range.end, end - 1, 0, 0, 0
                    )
                    epoch_range.end = end
        self.state.spans += [SegmentSpan(0, 1)] * (end_seq - self.state.next_seq)
        self.state.next_seq = end_seq

    def _rebase(self, seq: int) -> None:
        self.state.checkpoints.append(seq)
        self.state.spans = []
        for epoch_range in self.state.epoch_ranges.values():
            epoch_range.rows = bytearray()


def key_of(partition: int) -> EpochKey:
    return EpochKey(bytes(16), partition, 0)


def empty() -> PartitionState:
    return PartitionState()


@st.composite
def chains(draw: st.DrawFn) -> Chain:
    end_seq = draw(st.integers(2, 30))
    written = {
        partition: sorted(
            draw(st.lists(st.tuples(st.integers(1, end_seq - 1), st.integers(1, 5)), max_size=40))
        )
        for partition in range(draw(st.integers(1, 3)))
    }
    seqs = sorted(draw(st.sets(st.integers(1, end_seq), max_size=6)))
    return Chain(written, seqs, end_seq)


@given(chains())
@settings(max_examples=60)
def test_the_end_below_every_seq_is_that_of_all_batches_before(chain: Chain) -> None:
    cuts = [
        ChainSplit(key_of(partition), seq)
        for partition in chain.written
        for seq in range(1, chain.state.next_seq)
    ]

    assert chain.ends(cuts) == [chain.expected(cut) for cut in cuts]


def test_a_page_among_many_of_one_stretch_is_found_by_few_reads() -> None:
    count = 9 * PAGE_ROWS_MAX + 7
    chain = Chain({0: [(1 + n // 3, 1) for n in range(count)]}, [count // 3 + 2], count // 3 + 2)
    for seq in (1, 2, 1365, 1366, count // 3, count // 3 + 1):
        before = chain.objects.reads

        cut = ChainSplit(key_of(0), seq)
        assert chain.ends([cut]) == [chain.expected(cut)]

        assert chain.objects.reads - before <= 7  # a front, in two reads, and four pages or five


def test_index_pages_are_read_together_and_each_once() -> None:
    """A thousand partitions, ten cuts."""
    partitions, segments = 1000, 20
    chain = Chain(
        {n: [(seq, 1) for seq in range(1, segments)] for n in range(partitions)},
        [segments],
        segments,
    )
    cuts = [ChainSplit(key_of(n), seq) for n in range(partitions) for seq in range(2, 20, 2)]

    assert chain.ends(cuts) == [chain.expected(cut) for cut in cuts]
    pages_bytes = partitions * (segments - 1) * ROW_BYTES
    assert chain.objects.reads <= pages_bytes // READ_BYTES + 3


def test_a_seq_that_no_checkpoint_tells_of_is_an_error() -> None:
    chain = Chain({0: [(1, 1)]}, [2], 2)
    runner = BlockingStepRunner(chain.objects, None, random.Random(0))

    with pytest.raises(Corrupt, match="no checkpoint covers a segment: chain=9 seq=2"):
        runner.run(ends_in_checkpoints(IndexCache(), CHAIN, [2], [ChainSplit(key_of(0), 2)]))
