"""Batches of a Spark sink are copied once and in order, whatever becomes of their leaders."""

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logstore.epoch.leader import AlreadyAdopted, CopyFrom, Leader, NotLeading
from logstore.epoch.log import Log
from logstore.errors import Corrupt, Fenced
from logstore.formats.chain_state import ChainState
from logstore.formats.segment import EntryKind, Index
from logstore.formats.staging_keys import SinkBatch, sink_hash
from logstore.protocol.chain.walk import read_chain_at, read_front, read_on
from logstore.records.batch import BatchHeader, check_batch
from logstore.records.encode import encode_batch, records_of
from logstore.testing.audit import audit, records_of_batches
from logstore.testing.virtual_loop import EPOCH_MS, VirtualClock, run
from tests.logstore.written import WrittenLog, committed

SINK = sink_hash("orders-sink")
SIZES = (3, 1, 4, 2)
"""Record batches of each batch of the sink."""


def value_of(batch: int, number: int) -> bytes:
    return b"%d.%d" % (batch, number)


EXPECTED = [value_of(batch, number) for batch, size in enumerate(SIZES) for number in range(size)]


def staged(batch: int, begin: int, end: int) -> list[tuple[memoryview, BatchHeader]]:
    """Record batches [begin, end) of a batch of the sink."""
    found = []
    for number in range(begin, end):
        records = records_of([(None, value_of(batch, number))], timestamp=EPOCH_MS)
        data = memoryview(encode_batch(records))
        found.append((data, check_batch(data, 0, len(data))))
    return found


async def leader_of(log: Log) -> Leader:
    topic = log.topics.get("orders") or await log.create_topic("orders", 1, {})
    return topic.leaders[0]


async def values_of(log: Log, leader: Leader) -> list[bytes | None]:
    values: list[bytes | None] = []
    while len(values) < leader.high_watermark:
        chunk = await log.read(leader, len(values), leader.high_watermark, 1 << 20)
        values += [record.value for record in records_of_batches(b"".join(chunk.buffers))]
    return values


@dataclass(frozen=True)
class Attempt:
    back: int
    """How many batches before the one that is due: a delayed request."""
    parts: int
    """How many parts are copied before the request ends."""
    part_batches: int
    is_committed: bool
    """Whether the driver waits, and hears of it."""
    is_flushed: bool
    """Whether parts go into segments of their own."""


@dataclass
class Driver:
    """A driver that repeats the batch that is due until it was adopted."""

    due: int = 0
    ends: dict[int, int] = field(default_factory=dict)
    """The end offsets that answers named, by batch."""

    async def attempt(self, log: Log, leader: Leader, attempt: Attempt) -> None:
        batch = min(max(0, self.due - attempt.back), len(SIZES) - 1)
        seq = -1
        for _ in range(attempt.parts):
            verdict = leader.judge_sink(SinkBatch(SINK, batch), SIZES[batch])
            if not isinstance(verdict, CopyFrom):
                break
            begin = verdict.batches_done
            end = min(begin + attempt.part_batches, SIZES[batch])
            part = staged(batch, begin, end)
            seq = leader.adopt(
                SinkBatch(SINK, batch), part, batches_done=begin, batches_total=SIZES[batch]
            ).seq
            if attempt.is_flushed:
                log.writer.flush()
                await VirtualClock().sleep_s(0)
        if attempt.is_committed:
            await self.hear(log, leader, batch, seq)

    async def hear(self, log: Log, leader: Leader, batch: int, seq: int) -> None:
        verdict = leader.judge_sink(SinkBatch(SINK, batch), SIZES[batch])
        if isinstance(verdict, AlreadyAdopted):
            seq = max(seq, verdict.seq)
        if seq >= 0:
            await committed(log, seq)
        if isinstance(verdict, AlreadyAdopted) and batch == self.due:
            assert self.ends.setdefault(batch, verdict.end_offset) == verdict.end_offset
            self.due += 1

    async def finish(self, log: Log, leader: Leader) -> None:
        while self.due < len(SIZES):
            await self.attempt(log, leader, Attempt(0, 9, 2, is_committed=True, is_flushed=False))


attempts = st.lists(
    st.builds(
        Attempt, st.integers(0, 2), st.integers(1, 4), st.integers(1, 3), st.booleans(),
        st.booleans(),
    ),
    max_size=6,
)  # fmt: skip
lives_of_a_partition = st.lists(st.tuples(attempts, st.booleans(), st.booleans()), max_size=6)


