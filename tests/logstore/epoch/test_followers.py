"""Partitions led by another broker: followed, read, taken over warm, at a known price."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logstore.epoch.followers import CHAINS_KEPT_MAX, Followers
from logstore.epoch.leader import Leader
from logstore.epoch.log import Log, Topic
from logstore.errors import Corrupt, LogstoreError
from logstore.formats.chain_row import CHAIN
from logstore.formats.checkpoint import encode_checkpoint
from logstore.formats.feed_row import FeedChange
from logstore.formats.keys import checkpoint_key, segment_key
from logstore.formats.partition_row import partition_pk, partition_sk
from logstore.formats.partition_state import Expired
from logstore.formats.topic_partition import TopicPartition
from logstore.objects.memory import MemoryStore
from logstore.objects.metered import MeteredStore, StoreCounts
from logstore.ports.registry import Row
from logstore.protocol.chain.follow import SEGMENTS_PER_ROW_READ
from logstore.protocol.deletion.trimming import Trimmer
from logstore.protocol.leading.takeover import Successor, take_over
from logstore.protocol.partitions.epoch_ranges import ChainCheckpoints
from logstore.protocol.partitions.index_cache import IndexCache
from logstore.protocol.partitions.lookup import BelowTrimPoint
from logstore.reading.brokers.readable import Readable
from logstore.registry.memory import MemoryRows
from logstore.testing.audit import audit, records_of_batches
from logstore.testing.process_loop import simulate
from logstore.testing.virtual_loop import EPOCH_MS, VirtualClock, run
from tests.logstore.raised import raised_to
from tests.logstore.waits import until
from tests.logstore.written import WrittenLog

SOON_S = 3.0


@asynccontextmanager
async def two_brokers(written: WrittenLog) -> AsyncIterator[tuple[Log, Log]]:
    """Brokers 1 and 2, which know of each other."""
    async with written.life(broker=1) as one, written.life(broker=2) as two:
        await until(lambda: all(len(log.live_brokers()) == 2 for log in (one, two)), SOON_S)
        yield one, two


async def topic_led_by(one: Log, two: Log, partitions: int = 1) -> tuple[Topic, Topic]:
    """A topic whose partitions `one` leads and `two` follows, as each of them sees it."""
    brokers = (one.me.broker, two.me.broker)
    here = await one.create_topic("orders", partitions, {}, assignments=[brokers] * partitions)
    await until(lambda: "orders" in two.topics, SOON_S)
    there = two.topics["orders"]
    await until(lambda: all(followed.is_ready for followed in there.followers.values()), SOON_S)
    assert len(there.followers) == partitions
    return here, there


async def move(source: Log, target: Log) -> None:
    """Hand every partition over, as a controller would ask for it."""
    led = source.topics["orders"]
    for number in range(led.partition_count):
        place = partition_pk(led.topic_id, number), partition_sk(led.topic_id, number)
        await source.runner.registry.update_if(*place, {"target": target.me.broker})
    await source.publish([FeedChange(led.name, led.topic_id)])
    topic = target.topics["orders"]
    await until(lambda: len(topic.leaders) == topic.partition_count, SOON_S)
    followers = source.topics["orders"].followers
    await until(lambda: all(one.is_ready for one in followers.values()) and bool(followers), SOON_S)


async def values_of(log: Log, partition: Readable, bytes_max: int = 300) -> list[bytes]:
    values: list[bytes] = []
    offset, end = 0, partition.high_watermark
    while offset < end:
        chunk = log.read_in_memory(partition, offset, end, bytes_max)
        chunk = chunk or await log.read(partition, offset, end, bytes_max)
        values += [record.value for record in records_of_batches(b"".join(chunk.buffers))]
        offset = chunk.end_offset
    return values


def written_values(written: WrittenLog, partition: Readable) -> list[bytes]:
    key = TopicPartition(partition.topic_id, partition.partition)
    return [value for _, _, value in written.records.get(key, [])]


async def check_both(written: WrittenLog, leader: Leader, led: Log, log: Log) -> None:
    """All that was acknowledged is read at the leader, and a little later at the follower."""
    followed = log.topics["orders"].followers[leader.partition]
    await until(lambda: followed.high_watermark == leader.high_watermark, SOON_S)
    assert await values_of(led, leader) == written_values(written, leader)
    assert await values_of(log, followed) == written_values(written, leader)


async def test_a_follower_shows_what_its_leader_committed_and_no_more() -> None:
    written = WrittenLog()
    async with two_brokers(written) as (one, two):
        here, there = await topic_led_by(one, two, partitions=3)
        for number in range(30):
            leader = here.leaders[number % 3]
            await written.write(one, leader, [EPOCH_MS + number] * 2)
            assert there.followers[number % 3].high_watermark <= leader.high_watermark
        for leader in here.leaders.values():
            await check_both(written, leader, one, two)


async def test_fetches_that_wait_at_a_follower_are_woken_by_new_records() -> None:
    written = WrittenLog()
    async with two_brokers(written) as (one, two):
        here, there = await topic_led_by(one, two)
        woken: list[int] = []
        followed = there.followers[0]
        end = followed.watch(lambda: woken.append(followed.high_watermark))
        await written.write(one, here.leaders[0], [EPOCH_MS] * 3)
        await until(lambda: woken == [3], SOON_S)
        end()
        await written.write(one, here.leaders[0], [EPOCH_MS])
        await until(lambda: followed.high_watermark == 4, SOON_S)
        assert woken == [3]


async def test_the_index_in_memory_goes_back_to_the_leaders_last_checkpoint() -> None:
    written = WrittenLog(checkpoint_segments=16)
    async with two_brokers(written) as (one, two):
        here, there = await topic_led_by(one, two)
        for number in range(300):
            await written.write(one, here.leaders[0], [EPOCH_MS + number])
        followed = there.followers[0]
        await until(lambda: followed.high_watermark == 300, SOON_S)
        assert followed.first_offset_in_memory > 200
        await check_both(written, here.leaders[0], one, two)


@pytest.mark.slow
@given(st.lists(st.integers(0, 12), min_size=1, max_size=6), st.sampled_from([3, 1000]))
@settings(max_examples=25, deadline=None)
def test_leadership_that_moves_loses_nothing_and_no_offset_goes_back(
    rounds: list[int], segments: int
) -> None:
    """Also where no checkpoint sums up yet what an earlier leader wrote, and lives on."""

    async def scenario() -> None:
        written = WrittenLog(checkpoint_segments=segments)
        async with two_brokers(written) as (one, two):
            await topic_led_by(one, two)
            shown: dict[Log, int] = {one: 0, two: 0}

            def look() -> None:
                for log in shown:
                    topic = log.topics["orders"]
                    partitions: list[Readable] = [*topic.leaders.values()]
                    for partition in [*partitions, *topic.followers.values()]:
                        assert partition.high_watermark >= shown[log]
                        shown[log] = partition.high_watermark

            for count in rounds:
                leader = one.topics["orders"].leaders[0]
                for _ in range(count):
                    await written.write(one, leader, [EPOCH_MS + written.values])
                    look()
                await move(one, two)
                look()
                one, two = two, one
                await check_both(written, one.topics["orders"].leaders[0], one, two)
        assert audit(written.objects, written.rows).violations == []

    run(scenario())


def test_records_are_found_by_time_in_stretches_of_several_chains() -> None:
    async def scenario() -> None:
        written = WrittenLog(checkpoint_segments=1000)
        async with two_brokers(written) as (one, two):
            await topic_led_by(one, two)
            for number in range(12):
                timestamp = EPOCH_MS + 100 * number if number != 5 else EPOCH_MS + 10_000
                await written.write(one, one.topics["orders"].leaders[0], [timestamp])
                if number % 3 == 2:
                    await move(one, two)
                    one, two = two, one
            leader = one.topics["orders"].leaders[0]
            followed = two.topics["orders"].followers[0]
            await until(lambda: followed.high_watermark == 12, SOON_S)
            for log, partition in ((one, leader), (two, followed)):
                for number, expected in ((0, 0), (4, 4), (5, 5), (11, 5)):
                    found = await log.offset_for_time(partition, EPOCH_MS + 100 * number, 12)
                    assert found is not None and found.offset == expected
                assert await log.offset_for_time(partition, EPOCH_MS + 10_001, 12) is None
                largest = await log.offset_of_max_timestamp(partition, 12)
                assert largest == (5, EPOCH_MS + 10_000, 1)

    simulate(scenario())


async def test_a_dead_leaders_partitions_are_taken_over_by_who_followed_them() -> None:
    written = WrittenLog(checkpoint_segments=1000)
    async with written.life(broker=2) as two:
        async with written.life(broker=1, clean=False) as one:
            await until(lambda: len(one.live_brokers()) == 2, SOON_S)
            here, there = await topic_led_by(one, two)
            for number in range(20):
                await written.write(one, here.leaders[0], [EPOCH_MS + number])
            epoch = one.epoch
        followed = there.followers[0]
        await until(lambda: followed.high_watermark == 20, SOON_S)
        woken: list[bool] = []
        followed.watch(lambda: woken.append(followed.is_retired))
        taken = await written.runner.run(
            take_over(two.cluster_id, epoch, 2, lambda *_: Successor(2, two.epoch))
        )
        await two.lead_recovered(taken)
        assert woken == [True]
        assert there.leaders[0].high_watermark == 20
        assert not there.followers
        await written.write(two, there.leaders[0], [EPOCH_MS])
        assert await values_of(two, there.leaders[0]) == written_values(written, followed)


async def test_a_chain_handed_out_is_the_chain_and_a_copy() -> None:
    written = WrittenLog()
    async with two_brokers(written) as (one, two):
        here, there = await topic_led_by(one, two)
        for number in range(10):
            await written.write(
                one, here.leaders[0], [EPOCH_MS], producer_id=7, producer_epoch=0,
                base_sequence=number,
            )  # fmt: skip
        await until(lambda: there.followers[0].high_watermark == 10, SOON_S)
        first = two._followers.chain_state(one.epoch)
        assert first is not None
        assert first.next_seq == one.writer.chain.next_seq
        before = encode_checkpoint(first)
        epoch_range = first.epoch_ranges[here.leaders[0].key]
        epoch_range.state.apply_batch(8, 0, 0, 10, 10, EPOCH_MS, EPOCH_MS)
        epoch_range.state.drop([Expired(7, epoch_range.state.producers[7])])
        assert list(epoch_range.state.producers) == [8]
        epoch_range.rows.clear()
        again = two._followers.chain_state(one.epoch)
        assert again is not None and encode_checkpoint(again) == before
        assert two._followers.chain_state(one.epoch + 100) is None


async def test_a_chain_that_is_followed_no_more_is_kept_for_a_while() -> None:
    written = WrittenLog()
    async with two_brokers(written) as (one, two):
        here, there = await topic_led_by(one, two)
        followed, row = there.followers[0], here.rows[0]
        followers = two._followers
        assert followers.follow(here.topic_id, {}) == {}
        assert followed.is_retired
        assert followers.chain_state(one.epoch) is not None
        await VirtualClock().sleep_s(2.0)
        for epoch in range(one.epoch + 10, one.epoch + 12 + CHAINS_KEPT_MAX):
            other = replace(row, chain=epoch, leader_epoch=1)
            followers.follow(here.topic_id, {0: other})
        followers.follow(here.topic_id, {})
        await VirtualClock().sleep_s(120.0)
        followers.follow(here.topic_id, {0: replace(row, chain=one.epoch + 50)})
        assert followers.chain_state(one.epoch) is None


async def test_a_chain_that_cannot_be_read_is_reported_and_tried_again() -> None:
    written = WrittenLog(checkpoint_segments=1000)
    async with two_brokers(written) as (one, two):
        here, there = await topic_led_by(one, two)
        followed = there.followers[0]
        await written.write(one, here.leaders[0], [EPOCH_MS])
        await until(lambda: followed.high_watermark == 1, SOON_S)
        appended = await written.write(one, here.leaders[0], [EPOCH_MS])
        key = segment_key(one.epoch, appended.seq)
        whole = written.objects.get(key)
        woken: list[LogstoreError | None] = []
        followed.watch(lambda: woken.append(followed.error))
        written.objects.delete(key)
        written.objects.create(key, [whole[:130] + bytes([whole[130] ^ 1]) + whole[131:]])
        await until(lambda: isinstance(followed.error, Corrupt), SOON_S)
        assert woken and all(isinstance(error, Corrupt) for error in woken)
        assert not followed.is_ready and one.epoch not in two._followers.served()
        assert followed.high_watermark == 1
        written.objects.delete(key)
        written.objects.create(key, [whole])
        await until(lambda: one.epoch in two._followers.served(), within_s=120)
        assert followed.high_watermark == 2


async def test_a_follower_is_caught_up_while_it_sees_the_tail() -> None:
    written = WrittenLog()
    async with two_brokers(written) as (one, two):
        _, there = await topic_led_by(one, two)
        assert one.epoch in two._followers.served()
        two._followers.stop()
        await VirtualClock().sleep_s(11.0)
        assert there.followers[0].is_ready and one.epoch not in two._followers.served()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("every_s", "gets_a_second"), [(None, 1.05), (0.1, 14.0), (0.01, 130.0), (5.0, 3.0)]
)
def test_following_costs_a_get_a_second_and_about_one_a_segment(
    every_s: float | None, gets_a_second: float
) -> None:
    seconds = 60.0

    async def scenario() -> float:
        written = WrittenLog(checkpoint_segments=1000)
        counts = StoreCounts()
        usual = written.runner
        metered = replace(usual, store=MeteredStore(MemoryStore(written.objects), counts))
        async with (
            written.life(broker=1) as one,
            written.life(broker=2, runner=metered) as two,
        ):
            here, there = await topic_led_by(one, two)
            await VirtualClock().sleep_s(10.0)
            before = counts.requests().gets
            end_s = VirtualClock().monotonic_s() + seconds
            while (left_s := end_s - VirtualClock().monotonic_s()) > 0:
                if every_s is not None:
                    await written.write(one, here.leaders[0], [EPOCH_MS])
                await VirtualClock().sleep_s(min(left_s, every_s or left_s))
            spent = counts.requests().gets - before
            await until(
                lambda: there.followers[0].high_watermark == here.leaders[0].high_watermark, SOON_S
            )
            return spent / seconds

    assert run(scenario()) <= gets_a_second


async def test_bytes_are_fetched_once_however_many_read_at_a_follower() -> None:
    written = WrittenLog()
    counts = StoreCounts()
    metered = replace(written.runner, store=MeteredStore(MemoryStore(written.objects), counts))
    async with (
        written.life(broker=1) as one,
        written.life(broker=2, runner=metered) as two,
    ):
        here, there = await topic_led_by(one, two)
        await written.write(one, here.leaders[0], [EPOCH_MS])
        followed = there.followers[0]
        await until(lambda: followed.high_watermark == 1, SOON_S)
        before = counts.snapshot()["get"].calls
        reads: list[Awaitable[object]] = [two.read(followed, 0, 1, 100) for _ in range(10)]
        await asyncio.gather(*reads)
        assert counts.snapshot()["get"].calls - before == 1


def test_a_follower_whose_list_of_checkpoints_is_trimmed_finds_what_is_left() -> None:
    """It reads the chain's row seldom, and the last checkpoint that it knows of may be deleted."""

    async def scenario() -> None:
        written = WrittenLog(checkpoint_segments=20)
        async with two_brokers(written) as (one, two):
            here, there = await topic_led_by(one, two)
            leader, followed = here.leaders[0], there.followers[0]
            for number in range(SEGMENTS_PER_ROW_READ + 40):
                await written.write(one, leader, [EPOCH_MS + number])
                await VirtualClock().sleep_s(0.1)
            await until(lambda: followed.high_watermark == leader.high_watermark, SOON_S)
            begin, end = followed.first_offset_in_memory, followed.high_watermark
            log_start = end - 3
            key = partition_pk(here.topic_id, 0), partition_sk(here.topic_id, 0)
            await one.runner.registry.update_if(*key, raised_to(log_start))
            await one.publish([FeedChange(here.name, here.topic_id, 0)])
            await until(lambda: followed.log_start == log_start, SOON_S)
            known = written.objects.list("checkpoints/")
            for _ in range(2):
                await one.runner.run(Trimmer(one.cluster_id, grace_ms=0).steps())
            left = {info.key for info in written.objects.list("checkpoints/")}
            stale = checkpoint_key(one.epoch, there_checkpoints(two, one.epoch)[-1])
            assert stale in {info.key for info in known} - left

            found = await two.offset_for_time(followed, EPOCH_MS + log_start, end)
            assert found is not None
            assert found.offset == log_start
            latest = await two.offset_of_max_timestamp(followed, end)
            assert latest is not None
            assert latest.offset == end - 1
            assert begin > 0
            with pytest.raises(BelowTrimPoint):
                await two._segments.rows(followed, begin - 1)

    simulate(scenario())


