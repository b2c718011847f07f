"""Following a chain: what is committed so far, from its last checkpoint on, in bounded memory."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logstore.errors import NotFound, Refused
from logstore.formats.chain_row import CHAIN, ChainRow, ChainStatus, chain_sk
from logstore.formats.chain_state import ChainState, EpochKey
from logstore.formats.checkpoint import encode_checkpoint
from logstore.formats.index_rows import row_at, row_count
from logstore.formats.keys import checkpoint_key, segment_key
from logstore.formats.leadership_payload import encode_inline
from logstore.formats.partition_state import PRODUCER_EXPIRATION_MS, encode_state
from logstore.formats.segment import EntryKind, Index, SegmentKind, decode_front
from logstore.objects.memory import MemoryObjects, MemoryStore
from logstore.ports.registry import Row
from logstore.protocol.chain.follow import SEGMENTS_PER_ROW_READ, Follower, copy_of
from logstore.protocol.chain.walk import MissingCheckpoint, MissingStateChunk, read_on
from logstore.protocol.steps import GetRange
from logstore.testing.scripted import resume, stop_before
from logstore.testing.simulated_rows import at_once
from logstore.testing.virtual_loop import EPOCH_MS, VirtualClock, run
from tests.golden.samples import BROKER, CLUSTER_ID, EPOCH, state
from tests.logstore.protocol.built import BuiltChain, open_chain_row
from tests.logstore.written import WrittenLog


class LaterClock(VirtualClock):
    """Clocks on which time passes without a wait."""

    later_ms = 0

    def pass_ms(self, later_ms: int) -> None:
        self.later_ms += later_ms

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.later_ms / 1000


def summary(state: ChainState) -> dict[EpochKey, tuple[int, int, int, int]]:
    """What of a chain's state does not depend on where its reader came in."""
    return {
        key: (
            epoch_range.start,
            epoch_range.end,
            epoch_range.max_timestamp,
            epoch_range.max_timestamp_offset,
        )
        for key, epoch_range in state.epoch_ranges.items()
    }


@pytest.mark.slow
@given(st.lists(st.integers(1, 20), min_size=1, max_size=8), st.integers(2, 12))
@settings(max_examples=40)
def test_a_follower_knows_what_the_writer_knows(rounds: list[int], segments: int) -> None:
    async def scenario() -> None:
        written = WrittenLog(checkpoint_segments=segments)
        async with written.life() as log:
            topic = await log.create_topic("orders", 2, {})
            await written.write(log, topic.leaders[0], [EPOCH_MS])
            reader = await written.reader()
            early = Follower(reader.cluster_id, log.epoch)
            await written.runner.run(early.advance())
            for number, count in enumerate(rounds):
                for _ in range(count):
                    leader = topic.leaders[number % 2]
                    await written.write(log, leader, [EPOCH_MS + written.values])
                late = Follower(reader.cluster_id, log.epoch)
                await written.runner.run(late.advance())
                new = await written.runner.run(early.advance())

                assert new >= count
                assert not early.is_sealed
                for follower in (early, late):
                    assert follower.state.next_seq == log.writer.chain.next_seq
                    assert follower.state.last_nonce == log.writer.chain.last_nonce
                    assert summary(follower.state) == summary(log.writer.chain)

    run(scenario())


async def test_a_follower_enters_at_the_last_checkpoint_and_not_at_the_beginning() -> None:
    written = WrittenLog(checkpoint_segments=10)
    async with written.life() as log:
        topic = await log.create_topic("orders", 1, {})
        for number in range(35):
            await written.write(log, topic.leaders[0], [EPOCH_MS + number])
        follower = Follower((await written.reader()).cluster_id, log.epoch)
        new = await written.runner.run(follower.advance())

        assert 0 < follower.state.checkpoint <= follower.state.next_seq
        assert new == follower.state.next_seq - follower.state.checkpoint < 20
        assert follower.checkpoints == log.writer.chain.checkpoints


async def test_memory_stays_bounded_however_long_one_follows() -> None:
    written = WrittenLog(checkpoint_segments=10)
    async with written.life() as log:
        topic = await log.create_topic("orders", 1, {})
        reader = await written.reader()
        follower = Follower(reader.cluster_id, log.epoch)
        await written.runner.run(follower.advance())
        for number in range(5 * SEGMENTS_PER_ROW_READ):
            await written.write(log, topic.leaders[0], [EPOCH_MS + number])
            await written.runner.run(follower.advance())
            (epoch_range,) = follower.state.epoch_ranges.values()

            assert epoch_range.end == number + 1
            assert len(follower.state.spans) <= SEGMENTS_PER_ROW_READ + 20
            assert row_count(epoch_range.rows) <= SEGMENTS_PER_ROW_READ + 20
            held = follower.state.next_seq - len(follower.state.spans)
            assert held == follower.state.checkpoint
            if epoch_range.rows:
                assert row_at(epoch_range.rows, 0).seq >= follower.state.checkpoint


