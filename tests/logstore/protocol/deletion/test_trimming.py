"""Trimming a log while it is written, taken over and read: what is needed is always there."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logstore.epoch.log import Log, LogSettings
from logstore.epoch.writer import ChainLimits
from logstore.errors import Corrupt, NotFound, Refused, Retryable
from logstore.formats.chain_row import CHAIN, ChainRow, chain_sk
from logstore.formats.cluster_row import CLUSTER
from logstore.formats.index_rows import row_at
from logstore.formats.keys import CHAINS, CHECKPOINTS, checkpoint_key, segment_key
from logstore.formats.partition_row import PartitionRow, partition_pk, partition_sk
from logstore.formats.segment import EntryKind
from logstore.formats.topic_partition import TopicPartition
from logstore.formats.topic_record import TOPICS, TopicRecord
from logstore.formats.topic_row import TOPIC, TopicRow, TopicStatus
from logstore.ports.objects import ObjectInfo
from logstore.ports.registry import Row
from logstore.protocol.chain.flush import FlushSettings
from logstore.protocol.chain.walk import Front
from logstore.protocol.deletion.believed_time import STAMPS
from logstore.protocol.deletion.trimming import Trimmer, TrimPass, every, only, sealed
from logstore.protocol.partitions.epoch_ranges import ChainCheckpoints, locate_offset
from logstore.protocol.partitions.index_cache import IndexCache
from logstore.protocol.rows.metadata import read_partition_row
from logstore.protocol.topics.life import put_record
from logstore.testing.audit import audit
from logstore.testing.simulated_rows import at_once
from logstore.testing.virtual_loop import EPOCH_MS, run
from tests.logstore.protocol.partitions.times import locate_time
from tests.logstore.raised import raised_to
from tests.logstore.written import WrittenLog, read_segment_ranges

GRACE_MS = 60_000
SEGMENTS = 3


class TrimmedLog(WrittenLog):
    """A log whose deletions are watched. `log_starts` are by partition."""

    def __init__(self) -> None:
        super().__init__(checkpoint_segments=SEGMENTS)
        self.log_starts: dict[TopicPartition, int] = {}
        self.dropped: set[bytes] = set()
        delete = self.objects.delete

        def watched(key: str) -> None:
            self.check_deletion(key)
            delete(key)

        self.objects.delete = watched  # type: ignore[method-assign]

    def check_deletion(self, key: str) -> None:
        if key.startswith(STAMPS):
            return
        epoch, seq = int(key.split("/")[-2]), int(key.split("/")[-1])
        row = self.chain_row(epoch)
        assert seq < row.trim <= row.checkpoint, f"above the trim point {key} {row}"
        assert row.seal < 0 or seq < row.seal, "a seal"
        assert seq > 0, "an opening"
        assert self.runner.clock.now_ms() >= row.trim_ms + GRACE_MS, "no grace"

    def chain_row(self, epoch: int) -> ChainRow:
        row = at_once(self.rows.get(CHAIN, chain_sk(epoch)))
        assert row is not None
        return ChainRow.of(row)

    def chains(self) -> dict[int, ChainRow]:
        rows = at_once(self.rows.query(CHAIN))
        return {int(sk): ChainRow.of(row) for sk, row in rows}

    def checkpoints(self, epoch: int) -> list[int]:
        return [int(key.split("/")[-1]) for key in self.keys(f"{CHECKPOINTS}{epoch:020d}/")]

    async def row(self, key: TopicPartition) -> PartitionRow:
        row = await self.runner.run(read_partition_row(*key))
        assert row is not None
        return row

    async def raise_log_start(self, key: TopicPartition, offset: int) -> None:
        row = PartitionRow.of({**(await self.row(key)).row(), **raised_to(offset)})
        self.log_starts[key] = offset
        await self.runner.registry.put_if(partition_pk(*key), partition_sk(*key), row.row())

    async def trim(self, *, passes: int = 1, wait_ms: int = GRACE_MS) -> list[TrimPass]:
        trimmer = Trimmer(self.cluster_id, grace_ms=GRACE_MS)
        done = []
        for _ in range(passes):
            done.append(await self.runner.run(trimmer.steps()))
            await self.runner.clock.sleep_s(wait_ms / 1000)
        return done

    @property
    def cluster_id(self) -> bytes:
        row = at_once(self.rows.get(CLUSTER, CLUSTER))
        assert row is not None
        return bytes.fromhex(str(row["cluster_id"]))

    def keys(self, prefix: str) -> set[str]:
        return {info.key for info in self.objects.list(prefix)}

    async def check_readable(self) -> None:
        """Everything acknowledged that is not below log start or of a deleted topic."""
        reader = await self.reader()
        views = reader.partitions(reader.topics())
        for key, records in self.records.items():
            if key.topic_id in self.dropped:
                continue
            start = self.log_starts.get(key, 0)
            segment_ranges = reader.segment_ranges(key, views[key].row, start, views[key].end)
            assert read_segment_ranges(self, segment_ranges) == [
                r for r in records if r[0] >= start
            ]


@asynccontextmanager
async def one_topic(batches: int, *, clean: bool = True) -> AsyncIterator[TrimmedLog]:
    """A log of one partition that one life has written; a second one has taken over."""
    written = TrimmedLog()
    async with written.life(clean=clean) as log:
        topic = await log.create_topic("orders", 1, {})
        for number in range(batches):
            await written.write(log, topic.leaders[0], [EPOCH_MS + number])
    async with written.life() as log:
        pass
    yield written


def play(story: Callable[[TrimmedLog], Awaitable[None]], *, batches: int = 20) -> None:
    async def scenario() -> None:
        async with one_topic(batches) as written:
            await story(written)

    run(scenario())


def test_a_chain_is_trimmed_first_and_deleted_a_grace_later() -> None:
    async def story(written: TrimmedLog) -> None:
        (key,) = written.records
        await written.raise_log_start(key, 20)
        before = written.keys(CHAINS)
        (first,) = await written.trim(wait_ms=0)
        row = written.chain_row(1)
        assert first.published == {1: row.seal, 2: written.chain_row(2).checkpoint}
        assert written.keys(CHAINS) == before
        (waiting,) = await written.trim(wait_ms=GRACE_MS)
        assert (waiting.waiting, waiting.deleted) == (2, {})
        (deleted,) = await written.trim()
        assert set(deleted.deleted) == {1, 2}
        assert written.keys(CHAINS) & {segment_key(1, s) for s in range(row.seal + 1)} == {
            segment_key(1, 0),
            segment_key(1, row.seal),
        }
        assert checkpoint_key(1, row.seal) in written.keys(CHECKPOINTS)
        assert len(written.keys(CHECKPOINTS)) == 2
        (idle,) = await written.trim()
        assert idle == TrimPass()

    play(story)


def test_what_is_needed_of_a_chain_stays_and_what_is_not_goes() -> None:
    async def story(written: TrimmedLog) -> None:
        (key,) = written.records
        await written.raise_log_start(key, 11)
        await written.trim(passes=3)
        row = written.chain_row(1)
        assert 0 < row.trim == row.deleted < row.seal
        assert segment_key(1, row.trim) in written.keys(CHAINS)
        assert segment_key(1, row.trim - 1) not in written.keys(CHAINS)
        await written.check_readable()
        assert not audit(written.objects, written.rows).violations

    play(story)


def test_the_segments_of_a_deleted_topic_go() -> None:
    async def story(written: TrimmedLog) -> None:
        async with written.life() as log:
            await log.delete_topic("orders")
        await written.trim(passes=3)
        row = written.chain_row(1)
        assert row.deleted == row.seal

    play(story)


def test_a_new_life_takes_over_a_trimmed_chain_with_its_state() -> None:
    async def story(written: TrimmedLog) -> None:
        (key,) = written.records
        async with written.life(clean=False) as log:
            for number in range(10):
                leader = log.topics["orders"].leaders[0]
                await written.write(
                    log, leader, [EPOCH_MS], producer_id=9, producer_epoch=0, base_sequence=number
                )
            await written.raise_log_start(key, 28)
            trimmer = Trimmer(written.cluster_id, grace_ms=GRACE_MS)
            own = await written.runner.run(trimmer.steps(only(log.epoch)))
            assert set(own.published) == {log.epoch}
            await written.runner.clock.sleep_s(GRACE_MS / 1000)
            await written.trim()
        async with written.life() as log:
            leader = log.topics["orders"].leaders[0]
            again = await written.write(
                log, leader, [EPOCH_MS], producer_id=9, producer_epoch=0, base_sequence=9
            )
            written.records[key].pop()  # it was a repeat
            assert again.base_offset == 29
            await written.check_readable()

    play(story)


def test_a_topic_that_the_registry_forgot_is_not_taken_for_a_deleted_one() -> None:
    """Its chains go on beyond the next epoch of an old copy."""

    async def story(written: TrimmedLog) -> None:
        old: Row = {"next_epoch": 2}
        await written.runner.registry.update_if(CLUSTER, CLUSTER, old)
        with pytest.raises(Refused, match="logstore restore"):
            await written.trim()

    play(story)


def test_a_log_start_without_a_reason_deletes_nothing() -> None:
    async def story(written: TrimmedLog) -> None:
        (key,) = written.records
        row = replace(await written.row(key), log_start=20, start_reason="")
        await written.runner.registry.put_if(partition_pk(*key), partition_sk(*key), row.row())
        for done in await written.trim(passes=3):
            assert 1 not in done.published

    play(story)


def test_a_topic_without_a_row_is_not_taken_for_a_deleted_one() -> None:
    """Its row and those of its partitions are lost; its record says that it lives."""

    async def story(written: TrimmedLog) -> None:
        (key,) = written.records
        for place in ((TOPIC, "orders"), (partition_pk(*key), partition_sk(*key))):
            await written.runner.registry.delete_if(*place)
        before = written.keys(CHAINS)
        for _ in range(3):
            with pytest.raises(Refused, match="logstore restore"):
                await written.trim()
        assert written.keys(CHAINS) == before

    play(story)


@pytest.mark.parametrize("status", [TopicStatus.DELETING, TopicStatus.DELETED])
def test_a_deletion_that_is_not_recorded_yet_deletes_no_segment(status: TopicStatus) -> None:
    async def story(written: TrimmedLog) -> None:
        (key,) = written.records
        sets: Row = {"status": status.value}
        await written.runner.registry.update_if(TOPIC, "orders", sets)
        before = written.keys(CHAINS)
        await written.trim(passes=3)
        assert written.keys(CHAINS) == before
        row = TopicRow(key.topic_id, TopicStatus.DELETED, 1, {}, 1, 2)
        assert await written.runner.run(put_record(TopicRecord("orders", row)))
        await written.trim(passes=3)
        assert written.chain_row(1).deleted == written.chain_row(1).seal

    play(story)


def test_the_record_of_a_deletion_is_read_once() -> None:
    async def story(written: TrimmedLog) -> None:
        async with written.life() as log:
            await log.delete_topic("orders")
        listed, lists = written.objects.list, []

        def counted(prefix: str) -> Iterator[ObjectInfo]:
            lists.append(prefix)
            return listed(prefix)

        written.objects.list = counted  # type: ignore[method-assign]
        trimmer = Trimmer(written.cluster_id, grace_ms=GRACE_MS)
        for _ in range(3):
            await written.runner.run(trimmer.steps())
        assert len([prefix for prefix in lists if prefix.startswith(TOPICS)]) == 1

    play(story)


def test_a_trim_point_that_is_too_high_stops_deletion() -> None:
    async def story(written: TrimmedLog) -> None:
        (key,) = written.records
        await written.raise_log_start(key, 20)
        await written.trim()
        await written.raise_log_start(key, 3)
        with pytest.raises(Corrupt, match="nothing is deleted"):
            await written.trim()
        await written.check_readable()

    play(story)


def test_a_pass_without_news_reads_no_checkpoint() -> None:
    async def story(written: TrimmedLog) -> None:
        trimmer = Trimmer(written.cluster_id, grace_ms=GRACE_MS)
        await written.runner.run(trimmer.steps(sealed))
        get_range, reads = written.objects.get_range, []

        def counted(key: str, start: int, length: int) -> bytes:
            reads.append(key)
            return get_range(key, start, length)

        written.objects.get_range = counted  # type: ignore[method-assign]
        await written.runner.run(trimmer.steps(sealed))
        assert not [key for key in reads if key.startswith(CHECKPOINTS)]

    play(story)


def test_a_look_up_by_time_begins_at_log_start_and_one_below_it_says_read_again() -> None:
    async def story(written: TrimmedLog) -> None:
        (key,) = written.records
        row = await written.row(key)
        stale = ChainCheckpoints(IndexCache())
        await written.runner.run(stale.of(1))
        await written.raise_log_start(key, 11)
        await written.trim(passes=3)
        trim = written.chain_row(1).trim
        for checkpoints in (stale, ChainCheckpoints(IndexCache())):
            where = (checkpoints, *key, row.epoch_ranges)
            found = await written.runner.run(locate_time(*where, EPOCH_MS, 11))
            assert found is not None
            assert row_at(found.rows, found.number).base_offset == 11
            for offset in range(11, 20):
                rows = await written.runner.run(locate_offset(*where, offset))
                assert rows is not None
                assert row_at(rows.rows, rows.number).base_offset == offset
                assert row_at(rows.rows, rows.number).seq >= trim
            with pytest.raises((Retryable, NotFound)):
                gone = await written.runner.run(locate_offset(*where, 0))
                assert gone is not None
                written.objects.get(segment_key(1, row_at(gone.rows, gone.number).seq))

    play(story)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(1, 9)),
        st.tuples(st.just("raise"), st.integers(0, 30)),
        st.tuples(st.just("trim"), st.integers(0, 2 * GRACE_MS)),
        st.tuples(st.just("die"), st.booleans()),
        st.tuples(st.just("drop"), st.just(0)),
    ),
    max_size=30,
)


async def one_step(written: TrimmedLog, log: Log, what: str, number: int) -> None:
    topic = log.topics["ab"[number % 2]]
    key = TopicPartition(topic.topic_id, 0)
    match what:
        case "write":
            for _ in range(number):
                await written.write(log, topic.leaders[0], [EPOCH_MS + written.values])
        case "raise":
            now = (await written.row(key)).log_start
            end = topic.leaders[0].high_watermark
            await written.raise_log_start(key, max(now, min(number, end)))
        case "trim":
            await written.trim(wait_ms=number)
        case "drop":
            written.dropped.add(topic.topic_id)
            await log.delete_topic(topic.name)
            await log.create_topic(topic.name, 1, {})
        case _:
            raise AssertionError(what)


@pytest.mark.slow
@given(STEPS)
@settings(max_examples=60)
def test_whatever_is_written_trimmed_and_taken_over_is_there_from_log_start_on(
    steps: list[tuple[str, int]],
) -> None:
    async def scenario() -> None:
        written = TrimmedLog()
        names = ["a", "b"]
        left = list(steps)
        while True:
            async with written.life(clean=len(left) % 2 == 0) as log:
                for name in names:
                    if name not in log.topics:
                        await log.create_topic(name, 1, {})
                while left and left[0][0] != "die":
                    await one_step(written, log, *left.pop(0))
            await written.check_readable()
            if not left:
                break
            left.pop(0)
        await written.check_readable()
        assert not audit(written.objects, written.rows).violations

    run(scenario())


def test_chains_that_are_being_taken_over_are_left_alone() -> None:
    async def story(written: TrimmedLog) -> None:
        (key,) = written.records
        await written.raise_log_start(key, 20)
        sets: Row = {"status": "fenced"}
        await written.runner.registry.update_if(CHAIN, chain_sk(1), sets)
        assert not every(1, written.chain_row(1))
        (done,) = await written.trim()
        assert 1 not in done.published

    play(story)


def test_a_topic_row_alone_does_not_make_a_partition_of_it_disposable() -> None:
    async def story(written: TrimmedLog) -> None:
        (key,) = written.records
        await written.runner.registry.delete_if(partition_pk(*key), partition_sk(*key))
        (done,) = await written.trim()
        assert 1 not in done.published
        assert at_once(written.rows.query(TOPIC))

    play(story)


async def test_no_checkpoint_stands_between_a_large_state_and_the_entry_that_names_it() -> None:
    """So a broker that replays from a checkpoint needs nothing below it."""

    written = TrimmedLog()
    limits = ChainLimits(checkpoint_segments=SEGMENTS, inline_bytes_max=64, chunk_bytes_max=50)
    written._settings = LogSettings(flush=FlushSettings(interval_s=0.01), limits=limits)
    async with written.life() as log:
        topic = await log.create_topic("orders", 1, {})
        for producer in range(10):
            await written.write(
                log,
                topic.leaders[0],
                [EPOCH_MS],
                producer_id=producer,
                producer_epoch=0,
                base_sequence=0,
            )
    async with written.life():
        pass
    found = audit(written.objects, written.rows)
    assert found.seen["state in pieces"] > SEGMENTS
    chain = found.chains[2]
    takes = [seq for seq, front in chain.fronts.items() if has(front, EntryKind.TAKE)]
    segment_ranges = [seq for seq, front in chain.fronts.items() if has(front, EntryKind.STATE)]
    for checkpoint in written.checkpoints(2):
        below = [seq for seq in segment_ranges if seq < checkpoint]
        assert not below or any(seq < checkpoint for seq in takes if seq > max(below))


def has(front: Front, kind: EntryKind) -> bool:
    return any(entry.kind == kind for entry in front.index.entries)
