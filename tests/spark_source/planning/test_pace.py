"""When a batch is due."""

from spark_source.planning.pace import TriggerPace


def test_without_a_minimum_any_batch_is_due() -> None:
    assert TriggerPace(None, 60).is_due(0, 0)


def test_the_first_batch_waits_for_nothing_and_later_ones_for_enough_or_the_delay() -> None:
    pace = TriggerPace(10, 60)
    assert pace.is_due(1, now_s=5)
    pace.last_s = 5

    assert not pace.is_due(9, now_s=64)
    assert pace.is_due(10, now_s=6)
    assert pace.is_due(1, now_s=65)
