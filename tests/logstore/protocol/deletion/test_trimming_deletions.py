"""Trimming while a topic is being deleted."""

from logstore.protocol.steps import Create
from logstore.protocol.topics.life import delete_topic
from logstore.testing.audit import audit
from logstore.testing.scripted import resume, stop_before
from logstore.testing.virtual_loop import EPOCH_MS
from tests.logstore.protocol.deletion.test_trimming import TrimmedLog, play


def test_a_topic_that_is_deleted_in_the_grace_of_a_trim_point_raises_no_alarm() -> None:
    """Its rows go before its deletion is recorded: nothing says then that the trim point is right,
    and nothing that it is wrong.
    """

    async def story(written: TrimmedLog) -> None:
        (key,) = written.records
        await written.raise_log_start(key, 20)
        (first,) = await written.trim()
        assert first.published
        steps = delete_topic("orders", key.topic_id)
        request = await stop_before(written.runner, steps, Create)
        (second,) = await written.trim()
        assert (second.deleted, second.waiting) == ({}, len(first.published))
        assert not [v for v in audit(written.objects, written.rows).violations if "S5" in v]

        await written.runner.run(resume(steps, request))
        (third,) = await written.trim()
        assert third.deleted.keys() == first.published.keys()

    play(story)


async def test_the_largest_timestamp_is_not_looked_for_in_segments_that_are_gone() -> None:
    """Index summaries still name it after the records of its epoch range were deleted."""

    written = TrimmedLog()
    async with written.life() as log:
        topic = await log.create_topic("orders", 1, {})
        for _ in range(20):
            await written.write(log, topic.leaders[0], [EPOCH_MS])
    (key,) = written.records
    await written.raise_log_start(key, 20)
    await written.trim(passes=3)
    async with written.life() as log:
        leader = log.topics["orders"].leaders[0]
        assert (len(leader.epoch_ranges), leader.log_start, leader.high_watermark) == (
            2,
            20,
            20,
        )
        assert await log.offset_of_max_timestamp(leader, 20) is None
