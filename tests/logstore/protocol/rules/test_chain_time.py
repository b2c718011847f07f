"""The time of a chain goes on as fast as time passes, whatever the wall clock says."""

import pytest

from logstore.protocol.rules.chain_time import CLOCK_SLACK_MS, ChainTime

OPENED_MS = 1_700_000_000_000
DAY_MS = 86_400_000


def after(days: float, *, wall_off_ms: int, last_ms: int = 0) -> int:
    """By a wall clock that is that wrong, so many days after the chain was opened."""
    time = ChainTime(OPENED_MS, 1000.0)
    passed_ms = int(days * DAY_MS)
    return time.now_ms(OPENED_MS + passed_ms + wall_off_ms, 1000.0 + passed_ms / 1000, last_ms)


@pytest.mark.parametrize("off_ms", [0, 59_000, -59_000])
def test_a_wall_clock_that_corrects_itself_a_little_is_followed(off_ms: int) -> None:
    assert after(2, wall_off_ms=off_ms) == OPENED_MS + 2 * DAY_MS + off_ms


@pytest.mark.parametrize("days_off", [3, -3, 400, -400])
def test_a_wall_clock_that_is_set_days_off_is_not(days_off: int) -> None:
    """One that is set back would stop the chain's time: to the next chain all is days old."""
    due_ms = OPENED_MS + 2 * DAY_MS
    assert abs(after(2, wall_off_ms=days_off * DAY_MS) - due_ms) == CLOCK_SLACK_MS


def test_a_chain_never_goes_back() -> None:
    assert after(2, wall_off_ms=0, last_ms=OPENED_MS + 3 * DAY_MS) == OPENED_MS + 3 * DAY_MS
