"""Sealing a chain (safety rule 4, a to c): at the first free seq, never below the trim point."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logstore.errors import Corrupt, Refused
from logstore.formats.chain_row import ChainRow, ChainStatus
from logstore.formats.chain_state import ChainState
from logstore.formats.checkpoint import encode_checkpoint
from logstore.formats.keys import checkpoint_key, segment_key
from logstore.formats.segment import SegmentKind, decode_header
from logstore.objects.memory import MemoryObjects, MemoryStore
from logstore.ports.objects import Buffer
from logstore.protocol.chain.follow import Follower, copy_of
from logstore.protocol.chain.seal import SealedChain, mark_sealed, seal_chain
from logstore.protocol.steps import GetRange
from logstore.runners.step_runner import StepRunner
from logstore.testing.scripted import resume, stop_before
from logstore.testing.virtual_loop import EPOCH_MS, run
from tests.golden.samples import CLUSTER_ID, EPOCH, nonce
from tests.logstore.protocol.built import BuiltChain
from tests.logstore.written import WrittenLog

SEALER = 99


def opened() -> BuiltChain:
    chain = BuiltChain()
    chain.add_opening()
    chain.add_take()
    chain.register(ChainRow(broker=7, status=ChainStatus.OPEN))
    return chain


def seal(chain: BuiltChain, runner: StepRunner | None = None) -> SealedChain:
    steps = seal_chain(CLUSTER_ID, EPOCH, SEALER)
    return run((runner or chain.runner).run(steps))


class Meddling(MemoryStore):
    """Does something just before the first put arrives."""

    def __init__(self, objects: MemoryObjects, meddle: Callable[[], None]) -> None:
        super().__init__(objects)
        self._meddle: list[Callable[[], None]] = [meddle]

    async def create(self, key: str, parts: Sequence[Buffer]) -> None:
        if self._meddle:
            self._meddle.pop()()
        await super().create(key, parts)


def meddled(chain: BuiltChain, meddle: Callable[[], None]) -> StepRunner:
    usual = chain.runner
    store = Meddling(chain.objects, meddle)
    return StepRunner(store, usual.registry, usual.clock, usual.rng, usual.draw_nonce)


@given(st.lists(st.integers(1, 5), max_size=12))
def test_the_seal_comes_after_everything_and_the_state_is_all_of_it(counts: list[int]) -> None:
    chain = opened()
    for count in counts:
        chain.add_batches(count)
    sealed = seal(chain)

    assert sealed.seal == 2 + len(counts)
    header = decode_header(chain.objects.get(segment_key(EPOCH, sealed.seal)))
    assert (header.kind, header.broker) == (SegmentKind.SEAL, SEALER)
    assert header.previous_nonce == nonce(sealed.seal - 1)
    (epoch_range,) = sealed.state.epoch_ranges.values()
    assert epoch_range.end == sum(counts)
    assert chain.chain_row().status is ChainStatus.FENCED


def test_sealing_again_finds_the_same_seal() -> None:
    chain = opened()
    first, second = seal(chain), seal(chain)

    assert first.seal == second.seal == 2
    assert first.state == second.state


def test_a_segment_that_comes_first_is_part_of_the_chain() -> None:
    chain = opened()
    sealed = seal(chain, meddled(chain, lambda: chain.add_batches(4)))

    assert sealed.seal == 3
    assert [epoch_range.end for epoch_range in sealed.state.epoch_ranges.values()] == [4]


def test_another_sealer_that_comes_first_is_as_good() -> None:
    chain = opened()
    sealed = seal(chain, meddled(chain, chain.add_seal))

    assert sealed.seal == 2
    header = decode_header(chain.objects.get(segment_key(EPOCH, 2)))
    assert header.broker != SEALER


def test_a_seal_below_the_trim_point_is_void() -> None:
    """The owner goes on, sums up and trims while a sealer stands before what it read as the end."""
    chain = opened()

    def trim_in_between() -> None:
        for _ in range(4):
            chain.add_batches(2)
        chain.add_checkpoint()
        row = chain.chain_row()
        chain.register(ChainRow(broker=7, status=row.status, trim=6, checkpoint=6))
        chain.add_batches(3)
        for seq in range(1, 6):
            chain.objects.delete(segment_key(EPOCH, seq))

    sealed = seal(chain, meddled(chain, trim_in_between))

    assert sealed.seal == 7
    assert [epoch_range.end for epoch_range in sealed.state.epoch_ranges.values()] == [11]
    assert decode_header(chain.objects.get(segment_key(EPOCH, 2))).kind is SegmentKind.SEAL


def test_a_sealer_begins_at_the_checkpoint() -> None:
    chain = opened()
    chain.add_batches(1, 1)
    chain.add_checkpoint()
    for seq in (1, 2):
        chain.objects.delete(segment_key(EPOCH, seq))
    chain.add_batches(5)

    sealed = seal(chain)
    assert sealed.seal == 4
    assert [epoch_range.end for epoch_range in sealed.state.epoch_ranges.values()] == [7]


@pytest.mark.slow
@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.integers(2, 7))
@settings(max_examples=40, deadline=None)
def test_a_followed_chain_is_sealed_as_one_that_was_not(counts: list[int], segments: int) -> None:
    """However far it was followed: before checkpoints of the owner, past them, or to the end."""

    async def scenario() -> None:
        written = WrittenLog(checkpoint_segments=segments)
        followed: list[ChainState] = []
        async with written.life(clean=False) as log:
            topic = await log.create_topic("orders", 2, {})
            follower = Follower(log.cluster_id, log.epoch)
            for count in counts:
                await written.runner.run(follower.advance())
                followed.append(copy_of(follower.state))
                for _ in range(count):
                    number = written.values
                    await written.write(
                        log,
                        topic.leaders[number % 2],
                        [EPOCH_MS + number],
                        producer_id=1,
                        producer_epoch=0,
                        base_sequence=number // 2,
                    )
        perform, epoch = written.runner.run, log.epoch
        warm = [
            await perform(seal_chain(log.cluster_id, epoch, SEALER, known)) for known in followed
        ]
        cold = await perform(seal_chain(log.cluster_id, epoch, SEALER))

        assert sum(epoch_range.end for epoch_range in cold.state.epoch_ranges.values()) == sum(
            counts
        )
        for sealed in warm:
            assert (sealed.seal, sealed.state.epoch_ranges) == (cold.seal, cold.state.epoch_ranges)
        checkpoint = encode_checkpoint(cold.state)
        assert [encode_checkpoint(sealed.state) for sealed in warm] == [checkpoint] * len(warm)

    run(scenario())


def test_a_chain_followed_to_below_its_trim_point_is_read_from_its_checkpoint() -> None:
    chain = opened()
    chain.add_batches(1)
    follower = Follower(CLUSTER_ID, EPOCH)
    run(chain.runner.run(follower.advance()))
    chain.add_batches(2)
    checkpoint = chain.add_checkpoint()
    chain.register(replace(chain.chain_row(), trim=checkpoint))
    for seq in range(1, checkpoint):
        chain.objects.delete(segment_key(EPOCH, seq))
    chain.add_batches(4)

    sealed = run(chain.runner.run(seal_chain(CLUSTER_ID, EPOCH, SEALER, follower.state)))
    assert sealed.seal == checkpoint + 1
    assert [epoch_range.end for epoch_range in sealed.state.epoch_ranges.values()] == [7]


async def test_a_chain_whose_checkpoint_is_trimmed_while_it_is_sealed_is_read_from_the_next() -> (
    None
):
    """A round of deletion that began before the chain was fenced goes on."""

    chain = opened()
    chain.add_batches(1)
    first = chain.add_checkpoint()
    steps = seal_chain(CLUSTER_ID, EPOCH, SEALER)
    request = await stop_before(chain.runner, steps, GetRange)
    chain.add_batches(2)
    last = chain.add_checkpoint()
    chain.register(replace(chain.chain_row(), trim=last))
    chain.objects.delete(checkpoint_key(EPOCH, first))
    for seq in range(1, last):
        chain.objects.delete(segment_key(EPOCH, seq))
    chain.add_batches(4)

    sealed = await chain.runner.run(resume(steps, request))
    assert sealed.seal == last + 1
    assert [epoch_range.end for epoch_range in sealed.state.epoch_ranges.values()] == [7]


def test_a_checkpoint_that_the_row_names_and_is_gone_stops_everything() -> None:
    chain = opened()
    chain.add_checkpoint()
    chain.objects.delete(checkpoint_key(EPOCH, 2))

    with pytest.raises(Corrupt, match="missing"):
        seal(chain)


def test_a_chain_without_row_or_opening_is_not_sealed() -> None:
    with pytest.raises(Refused, match="no row of chain"):
        seal(BuiltChain())
    empty = BuiltChain()
    empty.register(ChainRow(broker=7, status=ChainStatus.OPEN))
    with pytest.raises(Corrupt, match="no opening"):
        seal(empty)


def test_a_chain_is_marked_sealed_once_and_never_elsewhere() -> None:
    chain = opened()
    sealed = seal(chain)
    for _ in range(2):
        run(chain.runner.run(mark_sealed(EPOCH, sealed.seal)))
    row = chain.chain_row()
    assert (row.status, row.seal, row.checkpoint) == (ChainStatus.SEALED, 2, 2)
    with pytest.raises(Corrupt, match="sealed elsewhere"):
        run(chain.runner.run(mark_sealed(EPOCH, 1)))
