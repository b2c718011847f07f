"""A broker follows the finalized format level, and ends where it cannot read it."""

import pytest

from logstore.errors import Refused
from logstore.formats.cluster_row import CLUSTER
from logstore.formats.levels import NEWEST_LEVEL
from logstore.protocol.rows.changes import begin_feed_again
from logstore.testing.simulated_rows import at_once
from tests.logstore.written import WrittenLog


def set_level(written: WrittenLog, level: int) -> None:
    at_once(written.rows.update_if(CLUSTER, CLUSTER, {"format_level": level}, [], f"{level}"))


async def prepared() -> WrittenLog:
    """A log of level 1, stopped."""
    written = WrittenLog()
    async with written.life():
        pass
    set_level(written, 1)
    return written


@pytest.mark.parametrize(("has_hint", "seconds"), [(True, 1), (False, 80)])
async def test_it_hears_of_a_level_by_the_feed_at_once_and_else_with_all_rows(
    has_hint: bool,
    seconds: float,
) -> None:
    written = await prepared()
    async with written.life() as log:
        assert log.format_level == 1
        set_level(written, 2)
        if has_hint:
            await written.runner.run(begin_feed_again())
        await written.runner.clock.sleep_s(seconds)
        assert log.format_level == 2


async def test_one_that_cannot_read_the_level_ends_and_starts_no_more() -> None:
    written = await prepared()
    async with written.life(clean=False) as log:
        set_level(written, NEWEST_LEVEL + 1)
        await written.runner.run(begin_feed_again())
        await log.fenced.wait()
    with pytest.raises(Refused, match="newer logstore"):
        async with written.life():
            pass