@pytest.mark.slow
@given(lives_of_a_partition)
@settings(max_examples=25)
def test_a_sink_survives_its_leaders(lives: list[tuple[list[Attempt], bool, bool]]) -> None:
    """Leaders that stop, die with parts in flight, or give the partition away."""

    async def scenario() -> None:
        written, driver = WrittenLog(checkpoint_segments=3, inline_bytes_max=64), Driver()
        for tried, is_clean, is_released in lives:
            async with written.life(clean=is_clean) as log:
                leader = await leader_of(log)
                for attempt in tried:
                    await driver.attempt(log, leader, attempt)
                if is_released:
                    leader.release()
        async with written.life() as log:
            leader = await leader_of(log)
            await driver.finish(log, leader)
            assert await values_of(log, leader) == EXPECTED
        assert audit(written.objects, written.rows).violations == []

    run(scenario())


async def test_a_sink_is_known_after_two_takeovers() -> None:
    """The second leader writes nothing: its state is the one that it took over."""

    written = WrittenLog()
    async with written.life(clean=False) as log:
        leader = await leader_of(log)
        await Driver().finish(log, leader)
    for _ in range(3):
        async with written.life(clean=False) as log:
            leader = await leader_of(log)
            last = SinkBatch(SINK, len(SIZES) - 1)
            assert leader.judge_sink(last, SIZES[-1]) == AlreadyAdopted(8, 10, -1)
            assert leader.judge_sink(SinkBatch(SINK, 0)) == AlreadyAdopted(-1, -1, -1)
            assert leader.judge_sink(SinkBatch(SINK, len(SIZES))) == CopyFrom(0)


async def test_a_sink_is_known_from_a_checkpoint_alone() -> None:
    written = WrittenLog(checkpoint_segments=1)
    async with written.life() as log:
        leader = await leader_of(log)
        part = staged(0, 0, 2)
        await committed(
            log, leader.adopt(SinkBatch(SINK, 0), part, batches_done=0, batches_total=3).seq
        )
    async with written.life() as log:
        leader = await leader_of(log)
        assert leader.judge_sink(SinkBatch(SINK, 0), 3) == CopyFrom(2)


async def test_a_released_and_a_fenced_leader_say_nothing_of_a_sink() -> None:
    written = WrittenLog()
    async with written.life(clean=False) as log:
        leader = await leader_of(log)
        part = staged(0, 0, 3)
        await committed(
            log, leader.adopt(SinkBatch(SINK, 0), part, batches_done=0, batches_total=3).seq
        )
        leader.release()
        for batch in (0, 1):
            with pytest.raises(NotLeading):
                leader.judge_sink(SinkBatch(SINK, batch))
        log.writer.stop()
        for batch in (0, 1):
            with pytest.raises(Fenced):
                leader.judge_sink(SinkBatch(SINK, batch))


async def test_a_replay_stops_where_an_adopt_end_stands_behind_other_batches() -> None:
    written = WrittenLog()
    async with written.life() as log:
        leader = await leader_of(log)
        part = staged(0, 0, 3)
        appended = leader.adopt(SinkBatch(SINK, 0), part, batches_done=0, batches_total=3)
        await committed(log, appended.seq)
        front = await log.runner.run(read_front(log.epoch, appended.seq))
        (end,) = [e for e in front.index.entries if e.kind == EntryKind.ADOPT_END]
        rest = [e for e in front.index.entries if e.kind != EntryKind.ADOPT_END]

        async def chain_before() -> ChainState:
            chain = await log.runner.run(read_chain_at(log.cluster_id, log.epoch, 0))
            await log.runner.run(read_on(chain, segments_max=appended.seq))
            return chain

        for wrong in (
            end._replace(base_offset=end.base_offset + 1, last_offset=end.last_offset + 1),
            end._replace(last_offset=end.last_offset - 1),
            end._replace(base_offset=end.base_offset - 1),
            end._replace(base_sequence=0),
            end._replace(record_count=2),
        ):
            damaged = Index(front.index.header, [*rest, wrong], ())
            with pytest.raises(Corrupt, match="adopt end"):
                (await chain_before()).apply_segment(damaged, front.states)
        chain, header = await chain_before(), front.index.header
        chain.apply_segment(Index(header, rest, ()), front.states)
        following = replace(header, seq=header.seq + 1, previous_nonce=header.nonce)
        with pytest.raises(Corrupt, match="adopt end"):
            chain.apply_segment(Index(following, [end], ()), {})
