"""Creating and deleting topics: one outcome or the other, wherever the broker dies."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.errors import ConditionFailed
from logstore.formats.partition_row import PartitionRow, partition_pks
from logstore.formats.topic_record import record_key
from logstore.formats.topic_row import TOPIC
from logstore.ports.registry import Condition, Registry, Row, RowAbsent
from logstore.protocol.rows.metadata import read_partition_rows, read_topics
from logstore.protocol.steps import PutRow, Steps, UpdateRow
from logstore.protocol.topics.life import (
    DELETED_KEPT_MS,
    BadPartitionCount,
    BadTopicName,
    RowsRemoved,
    TopicExists,
    UnknownTopic,
    check_partition_count,
    check_topic_name,
    create_topic,
    delete_topic,
    drop_lacking_topic,
)
from logstore.testing.audit import audit
from logstore.testing.scripted import resume
from logstore.testing.virtual_loop import EPOCH_MS, run
from tests.logstore.written import WrittenLog

STEPS_MAX = 7


async def first_steps(written: WrittenLog, steps: Steps[object], count: int) -> bool:
    """Perform so many requests and die; whether that was all of them."""
    answer: object = None
    try:
        for _ in range(count + 1):
            request = steps.send(answer)
            answer = await written.runner._perform(request) if count else None
            count -= 1
    except StopIteration:
        return True
    return False


@pytest.mark.parametrize("count", range(STEPS_MAX))
async def test_a_creation_that_dies_anywhere_leaves_a_topic_or_nothing(count: int) -> None:
    written = WrittenLog()
    async with written.life(clean=False) as log:
        steps = create_topic("orders", [PartitionRow.new(1, log.epoch)] * 3, {})
        finished = await first_steps(written, steps, count)
    is_there = count >= 4  # its row is
    async with written.life() as log:
        topics = await written.runner.run(read_topics())
        rows = await written.runner.run(read_partition_rows())
        assert list(log.topics) == list(topics) == (["orders"] if is_there else [])
        assert len(rows) == (3 if is_there else 0)
        if not is_there:
            await log.create_topic("orders", 3, {})
        await written.write(log, log.topics["orders"].leaders[2], [EPOCH_MS])
    assert audit(written.objects, written.rows).violations == []
    assert finished == (count >= 5)


@pytest.mark.parametrize("count", range(STEPS_MAX))
async def test_a_deletion_that_dies_anywhere_is_finished_or_never_was(count: int) -> None:
    written = WrittenLog()
    async with written.life(clean=False) as log:
        topic = await log.create_topic("orders", 3, {})
        await first_steps(written, delete_topic("orders", topic.topic_id), count)
    async with written.life() as log:
        begun = count >= 2
        assert list(log.topics) == ([] if begun else ["orders"])
        rows = await written.runner.run(read_partition_rows())
        assert len(rows) == (0 if begun else 3)
        if begun:
            assert await written.runner.run(read_topics()) == {}
            new = await log.create_topic("orders", 1, {})
            assert new.topic_id != topic.topic_id
            assert new.leaders[0].high_watermark == 0


@pytest.mark.parametrize("count", range(2, STEPS_MAX))
async def test_a_creation_finishes_a_deletion_whose_broker_died(count: int) -> None:
    written = WrittenLog()
    async with written.life(clean=False) as log:
        topic = await log.create_topic("orders", 3, {})
        await first_steps(written, delete_topic("orders", topic.topic_id), count)
        new = await log.create_topic("orders", 1, {})
        assert new.topic_id != topic.topic_id
        assert len(await written.runner.run(read_partition_rows())) == 1
        deletion = record_key(topic.topic_id, 2)
        assert written.objects.get(deletion), "a restore does not bring it back"
    assert audit(written.objects, written.rows).violations == []


@pytest.mark.parametrize("count", range(2, STEPS_MAX - 1))
async def test_a_slow_deletion_that_a_creation_has_finished_leaves_the_next_life_alone(
    count: int,
) -> None:
    written = WrittenLog()
    async with written.life(clean=False) as log:
        topic = await log.create_topic("orders", 1, {})
        deletion = delete_topic("orders", topic.topic_id)
        request = next(deletion)
        for _ in range(count):
            request = deletion.send(await written.runner._perform(request))
        new = await log.create_topic("orders", 1, {})
        await written.runner.run(resume(deletion, request))
        topics = await written.runner.run(read_topics())
        assert {name: one.topic_id for name, one in topics.items()} == {"orders": new.topic_id}
        assert len(await written.runner.run(read_partition_rows())) == 1
    assert audit(written.objects, written.rows).violations == []


async def test_a_name_is_taken_once() -> None:
    written = WrittenLog()
    async with written.life() as log:
        first = await log.create_topic("orders", 2, {"retention.ms": "1"})
        with pytest.raises(TopicExists):
            await log.create_topic("orders", 5, {})
        assert log.topics["orders"] is first
        assert len(await written.runner.run(read_partition_rows())) == 2
    async with written.life() as log:
        assert log.topics["orders"].topic_id == first.topic_id
        assert log.topics["orders"].configs == {"retention.ms": "1"}


async def test_who_loses_a_race_for_a_name_leaves_nothing_behind() -> None:
    written = WrittenLog()
    async with written.life() as log:
        loser = create_topic("orders", [PartitionRow.new(1, log.epoch)] * 3, {})
        request = next(loser)
        while not (isinstance(request, PutRow) and request.pk == TOPIC):
            request = loser.send(await written.runner._perform(request))
        await log.create_topic("orders", 1, {})
        with pytest.raises(TopicExists):
            await written.runner.run(resume(loser, request))
        assert len(await written.runner.run(read_partition_rows())) == 1


async def test_a_row_changed_after_a_lost_answer_is_still_ours() -> None:
    """Its write id is another's by then; the topic id tells."""

    written = WrittenLog()
    async with written.life() as log:
        steps = create_topic("orders", [PartitionRow.new(1, log.epoch)] * 2, {})
        request = next(steps)
        while not (isinstance(request, PutRow) and request.pk == TOPIC):
            request = steps.send(await written.runner._perform(request))
        await written.runner._perform(request)  # applied, its answer lost
        await written.runner._perform(UpdateRow(TOPIC, "orders", {"configs": "{}"}, []))
        new = await written.runner.run(resume(steps, request))
        assert len(new.partitions) == 2
        assert len(await written.runner.run(read_partition_rows())) == 2


