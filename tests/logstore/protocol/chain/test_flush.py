"""When a segment leaves: at once after idle, then an interval after the last one began."""

import pytest

from logstore.protocol.chain.flush import FlushSettings, flush_delay_s

SETTINGS = FlushSettings(interval_s=0.1)


def test_the_first_batch_leaves_at_once() -> None:
    assert flush_delay_s(SETTINGS, now_s=5.0, last_began_s=None, has_slot=True) == 0


def test_the_first_batch_after_idle_leaves_at_once() -> None:
    assert flush_delay_s(SETTINGS, now_s=5.0, last_began_s=4.0, has_slot=True) == 0


def test_under_load_a_segment_gathers_for_the_rest_of_the_interval() -> None:
    delay_s = flush_delay_s(SETTINGS, now_s=5.0, last_began_s=4.97, has_slot=True)

    assert delay_s == pytest.approx(0.07)


def test_while_the_window_is_full_a_segment_gathers_until_a_put_ends() -> None:
    assert flush_delay_s(SETTINGS, now_s=5.0, last_began_s=1.0, has_slot=False) is None


@pytest.mark.parametrize("wrong", [{"interval_s": -1.0}, {"segment_bytes_max": 1}])
def test_settings_that_make_no_sense_are_not_made(wrong: dict[str, float]) -> None:
    with pytest.raises(AssertionError):
        FlushSettings(**wrong)  # type: ignore[arg-type]
