"""What key compaction writes through a day of a topic whose keys are written again and again."""

import pytest

from tests.logstore.compaction.churned_log import Churn, churned

pytestmark = pytest.mark.slow

WRITTEN_PER_DIED_MAX = 5.0
ROWS_PER_LIVE_KEY_MAX = 1.25


def test_a_day_writes_no_more_than_five_times_the_bytes_that_died() -> None:
    day = churned(Churn(keys=5000))

    assert day.dropped_rows > 0
    assert day.written_per_died <= WRITTEN_PER_DIED_MAX
    assert day.rows_per_live_key <= ROWS_PER_LIVE_KEY_MAX
    assert day.state_is_right


def test_tombstones_go_through_days_and_the_state_stays_right() -> None:
    days = churned(Churn(keys=500, value_bytes=100, hours=60, share=0.05, deleted=0.2))

    assert days.dropped_tombstones > 0
    assert days.written_per_died <= WRITTEN_PER_DIED_MAX
    assert days.state_is_right
