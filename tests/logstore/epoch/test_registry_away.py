"""While the registry is away, what is durable is summed up and dropped all the same."""

from collections.abc import Sequence
from dataclasses import replace

from logstore.epoch.log import Log
from logstore.errors import Retryable
from logstore.formats.chain_row import CHAIN, ChainRow, chain_sk
from logstore.formats.index_rows import row_count
from logstore.ports.registry import Condition, Registry, Row
from logstore.protocol.chain.follow import SEGMENTS_PER_ROW_READ, UNNAMED_SEGMENTS_MAX, Follower
from logstore.runners.step_runner import outcome_of
from logstore.testing.audit import audit
from logstore.testing.simulated_rows import at_once
from logstore.testing.virtual_loop import EPOCH_MS
from tests.logstore.epoch.test_forgetting import hand_over_to_itself
from tests.logstore.written import WrittenLog


class AwayRegistry:
    """A registry that answers unless `is_away`."""

    def __init__(self, registry: Registry) -> None:
        self.is_away = False
        self._registry = registry

    def _there(self) -> Registry:
        if self.is_away:
            raise Retryable("the registry is away")
        return self._registry

    async def get(self, pk: str, sk: str) -> Row | None:
        return await self._there().get(pk, sk)

    async def query(self, pk: str, prefix: str = "") -> Sequence[tuple[str, Row]]:
        return await self._there().query(pk, prefix)

    async def put_if(self, pk: str, sk: str, row: Row, *conditions: Condition) -> None:
        await self._there().put_if(pk, sk, row, *conditions)

    async def update_if(self, pk: str, sk: str, sets: Row, *conditions: Condition) -> None:
        await self._there().update_if(pk, sk, sets, *conditions)

    async def delete_if(self, pk: str, sk: str, *conditions: Condition) -> None:
        await self._there().delete_if(pk, sk, *conditions)

    async def close(self) -> None:
        await self._registry.close()


async def test_a_broker_drops_what_is_summed_up_while_the_registry_is_away() -> None:
    written = WrittenLog(checkpoint_segments=4)
    registry = AwayRegistry(written.runner.registry)
    runner = replace(written.runner, registry=registry)
    async with written.life(runner=runner) as log:
        leader = (await log.create_topic("orders", 1, {})).leaders[0]
        registry.is_away = True
        for number in range(100):
            await written.write(log, leader, [EPOCH_MS + number])
            held = row_count(leader.epoch_range.rows) + sum(
                row_count(window.rows) for window in leader._windows
            )
            assert held <= 12
            assert len(log.writer.chain.spans) <= 8
        assert len(log.writer.checkpoints.durable) >= 20
        assert chain_row(written, log).checkpoint < 10
        assert (await log.read(leader, 0, 100, 1 << 20)).byte_count > 0
        registry.is_away = False
        while chain_row(written, log).checkpoint < log.writer.checkpoints.durable[-1]:
            await log.runner.clock.sleep_s(0.1)
        for number in range(10):
            await written.write(log, leader, [EPOCH_MS + number])
    assert audit(written.objects, written.rows).violations == []


async def test_a_broker_knows_its_own_checkpoints_also_once_it_read_its_chain_as_others_do() -> (
    None
):
    """As it does for an earlier leadership of its own that no checkpoint sums up."""

    written = WrittenLog(checkpoint_segments=20)
    registry = AwayRegistry(written.runner.registry)
    runner = replace(written.runner, registry=registry)
    async with written.life(runner=runner) as log:
        leader = (await log.create_topic("orders", 1, {})).leaders[0]
        await written.write(log, leader, [EPOCH_MS])
        await hand_over_to_itself(log)
        leader = log.topics["orders"].leaders[0]
        assert (await log.read(leader, 0, 1, 100)).end_offset == 1
        registry.is_away = True
        for _ in range(50):
            await written.write(log, leader, [EPOCH_MS])
        assert leader.first_offset_in_memory > 20
        assert (await log.read(leader, 10, 11, 100)).end_offset == 11
        registry.is_away = False


async def test_who_takes_over_needs_no_checkpoint_that_no_row_names() -> None:
    written = WrittenLog(checkpoint_segments=4)
    registry = AwayRegistry(written.runner.registry)
    runner = replace(written.runner, registry=registry)
    async with written.life(runner=runner, clean=False) as log:
        leader = (await log.create_topic("orders", 1, {})).leaders[0]
        registry.is_away = True
        for number in range(30):
            await written.write(log, leader, [EPOCH_MS], producer_id=5, producer_epoch=0,
                                base_sequence=number)  # fmt: skip
    async with written.life() as log:
        leader = log.topics["orders"].leaders[0]
        producer = leader.epoch_range.state.producer(5)
        assert leader.log_end == 30
        assert producer is not None and producer.batches[-1].last_sequence == 29
        assert (await log.read(leader, 0, 30, 1 << 20)).end_offset > 0
    assert audit(written.objects, written.rows).violations == []


async def test_a_follower_finds_checkpoints_that_no_hint_names() -> None:
    written = WrittenLog(checkpoint_segments=20)
    registry = AwayRegistry(written.runner.registry)
    runner = replace(written.runner, registry=registry)
    async with written.life(runner=runner) as log:
        leader = (await log.create_topic("orders", 1, {})).leaders[0]
        follower = Follower(log.cluster_id, log.epoch, may_list=True)
        await runner.run(follower.advance())
        registry.is_away = True
        for number in range(2 * UNNAMED_SEGMENTS_MAX):
            await written.write(log, leader, [EPOCH_MS])
            await outcome_of(runner.run(follower.advance()))
            (epoch_range,) = follower.state.epoch_ranges.values()
            assert epoch_range.end == number + 1
            assert row_count(epoch_range.rows) <= UNNAMED_SEGMENTS_MAX + SEGMENTS_PER_ROW_READ
        assert follower.checkpoints
        registry.is_away = False


def chain_row(written: WrittenLog, log: Log) -> ChainRow:
    row = at_once(written.rows.get(CHAIN, chain_sk(log.epoch)))
    assert row is not None
    return ChainRow.of(row)
