"""What sinks staged goes when no leader will copy it any more, and not before."""

from collections.abc import Sequence

import pytest

from logstore.epoch.leader import Leader
from logstore.epoch.log import Log, Topic
from logstore.errors import AlreadyExists
from logstore.formats.manifest import decode_manifest
from logstore.formats.partition_row import partition_pk, partition_sk
from logstore.formats.staging_keys import BATCH_MAX, STAGING
from logstore.formats.topic_row import TOPIC
from logstore.protocol.sinks.staging_sweep import SweptStaging, sweep_staging
from logstore.protocol.sinks.verdicts import DAY_MS
from logstore.testing.simulated_rows import at_once
from logstore.testing.virtual_loop import VirtualClock, run
from tests.broker.staging import Staging
from tests.logstore.epoch.test_adopt import staged
from tests.logstore.written import WrittenLog, committed

GRACE_MS = 3_600_000
LIMIT_S = 1e7


class SweptLog(WrittenLog):
    """A log of topic "orders" with two partitions, and a sink that stages in it."""

    topic: Topic

    async def open(self, log: Log) -> Topic:
        self.topic = log.topics.get("orders") or await log.create_topic("orders", 2, {})
        return self.topic

    def stage(self, batch: int = 0, sink_id: str = "sink") -> Staging:
        """One object with two batches of partition 0 and one of partition 1."""
        found = Staging(self.cluster_id, self.topic, sink_id, batch)
        found.created_ms = VirtualClock().now_ms()
        found.task({0: [["a"], ["b"]], 1: [["x"]]})
        return found

    @property
    def cluster_id(self) -> bytes:
        return self._cluster_id

    async def adopt(
        self, log: Log, found: Staging, done: Sequence[int] = (2, 1), total: Sequence[int] = (2, 1)
    ) -> None:
        """Copy the first batches of each partition."""
        for partition, count in enumerate(done):
            leader: Leader = self.topic.leaders[partition]
            if count:
                appended = leader.adopt(
                    found.sink_batch,
                    staged(0, 0, count),
                    batches_done=0,
                    batches_total=total[partition],
                )
                await committed(log, appended.seq)

    async def sweep(self, after_ms: int = GRACE_MS) -> SweptStaging:
        await VirtualClock().sleep_s(after_ms / 1000)
        return await self.runner.run(sweep_staging(self.cluster_id, GRACE_MS))

    def keys(self) -> list[str]:
        return [info.key.rpartition("/")[2] for info in self.objects.list(STAGING)]

    async def begin(self) -> None:
        self._cluster_id = (await self._identity()).cluster_id


async def swept_log(**fields: int) -> SweptLog:
    written = SweptLog(**fields)
    await written.begin()
    return written


def test_staged_objects_go_once_a_checkpoint_has_the_batch_in_each_partition() -> None:
    async def scenario() -> None:
        written = await swept_log(checkpoint_segments=1_000)
        async with written.life(clean=False) as log:
            await written.open(log)
            found = written.stage().put(written.objects)
            await written.adopt(log, found)
        swept = await written.sweep()
        assert (swept.objects, swept.waiting) == (0, 1), "no checkpoint knows of it"
        async with written.life() as log:
            await written.open(log)
        swept = await written.sweep()
        assert (swept.objects, swept.manifests, swept.waiting) == (1, 0, 0)
        assert written.keys() == ["manifest"]

    run(scenario(), limit_s=LIMIT_S)


@pytest.mark.parametrize("done", [(1, 1), (2, 0), (0, 1)])
def test_staged_objects_stay_while_a_partition_lacks_a_part(done: tuple[int, int]) -> None:
    async def scenario() -> None:
        written = await swept_log()
        async with written.life() as log:
            await written.open(log)
            found = written.stage().put(written.objects)
            await written.adopt(log, found, done)
        swept = await written.sweep(20 * DAY_MS)
        assert (swept.objects, swept.waiting) == (0, 1)
        assert len(written.keys()) == 2

    run(scenario(), limit_s=LIMIT_S)


def test_a_later_batch_of_the_sink_says_that_the_earlier_ones_are_through() -> None:
    async def scenario() -> None:
        written = await swept_log()
        async with written.life() as log:
            await written.open(log)
            first = written.stage(0).put(written.objects)
            await written.adopt(log, first)
            second = written.stage(1).put(written.objects)
            await written.adopt(log, second, (1, 0))
        swept = await written.sweep()
        assert (swept.objects, swept.waiting) == (1, 1)
        prefixes = {info.key for info in written.objects.list(first.sink_batch.prefix)}
        assert prefixes == {first.sink_batch.manifest_key}

    run(scenario(), limit_s=LIMIT_S)