def there_checkpoints(log: Log, chain: int) -> Sequence[int]:
    """Those that a follower knows of."""
    state = log.followed_chain(chain)
    assert state is not None
    return state.checkpoints


class CountedRows(MemoryRows):
    """Counts looks at rows of chains."""

    looks = 0

    async def get(self, pk: str, sk: str) -> Row | None:
        self.looks += pk == CHAIN
        return await super().get(pk, sk)


@pytest.mark.slow
@pytest.mark.parametrize("grace_s", [60.0, 600.0])
def test_a_chain_without_news_is_looked_up_again_twice_in_each_grace(grace_s: float) -> None:
    async def scenario() -> int:
        written = WrittenLog()
        written.rows.__class__ = CountedRows
        assert isinstance(written.rows, CountedRows)
        async with written.life() as log, asyncio.TaskGroup() as tasks:
            topic = await log.create_topic("orders", 1, {})
            followers = Followers(
                log.cluster_id,
                written.runner,
                ChainCheckpoints(IndexCache()),
                tasks,
                delete_grace_s=grace_s,
            )
            (followed,) = followers.follow(topic.topic_id, dict(enumerate(topic.rows))).values()
            await until(lambda: followed.is_ready, SOON_S)
            before = written.rows.looks
            await VirtualClock().sleep_s(5.5 * grace_s)
            followers.stop()
            return written.rows.looks - before

    assert 9 <= run(scenario()) <= 11
