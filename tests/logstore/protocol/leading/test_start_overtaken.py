"""Starts that are overtaken by other starts, and creations by processes that were suspended."""

import itertools
from collections.abc import Callable
from typing import TypeVar

import pytest

from logstore.errors import LogstoreError, Refused
from logstore.formats.broker_row import BROKER, BrokerRow
from logstore.formats.partition_row import PartitionRow, partition_pks
from logstore.formats.topic_row import TOPIC
from logstore.protocol.leading.start import BrokerInfo, start
from logstore.protocol.rows.metadata import read_partition_rows
from logstore.protocol.steps import GetRow, PutRow, QueryRows, Request, Steps
from logstore.protocol.topics.life import RowsRemoved, create_topic, delete_topic
from logstore.runners.step_runner import outcome_of
from logstore.testing.scripted import resume
from logstore.testing.simulated_rows import at_once
from logstore.testing.virtual_loop import EPOCH_MS, run
from tests.logstore.written import WrittenLog

T = TypeVar("T")

ME = BrokerInfo(1, "localhost", 9092, "", "the lock of 1")


class Ended(Exception):
    """Steps had no such request."""


async def attempt(written: WrittenLog) -> None:
    identity = await written._identity()
    await written.runner.run(start(identity.cluster_id, ME))


@pytest.mark.parametrize("deletion_requests", range(2, 6))
async def test_a_topic_that_is_deleted_during_a_start_is_no_loss(deletion_requests: int) -> None:
    """By another start that overtook it and leads the topic; the deletion has come so far."""

    written = WrittenLog()
    async with written.life(clean=False):
        pass
    identity = await written._identity()
    rows = partition_pks()
    starting = await stopped(
        written,
        start(identity.cluster_id, ME),
        lambda made: isinstance(made, QueryRows) and made.pk == BROKER,
    )
    async with written.life() as log:
        topic = await log.create_topic("orders", 1, {})
        await written.write(log, topic.leaders[0], [EPOCH_MS])
        starting = await stopped(
            written, starting, lambda made: isinstance(made, GetRow) and made.pk in rows
        )
        made = itertools.count(1)
        deleting = await stopped(
            written,
            delete_topic("orders", topic.topic_id),
            lambda _: next(made) > deletion_requests,
        )
        started = await written.runner.run(starting)
        assert started.update.topics.get("orders") is None
        await written.runner.run(deleting)


async def test_a_topic_that_is_created_again_during_a_start_is_another_one() -> None:
    """The start was overtaken, and nothing was lost: it says the former, not the latter."""

    written = WrittenLog()
    async with written.life(clean=False):
        pass
    identity = await written._identity()
    rows = partition_pks()
    starting = await stopped(
        written,
        start(identity.cluster_id, ME),
        lambda made: isinstance(made, QueryRows) and made.pk == BROKER,
    )
    async with written.life() as log:
        topic = await log.create_topic("orders", 1, {})
        await written.write(log, topic.leaders[0], [EPOCH_MS])
        starting = await stopped(
            written, starting, lambda made: isinstance(made, GetRow) and made.pk in rows
        )
        await written.runner.run(delete_topic("orders", topic.topic_id))
        await written.runner.run(create_topic("orders", topic.rows, {}))
        with pytest.raises(Refused, match="was started twice at once"):
            await written.runner.run(starting)


async def stopped(
    written: WrittenLog, steps: Steps[T], before: Callable[[Request], bool]
) -> Steps[T]:
    """The rest of `steps` from the first request that is `before`, which is not performed yet.

    Raises `Ended` where there is none.
    """
    request = next(steps)
    while not before(request):
        answer = await outcome_of(written.runner._perform(request))
        failed = isinstance(answer, LogstoreError)
        try:
            request = steps.throw(answer) if failed else steps.send(answer)
        except StopIteration:
            raise Ended from None
    return resume(steps, request)


async def test_a_start_that_was_overtaken_by_another_is_refused() -> None:
    written = WrittenLog()
    async with written.life(clean=False):
        pass
    identity = await written._identity()
    slow = start(identity.cluster_id, ME)
    request = next(slow)
    answers = 0
    while answers < 2:
        request = slow.send(await written.runner._perform(request))
        answers += 1
    await attempt(written)
    with pytest.raises(Refused, match="started twice"):
        await written.runner.run(resume(slow, request))


def test_a_start_that_was_overtaken_leaves_the_row_to_the_other() -> None:
    async def scenario() -> tuple[int, int]:
        written = WrittenLog()
        async with written.life(clean=False):
            pass
        identity = await written._identity()
        slow = start(identity.cluster_id, ME)
        request = next(slow)
        while not (isinstance(request, PutRow) and request.pk == BROKER):
            request = slow.send(await written.runner._perform(request))
        await attempt(written)
        before = at_once(written.rows.get(BROKER, "1"))
        with pytest.raises(Refused, match="started twice"):
            await written.runner.run(resume(slow, request))
        after = at_once(written.rows.get(BROKER, "1"))
        assert before is not None
        assert after is not None
        return BrokerRow.of(before).epoch, BrokerRow.of(after).epoch

    before, after = run(scenario())
    assert before == after


async def creation(written: WrittenLog, epoch: int) -> Steps[object]:
    """Of a topic, by a process that was suspended before it wrote the topic's row."""
    steps = create_topic("orders", [PartitionRow.new(1, epoch)] * 2, {})
    return await stopped(written, steps, lambda made: isinstance(made, PutRow) and made.pk == TOPIC)


@pytest.mark.slow
def test_a_start_undoes_no_creation_that_was_answered() -> None:
    """The predecessor goes on at any step of the start."""

    async def scenario(goes_on_after: int) -> bool:
        written = WrittenLog()
        async with written.life(clean=False) as log:
            creating = await creation(written, log.epoch)
        identity = await written._identity()
        made = itertools.count()
        try:
            starting = await stopped(
                written, start(identity.cluster_id, ME), lambda _: next(made) >= goes_on_after
            )
        except Ended:
            return False
        outcome = await outcome_of(written.runner.run(creating))
        started = await written.runner.run(starting)
        rows = await written.runner.run(read_partition_rows())
        if isinstance(outcome, LogstoreError):
            assert isinstance(outcome, RowsRemoved)
        else:
            assert list(started.update.topics) == ["orders"]
            assert [key.partition for key in rows] == [0, 1]
        return True

    count = 0
    while run(scenario(count)):
        count += 1
    assert count > 20


@pytest.mark.slow
def test_a_start_that_was_overtaken_removes_no_row_of_a_topic_that_is_led() -> None:
    """By another start that overtook it at any of its steps, once the creation had gone on."""

    async def scenario(overtaken_after: int) -> bool:
        written = WrittenLog()
        async with written.life(clean=False) as log:
            creating = await creation(written, log.epoch)
        identity = await written._identity()
        made = itertools.count()
        try:
            starting = await stopped(
                written, start(identity.cluster_id, ME), lambda _: next(made) >= overtaken_after
            )
        except Ended:
            return False
        created = not isinstance(await outcome_of(written.runner.run(creating)), LogstoreError)
        async with written.life() as log:
            if created:
                await written.write(log, log.topics["orders"].leaders[0], [EPOCH_MS])
            outcome = await outcome_of(written.runner.run(starting))
            if isinstance(outcome, LogstoreError):
                assert "started twice" in str(outcome)
            rows = await written.runner.run(read_partition_rows())
            assert [key.partition for key in rows] == ([0, 1] if created else [])
        return True

    count = 0
    while run(scenario(count)):
        count += 1
    assert count > 20