def test_nothing_goes_before_the_grace_is_over() -> None:
    async def scenario() -> None:
        written = await swept_log()
        async with written.life() as log:
            await written.open(log)
            found = written.stage().put(written.objects)
            await written.adopt(log, found)
        assert (await written.sweep(GRACE_MS - 60_000)).objects == 0
        assert (await written.sweep(60_000)).objects == 1

    run(scenario(), limit_s=LIMIT_S)


def test_losers_go_although_the_batch_is_not_adopted() -> None:
    async def scenario() -> None:
        written = await swept_log()
        async with written.life() as log:
            await written.open(log)
            found = written.stage()
            found.put(written.objects)
            loser = f"{found.sink_batch.prefix}0-8-0"
            written.objects.create(loser, [b"of a killed attempt"])
        assert (await written.sweep()).objects == 1
        assert written.keys() == ["0-7-0", "manifest"]

    run(scenario(), limit_s=LIMIT_S)


def test_a_batch_without_a_manifest_is_given_up_first_and_goes_then() -> None:
    async def scenario() -> None:
        written = await swept_log()
        async with written.life() as log:
            await written.open(log)
            found = written.stage()
        for ref, data in found.objects.items():
            written.objects.create(ref.name.key(found.sink_batch), [data])
        assert (await written.sweep(DAY_MS - 60_000)).voided == 0
        swept = await written.sweep(60_000)
        assert (swept.voided, swept.objects) == (1, 0), "the driver may be about to commit"
        data = written.objects.get(found.sink_batch.manifest_key)
        void = decode_manifest(data, found.sink_batch, cluster_id=written.cluster_id)
        assert void.head.is_void
        with pytest.raises(AlreadyExists):
            written.objects.create(found.sink_batch.manifest_key, [found.manifest()])
        assert (await written.sweep()).objects == 1
        assert written.keys() == ["manifest"]

    run(scenario(), limit_s=LIMIT_S)


def test_manifests_go_when_every_leader_refuses_them() -> None:
    async def scenario() -> None:
        written = await swept_log()
        async with written.life() as log:
            await written.open(log)
            for batch, sink_id in ((0, "sink"), (BATCH_MAX, "once")):
                found = written.stage(batch, sink_id).put(written.objects)
                await written.adopt(log, found)
        assert (await written.sweep()).objects == 2
        assert (await written.sweep(3 * DAY_MS)).manifests == 0
        assert (await written.sweep(DAY_MS)).manifests == 1, "of the single batch write"
        assert (await written.sweep(26 * DAY_MS)).manifests == 0
        assert (await written.sweep(DAY_MS)).manifests == 1
        assert written.keys() == []

    run(scenario(), limit_s=LIMIT_S)


def test_a_batch_that_was_never_complete_goes_when_its_manifest_is_over() -> None:
    async def scenario() -> None:
        written = await swept_log()
        async with written.life() as log:
            await written.open(log)
            written.stage().put(written.objects)
        assert (await written.sweep(30 * DAY_MS)).objects == 0
        assert (await written.sweep(DAY_MS)).objects == 1

    run(scenario(), limit_s=LIMIT_S)


def test_a_deleted_topic_needs_nothing_and_a_missing_row_proves_nothing() -> None:
    async def scenario() -> None:
        written = await swept_log()
        async with written.life() as log:
            topic = await written.open(log)
            written.stage().put(written.objects)
        await lose_rows(written, topic)
        assert (await written.sweep()).objects == 0
        other = await swept_log()
        async with other.life() as log:
            await other.open(log)
            other.stage().put(other.objects)
            await log.delete_topic("orders")
        assert (await other.sweep()).objects == 1

    run(scenario(), limit_s=LIMIT_S)


async def lose_rows(written: SweptLog, topic: Topic) -> None:
    for number in range(2):
        place = partition_pk(topic.topic_id, number), partition_sk(topic.topic_id, number)
        await written.rows.delete_if(*place, [], "lost")
    await written.rows.delete_if(TOPIC, "orders", [], "lost too")
    assert at_once(written.rows.get(TOPIC, "orders")) is None


def test_a_manifest_that_cannot_be_read_keeps_its_objects() -> None:
    async def scenario() -> None:
        written = await swept_log()
        async with written.life() as log:
            await written.open(log)
            found = written.stage()
            found.put(written.objects, found.manifest()[:-1])
        swept = await written.sweep(40 * DAY_MS)
        assert (swept.objects, swept.troubles) == (0, 1)
        assert len(written.keys()) == 2

    run(scenario(), limit_s=LIMIT_S)
