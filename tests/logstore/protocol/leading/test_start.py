"""Starting (safety rule 3): a live twin and an old registry are refused, the dead inherited."""

import copy
from dataclasses import replace
from typing import TypeVar

import pytest

from logstore.epoch.log import Log
from logstore.errors import NotFound, Refused
from logstore.formats.chain_row import CHAIN, ChainRow, chain_sk
from logstore.formats.keys import segment_key
from logstore.formats.partition_row import partition_pk, partition_pks, partition_sk
from logstore.formats.topic_partition import TopicPartition
from logstore.formats.topic_record import TOPICS
from logstore.formats.topic_row import TOPIC, TopicRow, TopicStatus
from logstore.protocol.deletion.believed_time import BelievedTime
from logstore.protocol.leading.start import LEASE_S, BrokerInfo, start
from logstore.testing.audit import audit
from logstore.testing.simulated_rows import at_once
from logstore.testing.virtual_loop import EPOCH_MS, VirtualClock, run
from tests.logstore.written import WrittenLog

T = TypeVar("T")


ME = BrokerInfo(1, "localhost", 9092, "", "the lock of 1")
ELSEWHERE = BrokerInfo(1, "elsewhere", 9092, "", "another lock")


async def attempt(written: WrittenLog, me: BrokerInfo) -> float:
    """Start, no more; how long it took."""
    began_s = written.runner.clock.monotonic_s()
    identity = await written._identity()
    await written.runner.run(start(identity.cluster_id, me))
    return written.runner.clock.monotonic_s() - began_s


def test_the_holder_of_its_predecessors_lock_need_not_wait() -> None:
    async def scenario() -> float:
        written = WrittenLog()
        async with written.life(clean=False):
            pass
        return await attempt(written, ME)

    assert run(scenario()) == 0


def test_without_that_lock_it_waits_for_the_lease() -> None:
    async def scenario() -> float:
        written = WrittenLog()
        async with written.life(clean=False):
            pass
        return await attempt(written, ELSEWHERE)

    assert run(scenario()) >= LEASE_S


async def test_a_live_twin_is_refused() -> None:
    written = WrittenLog()
    async with written.life() as log:
        with pytest.raises(Refused, match="alive elsewhere"):
            await attempt(written, ELSEWHERE)
        assert not log.fenced.is_set()


@pytest.mark.parametrize("clean", [True, False])
async def test_what_a_stopped_broker_led_is_taken_over_and_what_a_silent_one_does_is_not(
    clean: bool,
) -> None:
    written = WrittenLog()
    async with written.life(clean=clean) as log:
        await log.create_topic("orders", 1, {})
    identity = await written._identity()
    other = BrokerInfo(2, "localhost", 9092, "", "2")
    started = await written.runner.run(start(identity.cluster_id, other))
    assert len(started.recovered) == clean
    assert list(started.update.topics) == ["orders"]


@pytest.mark.parametrize("lives_after", [1, 2])
@pytest.mark.parametrize("wrote_after", [False, True])
async def test_a_registry_restored_from_a_copy_is_refused(
    wrote_after: bool, lives_after: int
) -> None:
    written = WrittenLog()
    async with written.life(clean=False) as log:
        topic = await log.create_topic("orders", 1, {})
        await written.write(log, topic.leaders[0], [EPOCH_MS])
    restored = copy.deepcopy(written.rows._rows), copy.deepcopy(written.rows._order)
    for _ in range(lives_after):
        async with written.life(clean=False) as log:
            if wrote_after:
                await written.write(log, log.topics["orders"].leaders[0], [EPOCH_MS])
    written.rows._rows, written.rows._order = restored
    with pytest.raises(Refused, match="logstore restore"):
        await attempt(written, ME)


@pytest.mark.parametrize("is_known", [True, False])
async def test_an_old_registry_is_found_out_though_the_chain_was_trimmed_since(
    is_known: bool,
) -> None:
    """Its first segments are gone: neither a free seq 1 nor an empty chain says that it is new."""

    written = WrittenLog()
    async with written.life(clean=False) as log:
        await log.create_topic("orders", 1, {})
        restored = copy.deepcopy(written.rows._rows), copy.deepcopy(written.rows._order)
        if is_known:
            await write_and_trim(written, log)
    if not is_known:
        async with written.life(clean=False) as log:
            await write_and_trim(written, log)
    written.rows._rows, written.rows._order = restored
    with pytest.raises(Refused, match="logstore restore"):
        await attempt(written, ME)


async def write_and_trim(written: WrittenLog, log: Log) -> None:
    """Write a while, then delete everything below the last checkpoint."""
    for _ in range(12):
        await written.write(log, log.topics["orders"].leaders[0], [EPOCH_MS])
    row = await written.runner.registry.get(CHAIN, chain_sk(log.epoch))
    assert row is not None
    for seq in range(1, ChainRow.of(row).checkpoint):
        written.objects.delete(segment_key(log.epoch, seq))


async def test_a_partition_row_that_is_missing_is_an_old_registry() -> None:
    written = WrittenLog()
    async with written.life(clean=False) as log:
        topic = await log.create_topic("orders", 2, {})
    pk, sk = partition_pk(topic.topic_id, 1), partition_sk(topic.topic_id, 1)
    await written.runner.registry.delete_if(pk, sk)
    with pytest.raises(Refused, match="logstore restore"):
        await attempt(written, ME)


DAY_MS = 86_400_000