async def test_a_follower_forgets_producers_that_were_idle_for_a_day() -> None:
    """As the owner does with every checkpoint: each client that starts is a new producer."""

    written, clock = WrittenLog(checkpoint_segments=10), LaterClock()
    runner = replace(written.runner, clock=clock)
    async with written.life(runner=runner) as log:
        leader = (await log.create_topic("orders", 1, {})).leaders[0]
        follower = Follower(log.cluster_id, log.epoch)
        for number in range(5 * SEGMENTS_PER_ROW_READ):
            await written.write(
                log, leader, [EPOCH_MS], producer_id=number, producer_epoch=0, base_sequence=0
            )
            await written.runner.run(follower.advance())
            clock.pass_ms(PRODUCER_EXPIRATION_MS // 20)
            (epoch_range,) = follower.state.epoch_ranges.values()

            assert len(leader.epoch_range.state.producers) <= 20 + 10
            assert len(epoch_range.state.producers) <= 20 + 10 + SEGMENTS_PER_ROW_READ


async def test_a_copy_is_whole_and_reading_it_on_leaves_what_is_followed_as_it_is() -> None:
    chain = BuiltChain()
    chain.register(open_chain_row())
    chain.add_opening()
    chain.add_take(payload=encode_inline(encode_state(state())))
    chain.add_batches(1, 2)
    chain.add_checkpoint()
    chain.add_batches(3)
    follower = Follower(CLUSTER_ID, EPOCH)
    await chain.runner.run(follower.advance())
    before = deepcopy(follower.state)
    copy = copy_of(follower.state)
    assert copy == before
    chain.add_batches(4)
    await chain.runner.run(read_on(copy))
    copy.created_ms += PRODUCER_EXPIRATION_MS
    encode_checkpoint(copy)

    assert copy != before
    assert follower.state == before


async def test_a_seal_ends_it_and_nothing_is_asked_for_after_it() -> None:
    written = WrittenLog()
    async with written.life(clean=False) as log:
        topic = await log.create_topic("orders", 1, {})
        await written.write(log, topic.leaders[0], [EPOCH_MS])
        follower = Follower((await written.reader()).cluster_id, log.epoch)
        await written.runner.run(follower.advance())
    async with written.life():
        pass

    assert await written.runner.run(follower.advance()) == 0
    assert follower.is_sealed
    steps = follower.advance()
    with pytest.raises(StopIteration) as ended:
        next(steps)
    assert ended.value.value == 0


async def test_a_chain_without_a_row_is_refused() -> None:
    written = WrittenLog()
    follower = Follower((await written.reader()).cluster_id, 7)

    with pytest.raises(Refused, match="no row of chain 7"):
        await written.runner.run(follower.advance())


async def test_a_follower_left_behind_by_trimming_enters_again() -> None:
    """Its next seq is missing because it was deleted, which only the chain's row tells."""

    chain = BuiltChain()
    chain.register(ChainRow(broker=BROKER, status=ChainStatus.OPEN))
    chain.add_opening()
    chain.add_take()
    chain.add_batches(1, 2)
    follower = Follower(CLUSTER_ID, EPOCH)
    perform = chain.runner.run
    assert await perform(follower.advance()) == 3
    assert not await perform(follower.read_row())
    for _ in range(10):
        chain.add_batches(1)
    checkpoint = chain.add_checkpoint()
    chain.register(replace(chain.chain_row(), trim=checkpoint))
    for seq in range(1, checkpoint):
        chain.objects.delete(segment_key(EPOCH, seq))
    chain.add_batches(5)

    assert await perform(follower.advance()) == 0
    assert await perform(follower.read_row())
    assert follower.state.next_seq == chain.seq
    (epoch_range,) = follower.state.epoch_ranges.values()
    assert (epoch_range.end, row_count(epoch_range.rows)) == (18, 1)


async def test_what_is_read_is_reported_segment_by_segment() -> None:
    written = WrittenLog(checkpoint_segments=1000)
    async with written.life() as log:
        topic = await log.create_topic("orders", 2, {})
        follower = Follower((await written.reader()).cluster_id, log.epoch)
        await written.runner.run(follower.advance())
        for number in range(10):
            await written.write(log, topic.leaders[number % 2], [EPOCH_MS])
        reported: list[int] = []

        def seen(index: Index) -> None:
            reported.append(index.header.seq)

        first = follower.state.next_seq
        assert await written.runner.run(follower.advance(width=4, segments_max=4, seen=seen)) == 4
        await written.runner.run(follower.advance(seen=seen))
        assert reported == list(range(first, first + 10))


@pytest.mark.parametrize("is_summed_up", [True, False])
async def test_pieces_of_a_state_that_were_trimmed_first_are_found_in_the_checkpoint(
    is_summed_up: bool,
) -> None:
    """They lie below the entry that names them, which may be there while they are not."""

    written = WrittenLog(checkpoint_segments=1000)
    async with written.life() as log:
        leader = (await log.create_topic("orders", 1, {})).leaders[0]
        for producer in range(2_000):
            written.append(
                leader, [EPOCH_MS], producer_id=producer, producer_epoch=0, base_sequence=0
            )
    async with written.life() as log:
        cluster_id, epoch = log.cluster_id, log.epoch
    chunk, take = (
        decode_front(written.objects.get(segment_key(epoch, seq))).entries[0] for seq in (1, 2)
    )
    assert (chunk.kind, take.kind) == (EntryKind.STATE, EntryKind.TAKE)
    follower = Follower(cluster_id, epoch)
    follower._state = ChainState(cluster_id, epoch)  # entered before there was more
    await written.runner.run(follower.advance(segments_max=2))
    written.objects.delete(segment_key(epoch, 1))
    if not is_summed_up:
        await written.runner.registry.update_if(CHAIN, chain_sk(epoch), {"checkpoint": 0})
        with pytest.raises(MissingStateChunk):
            await written.runner.run(follower.advance())
        return
    await written.runner.run(follower.advance())
    assert follower.entered_count == 1
    (epoch_range,) = follower.state.epoch_ranges.values()
    assert len(epoch_range.state.producers) == 2_000


class TrimmedWhileRead(MemoryStore):
    """Calls `trim` once, before read number `number`."""

    def __init__(self, objects: MemoryObjects, number: int, trim: Callable[[], None]) -> None:
        super().__init__(objects)
        self.reads_left = number
        self._trim = trim

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        if not self.reads_left:
            self._trim()
        self.reads_left -= 1
        return await super().get_range(key, start, length)


def trimmed_at_a_new_checkpoint(chain: BuiltChain) -> None:
    """The chain goes on, and what lies below its newest checkpoint is deleted."""
    last = chain.chain_row().checkpoint
    for _ in range(5):
        chain.add_batches(1)
    checkpoint = chain.add_checkpoint()
    chain.register(replace(chain.chain_row(), trim=checkpoint))
    for seq in range(1, checkpoint):
        chain.objects.delete(segment_key(EPOCH, seq))
    if last:
        chain.objects.delete(checkpoint_key(EPOCH, last))
    chain.add_batches(2)


def chain_with_a_checkpoint(*, checkpoint: bool) -> BuiltChain:
    chain = BuiltChain()
    chain.register(open_chain_row())
    chain.add_opening()
    chain.add_take()
    chain.add_batches(1, 2)
    if checkpoint:
        chain.add_checkpoint()
        chain.add_batches(1)
    return chain


@pytest.mark.parametrize("checkpoint", [True, False])
@pytest.mark.parametrize("number", range(8))
async def test_a_chain_that_is_trimmed_while_it_is_entered_is_read_to_its_tail(
    number: int, *, checkpoint: bool
) -> None:
    """Entering takes time: a checkpoint or a segment may go before it is read."""

    chain = chain_with_a_checkpoint(checkpoint=checkpoint)
    follower = Follower(CLUSTER_ID, EPOCH)
    store = TrimmedWhileRead(chain.objects, number, lambda: trimmed_at_a_new_checkpoint(chain))
    await replace(chain.runner, store=store).run(follower.advance())
    if store.reads_left >= 0:
        return  # it was over before

    assert follower.state.next_seq == chain.seq
    (epoch_range,) = follower.state.epoch_ranges.values()
    assert epoch_range.end == chain.offset


@pytest.mark.parametrize("number", range(7))
async def test_pieces_of_a_state_that_go_while_a_chain_is_entered_are_found_in_the_checkpoint(
    number: int,
) -> None:
    written = WrittenLog(checkpoint_segments=1000)
    async with written.life() as log:
        leader = (await log.create_topic("orders", 1, {})).leaders[0]
        for producer in range(2_000):
            written.append(
                leader, [EPOCH_MS], producer_id=producer, producer_epoch=0, base_sequence=0
            )
    async with written.life() as log:
        cluster_id, epoch = log.cluster_id, log.epoch
    found = at_once(written.rows.get(CHAIN, chain_sk(epoch)))
    assert found is not None
    row = ChainRow.of(found)
    at_once(written.rows.update_if(CHAIN, chain_sk(epoch), {"checkpoint": 0}, [], "1"))

    def trim() -> None:
        sets: Row = {"checkpoint": row.checkpoint, "trim": row.checkpoint}
        at_once(written.rows.update_if(CHAIN, chain_sk(epoch), sets, [], "2"))
        written.objects.delete(segment_key(epoch, 1))  # the chunk, not yet the entry

    follower = Follower(cluster_id, epoch)
    store = TrimmedWhileRead(written.objects, number, trim)
    await replace(written.runner, store=store).run(follower.advance())
    (epoch_range,) = follower.state.epoch_ranges.values()
    assert len(epoch_range.state.producers) == 2_000


class StoredWhileRead(MemoryStore):
    """The first read of what lies inside segment `key` comes before its put has ended."""

    def __init__(self, objects: MemoryObjects, key: str) -> None:
        super().__init__(objects)
        self._key = key
        self._is_stored = False

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        if key == self._key and start and not self._is_stored:
            self._is_stored = True
            raise NotFound(f"no object key={key}")
        return await super().get_range(key, start, length)


async def test_a_piece_that_was_stored_while_its_entry_was_read_is_read_again() -> None:
    """Puts end in any order: the entry may be there before the chunk below it."""

    written = WrittenLog(checkpoint_segments=1000)
    async with written.life() as log:
        leader = (await log.create_topic("orders", 1, {})).leaders[0]
        for producer in range(2_000):
            written.append(
                leader, [EPOCH_MS], producer_id=producer, producer_epoch=0, base_sequence=0
            )
    async with written.life() as log:
        chain = ChainState(log.cluster_id, log.epoch)
    store = StoredWhileRead(written.objects, segment_key(chain.epoch, 1))
    await replace(written.runner, store=store).run(read_on(chain, width=4))
    (epoch_range,) = chain.epoch_ranges.values()
    assert len(epoch_range.state.producers) == 2_000


def test_a_checkpoint_that_is_lost_stops_each_that_enters() -> None:
    chain = chain_with_a_checkpoint(checkpoint=True)
    chain.objects.delete(checkpoint_key(EPOCH, chain.chain_row().checkpoint))

    with pytest.raises(MissingCheckpoint):
        run(chain.runner.run(Follower(CLUSTER_ID, EPOCH).advance()))


async def test_a_checkpoint_that_goes_before_it_is_read_is_looked_for_again() -> None:
    chain = chain_with_a_checkpoint(checkpoint=False)
    follower = Follower(CLUSTER_ID, EPOCH)
    await chain.runner.run(follower.advance())
    chain.add_checkpoint()
    chain.add_batches(1)
    steps = follower.read_row()
    request = await stop_before(chain.runner, steps, GetRange)
    trimmed_at_a_new_checkpoint(chain)

    assert await chain.runner.run(resume(steps, request))
    assert follower.state.next_seq == chain.seq


async def test_an_absent_segment_is_the_tail_only_while_the_row_is_young() -> None:
    chain = chain_with_a_checkpoint(checkpoint=True)
    follower = Follower(CLUSTER_ID, EPOCH, row_age_s_max=10.0)
    await chain.runner.run(follower.advance())
    trimmed_at_a_new_checkpoint(chain)
    assert await chain.runner.run(follower.advance()) == 0
    await chain.clock.sleep_s(10.1)

    assert await chain.runner.run(follower.advance()) == 6
    assert follower.state.next_seq == chain.seq


async def test_a_seal_below_the_trim_point_is_void() -> None:
    """Put by a sealer that had read the trim point before it was raised."""

    chain = chain_with_a_checkpoint(checkpoint=True)
    follower = Follower(CLUSTER_ID, EPOCH)
    await chain.runner.run(follower.advance())
    void = BuiltChain()
    void.seq = seq = chain.seq
    trimmed_at_a_new_checkpoint(chain)
    seal = void.bare(SegmentKind.SEAL, bytes(16))
    chain.objects.create(segment_key(EPOCH, seq), seal.parts)
    await chain.runner.run(follower.advance())

    assert not follower.is_sealed
    assert follower.state.next_seq == chain.seq
    chain.add_seal()
    await chain.runner.run(follower.advance())
    assert follower.is_sealed