async def test_deleting_what_is_not_there_says_so() -> None:
    written = WrittenLog()
    async with written.life() as log:
        with pytest.raises(UnknownTopic):
            await log.delete_topic("orders")
        topic = await log.create_topic("orders", 1, {})
        await log.delete_topic("orders")
        assert topic.is_deleted
        assert topic.leaders[0].is_retired
        with pytest.raises(UnknownTopic):
            await written.runner.run(delete_topic("orders", topic.topic_id))
        again = await log.create_topic("orders", 1, {})
        with pytest.raises(UnknownTopic):
            await written.runner.run(delete_topic("orders", topic.topic_id))
        assert log.topics["orders"] is again


async def test_a_put_given_up_as_lost_does_not_bring_a_deleted_topic_back() -> None:
    written = WrittenLog()
    async with written.life() as log:
        topic = await log.create_topic("orders", 1, {})
        row = (await written.runner.run(read_topics()))["orders"]
        await log.delete_topic("orders")
        with pytest.raises(ConditionFailed):
            await written.runner.registry.put_if(TOPIC, "orders", row.row(), RowAbsent())
        again = await log.create_topic("orders", 1, {})
        assert again.topic_id != topic.topic_id
        await log.delete_topic("orders")


async def test_rows_of_deleted_topics_are_forgotten_after_a_while() -> None:
    written = WrittenLog()
    async with written.life() as log:
        await log.create_topic("orders", 1, {})
        await log.delete_topic("orders")
    registry = written.runner.registry
    async with written.life():
        assert await registry.get(TOPIC, "orders") is not None
    await written.runner.clock.sleep_s(DELETED_KEPT_MS / 1000)
    async with written.life():
        assert await registry.get(TOPIC, "orders") is None


async def test_the_row_of_a_deleted_topic_stays_while_no_record_says_that_it_is_deleted() -> None:
    """Without both, a topic that was deleted looks like one that an old registry lost."""

    written = WrittenLog()
    async with written.life() as log:
        topic = await log.create_topic("orders", 1, {})
        await log.delete_topic("orders")
    written.objects.delete(record_key(topic.topic_id, 2))
    await written.runner.clock.sleep_s(DELETED_KEPT_MS / 1000)
    async with written.life():
        assert await written.runner.registry.get(TOPIC, "orders") is not None


def test_fetches_that_wait_at_a_deleted_partition_are_woken() -> None:
    async def scenario() -> int:
        written = WrittenLog()
        async with written.life() as log:
            topic = await log.create_topic("orders", 1, {})
            woken: list[None] = []
            topic.leaders[0].watch(lambda: woken.append(None))
            await log.delete_topic("orders")
        return len(woken)

    assert run(scenario()) == 1


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "ä", "a" * 250, "a\n"])
def test_kafkas_rule_for_names(name: str) -> None:
    with pytest.raises(BadTopicName):
        check_topic_name(name)


@given(st.text("azAZ09._-", min_size=1, max_size=249).filter(lambda name: name not in (".", "..")))
def test_names_that_kafka_takes_are_taken(name: str) -> None:
    check_topic_name(name)


@pytest.mark.parametrize("count", [0, -1, 10_001])
def test_a_topic_has_a_sensible_number_of_partitions(count: int) -> None:
    with pytest.raises(BadPartitionCount):
        check_partition_count(count)


class RowsGone:
    """A registry whose partition rows are cleared away before the first topic row is put."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._is_over = False

    async def put_if(self, pk: str, sk: str, row: Row, *conditions: Condition) -> None:
        if pk == TOPIC and not self._is_over:
            self._is_over = True
            for partition_pk in partition_pks():
                for partition_sk, _ in await self._registry.query(partition_pk):
                    await self._registry.delete_if(partition_pk, partition_sk)
        await self._registry.put_if(pk, sk, row, *conditions)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._registry, name)


async def test_a_creation_whose_partitions_were_cleared_away_can_be_asked_again() -> None:
    written = WrittenLog()
    registry: Any = RowsGone(written.runner.registry)
    async with written.life(runner=replace(written.runner, registry=registry)) as log:
        with pytest.raises(RowsRemoved, match="try again"):
            await log.create_topic("orders", 2, {})
        assert await written.runner.run(read_topics()) == {}
        topic = await log.create_topic("orders", 2, {})
        await written.write(log, topic.leaders[1], [EPOCH_MS])
    assert audit(written.objects, written.rows).violations == []


async def test_a_topic_that_lacks_a_row_and_was_led_is_not_dropped() -> None:
    written = WrittenLog()
    async with written.life() as log:
        topic = await log.create_topic("orders", 1, {})
        identity = await written._identity()
        ruling = await written.runner.run(
            drop_lacking_topic(identity.cluster_id, "orders", topic.topic_id)
        )
        assert not ruling.may
        assert list(await written.runner.run(read_topics())) == ["orders"]