class JumpingClock(VirtualClock):
    """A wall clock that an operator sets forward."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


async def test_the_state_is_inherited_across_starts_that_died_before_their_takes() -> None:
    written = WrittenLog()
    async with written.life(clean=False) as log:
        leader = (await log.create_topic("orders", 1, {})).leaders[0]
        await written.write(
            log, leader, [EPOCH_MS], producer_id=5, producer_epoch=0, base_sequence=0
        )
    for _ in range(3):
        await attempt(written, ME)
    async with written.life() as log:
        leader = log.topics["orders"].leaders[0]
        assert (leader.leader_epoch, leader.high_watermark) == (4, 1)
        assert list(leader.epoch_range.state.producers) == [5]
    assert audit(written.objects, written.rows).violations == []


async def test_a_wall_clock_set_days_ahead_makes_no_broker_forget_a_producer() -> None:
    """Producers expire by the time of the chain: a repeat would be stored twice."""

    written, clock = WrittenLog(checkpoint_segments=2), JumpingClock()
    batch = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
    async with written.life(runner=replace(written.runner, clock=clock)) as log:
        leader = (await log.create_topic("orders", 1, {})).leaders[0]
        await written.write(log, leader, [EPOCH_MS], **batch)
        clock.ahead_ms = 3 * DAY_MS
        for _ in range(5):
            await written.write(log, leader, [EPOCH_MS])
        repeat = await written.write(log, leader, [EPOCH_MS], **batch)
        assert (repeat.base_offset, leader.log_end) == (0, 6)


@pytest.mark.parametrize("ahead_days", [3, -3])
@pytest.mark.parametrize("is_first", [True, False], ids=["first", "then"])
async def test_a_broker_that_starts_with_a_clock_days_off_forgets_no_producer(
    ahead_days: int, is_first: bool
) -> None:
    """Chains begin with the time of the store: else a first checkpoint forgets what it inherits.

    With a clock that is ahead that of its own chain; with one that is behind that of the next.
    """

    written, clock = WrittenLog(checkpoint_segments=2), JumpingClock()
    clock.ahead_ms = ahead_days * DAY_MS
    off = replace(written.runner, clock=clock, believed=BelievedTime())
    first, then = (off, None) if is_first else (None, off)
    batch = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
    async with written.life(clean=False, runner=first) as log:
        leader = (await log.create_topic("orders", 1, {})).leaders[0]
        await written.write(log, leader, [EPOCH_MS], **batch)
    async with written.life(clean=False, runner=then) as log:
        for _ in range(5):
            await written.write(log, log.topics["orders"].leaders[0], [EPOCH_MS])
    async with written.life() as log:
        leader = log.topics["orders"].leaders[0]
        end = leader.log_end
        repeat = await written.write(log, leader, [EPOCH_MS], **batch)
        assert (repeat.base_offset, leader.log_end) == (0, end)


async def test_a_topic_row_that_lands_late_brings_no_topic_to_life() -> None:
    """Its partitions were cleared away, or it was deleted: its id may have been led before."""

    written = WrittenLog()
    late = TopicRow(bytes(range(16)), TopicStatus.LIVE, 2, {})
    async with written.life(clean=False):
        pass
    await written.runner.registry.put_if(TOPIC, "orders", late.row())
    async with written.life() as log:
        assert not log.topics
        topic = await log.create_topic("orders", 1, {})
        await written.write(log, topic.leaders[0], [EPOCH_MS])
    assert audit(written.objects, written.rows).violations == []


async def led_twice(written: WrittenLog) -> TopicPartition:
    """One partition: records in chain 1, which is sealed; chain 2 has led it and wrote nothing."""
    async with written.life(clean=False) as log:
        topic = await log.create_topic("orders", 2, {})
        await written.write(log, topic.leaders[0], [EPOCH_MS])
        await written.write(log, topic.leaders[1], [EPOCH_MS])
    async with written.life(clean=False):
        pass
    return TopicPartition(topic.topic_id, 0)


@pytest.mark.parametrize("lost", ["topic", "partition", "partitions"])
async def test_a_row_that_was_lost_is_not_taken_for_one_that_never_came(lost: str) -> None:
    """Half a copy of the registry: no row goes, and no topic is deleted, for want of another."""

    written = WrittenLog()
    key = await led_twice(written)
    keys = [key, key._replace(partition=1)][: 1 if lost == "partition" else 2]
    places = [(partition_pk(*one), partition_sk(*one)) for one in keys]
    for place in [(TOPIC, "orders")] if lost == "topic" else places:
        await written.runner.registry.delete_if(*place)
    left = {pk: at_once(written.rows.query(pk)) for pk in (TOPIC, *partition_pks())}
    with pytest.raises(BaseExceptionGroup) as refused:
        async with written.life():
            pass
    assert refused.group_contains(Refused, match="logstore restore")
    for pk, rows in left.items():
        assert [sk for sk, _ in at_once(written.rows.query(pk))] == [sk for sk, _ in rows]
    assert not [k for k in written.objects.list(TOPICS) if b"delet" in written.objects.get(k.key)]


async def test_a_partition_row_lost_beside_sealed_chains_is_no_deletion() -> None:
    """Nothing but the chains that are sealed says that the partition was ever led."""

    written = WrittenLog()
    async with written.life(clean=False) as log:
        topic = await log.create_topic("orders", 2, {})
        await written.write(log, topic.leaders[1], [EPOCH_MS])
    await attempt(written, ME)
    key = TopicPartition(topic.topic_id, 1)
    await written.runner.registry.delete_if(partition_pk(*key), partition_sk(*key))
    with pytest.raises(Refused, match="logstore restore"):
        await attempt(written, ME)


async def test_everything_drawn_stays_drawn() -> None:
    written = WrittenLog()
    for expected in (1, 2, 3):
        async with written.life() as log:
            assert log.epoch == expected
            first = log.new_producer_id()
            assert first >> 32 == expected
            assert log.new_producer_id() != first
    assert written.objects.get(segment_key(3, 0))
    with pytest.raises(NotFound):
        written.objects.get(segment_key(4, 0))
