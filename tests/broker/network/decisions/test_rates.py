"""Rates of windows and buckets: a client that waits as the answer says stays within its quota."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.network.decisions.rates import (
    BY_DEFAULT,
    THROTTLE_S_MAX,
    TokenBucket,
    WindowedRate,
    Windows,
)

WINDOWS = BY_DEFAULT.number
BURST_S = BY_DEFAULT.burst_s
"""Work of so many seconds may be done at once by a client that did nothing before."""


def test_the_work_of_ten_seconds_may_be_done_at_once() -> None:
    rate = WindowedRate()
    rate.add(1000.0, 50.0)
    assert rate.throttle_s(100.0, 50.0) == 0

    rate.add(100.0, 50.0)
    assert rate.throttle_s(100.0, 50.0) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("age_s", "expected_s"),
    # 2,000 / 100 a second, less the 10 s and the part of a window that have begun.
    [(0.0, 10.0), (0.5, 9.5), (1.0, 10.0), (1.5, 9.5), (10.25, 9.75), (11.0, 0.0)],
)
def test_the_time_to_wait_is_kafkas(age_s: float, expected_s: float) -> None:
    rate = WindowedRate()
    rate.add(2000.0, 100.0)

    assert rate.throttle_s(100.0, 100.0 + age_s) == pytest.approx(expected_s)


def test_windows_that_are_over_do_not_count() -> None:
    rate = WindowedRate()
    rate.add(5000.0, 0.0)
    rate.add(100.0, 10.75)

    assert rate.total(10.75) == 5100.0
    assert rate.total(11.0) == 100.0
    assert not rate.is_idle(21.5)
    assert rate.is_idle(21.75)


def test_a_rate_of_zero_lets_nothing_pass() -> None:
    rate, bucket = WindowedRate(), TokenBucket(0.0, 0.0)
    assert rate.throttle_s(0.0, 0.0) == 0
    rate.add(1.0, 0.0)
    assert rate.throttle_s(0.0, 0.0) == THROTTLE_S_MAX
    bucket.take(1.0, 0.0, 0.0)
    assert bucket.throttle_s(0.0, 5.0) == THROTTLE_S_MAX


steps = st.lists(st.tuples(st.floats(0.0, 3.0), st.integers(1, 300)), min_size=1, max_size=60)


@given(steps)
def test_a_client_that_waits_stays_within_its_quota_and_one_burst(
    work: list[tuple[float, int]],
) -> None:
    rate, now_s, total, limit = WindowedRate(), 0.0, 0, 100.0
    for pause_s, amount in work:
        now_s += pause_s
        rate.add(amount, now_s)
        total += amount
        now_s += rate.throttle_s(limit, now_s)
        # The last request is done before its client waits, and a window is not cut.
        assert total <= limit * (now_s + BURST_S + 1) + 1


@given(steps)
def test_a_bucket_fills_at_its_rate(work: list[tuple[float, int]]) -> None:
    limit = 10.0
    bucket, now_s, total = TokenBucket(limit, 0.0), 0.0, 0
    for pause_s, amount in work:
        now_s += pause_s
        bucket.take(amount, limit, now_s)
        total += amount
        now_s += bucket.throttle_s(limit, now_s)
        assert bucket.throttle_s(limit, now_s) == pytest.approx(0, abs=1e-6)
        assert total <= limit * (now_s + WINDOWS) + 1


def test_a_bucket_holds_eleven_seconds_of_changes_and_goes_below_zero() -> None:
    bucket = TokenBucket(2.0, 0.0)
    bucket.take(22.0, 2.0, 0.0)
    assert bucket.throttle_s(2.0, 0.0) == 0
    bucket.take(10.0, 2.0, 0.0)
    assert bucket.throttle_s(2.0, 0.0) == 5.0
    assert bucket.throttle_s(2.0, 3.0) == 2.0
    assert not bucket.is_idle(15.9)
    assert bucket.is_idle(16.0)
    bucket.take(0.0, 4.0, 16.0)
    assert not bucket.is_idle(16.0), "more fit in, and fill up"


def test_fewer_and_longer_windows_forget_later_and_allow_smaller_bursts() -> None:
    kept = Windows(number=3, size_s=10.0)
    rate, usual = WindowedRate(kept), WindowedRate()
    for one in (rate, usual):
        one.add(100.0, 0.0)
    assert (usual.total(12.0), rate.total(12.0), rate.total(30.0)) == (0.0, 100.0, 0.0)
    rate = WindowedRate(kept)
    rate.add(30.0, 0.0)
    assert rate.throttle_s(1.0, 0.0) == 30.0 - kept.burst_s == 10.0
    bucket = TokenBucket(1.0, 0.0, kept)
    bucket.take(kept.span_s, 1.0, 0.0)
    assert bucket.throttle_s(1.0, 0.0) == 0.0
    assert Windows(number=1).burst_s == 1.0, "one window is not no burst: nothing would be read"
