"""How often, how late and when a request may be sent a second time."""

from random import Random

import pytest

from logstore.objects.hedge_policy import HedgePolicy, HedgeSettings, Kind


def seen(policy: HedgePolicy, kind: Kind, size_bytes: int, took_s: float, count: int) -> None:
    for _ in range(count):
        policy.begin(kind, size_bytes, 0.0)
        policy.end(kind, size_bytes, took_s)


def test_nothing_is_sent_twice_before_enough_is_known_of_its_kind_and_size() -> None:
    policy = HedgePolicy(HedgeSettings())
    seen(policy, "create", 4096, 0.03, 49)
    assert policy.begin("create", 4096, 0.0) is None
    seen(policy, "create", 4096, 0.03, 1)
    assert policy.begin("create", 4096, 0.0) == 0.03
    assert policy.begin("create", 8 << 20, 0.0) is None
    assert policy.begin("read", 4096, 0.0) is None


def test_the_delay_is_the_p99_of_recent_requests() -> None:
    policy = HedgePolicy(HedgeSettings())
    for milliseconds in range(1, 501):
        seen(policy, "create", 1, milliseconds / 1000, 1)
    assert policy.begin("create", 1, 0.0) == pytest.approx(0.496)
    seen(policy, "create", 1, 0.1, 500)  # the store has become faster
    assert policy.begin("create", 1, 0.0) == pytest.approx(0.1)


def test_a_fast_store_is_not_asked_twice_for_a_hiccup() -> None:
    policy = HedgePolicy(HedgeSettings())
    seen(policy, "create", 1, 0.001, 100)
    assert policy.begin("create", 1, 0.0) == 0.02


def test_at_most_one_in_twenty_is_sent_twice_however_slow_all_are() -> None:
    policy, rng = HedgePolicy(HedgeSettings()), Random(1)
    taken = 0
    for number in range(10_000):
        policy.begin("create", 1, float(number))
        taken += rng.random() < 0.5 and policy.take("create", float(number))
        assert taken <= (number + 1) * 0.05
    assert taken > 10_000 * 0.045
    assert policy.hedges == {"create": taken, "read": 0}


def test_a_quiet_day_does_not_save_up_for_a_storm() -> None:
    policy = HedgePolicy(HedgeSettings())
    seen(policy, "create", 1, 0.03, 100_000)
    assert sum(policy.take("create", 0.0) for _ in range(1_000)) == 10


def test_after_the_store_asked_for_less_nothing_is_sent_twice_for_a_while() -> None:
    policy = HedgePolicy(HedgeSettings(quiet_s=30))
    seen(policy, "create", 1, 0.03, 1000)
    policy.throttle(100.0)
    assert policy.begin("create", 1, 129.0) is None
    assert not policy.take("create", 129.0)
    assert policy.begin("create", 1, 130.0) == 0.03
    assert policy.take("create", 130.0)
