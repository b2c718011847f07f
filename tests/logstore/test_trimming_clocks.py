"""Wall clocks that are wrong shorten no grace between a trim point and the deletions below it."""

from dataclasses import replace

from logstore.formats.keys import CHAINS
from logstore.protocol.believed_time import BelievedTime
from logstore.testing.virtual_loop import EPOCH_MS, VirtualClock
from tests.logstore.protocol.test_trimming import GRACE_MS, TrimmedLog, play


def test_a_wall_clock_that_jumps_ends_no_grace() -> None:
    async def story(written: TrimmedLog) -> None:
        (key,) = written.records
        await written.raise_log_start(key, 20)
        await written.trim(wait_ms=0)
        before = written.keys(CHAINS)
        right = written.runner
        written.runner = replace(right, clock=VirtualClock(EPOCH_MS + 1000 * GRACE_MS))
        (done,) = await written.trim(wait_ms=0)
        assert (done.waiting, done.deleted) == (2, {})
        assert written.keys(CHAINS) == before
        written.runner = right
        await right.clock.sleep_s(GRACE_MS / 1000)
        (done,) = await written.trim()
        assert done.deleted.keys() == {1, 2}

    play(story)


def test_a_wall_clock_that_was_behind_shortens_no_grace() -> None:
    """The trim point is published by a broker whose clock is behind, and deleted by another."""

    async def story(written: TrimmedLog) -> None:
        (key,) = written.records
        await written.raise_log_start(key, 20)
        right = written.runner
        behind = VirtualClock(EPOCH_MS - 1000 * GRACE_MS)
        written.runner = replace(right, clock=behind, believed=BelievedTime())
        await written.trim(wait_ms=0)
        written.runner = right
        before = written.keys(CHAINS)
        (done,) = await written.trim(wait_ms=0)
        assert (done.waiting, done.deleted) == (2, {})
        assert written.keys(CHAINS) == before

    play(story)
