"""A window counts once it agrees with the one before it."""

import pytest

from benchmarks.warm import apart, warmed


def windows(*values: float) -> tuple[list[float], dict[str, float]]:
    """Values that were left over, and the figures."""
    left = list(values)
    return left, warmed("a case", lambda: {"MB/s": left.pop(0)}, "MB/s", windows_max=4)


def test_the_last_of_two_windows_that_agree_counts(capsys: pytest.CaptureFixture[str]) -> None:
    left, found = windows(50, 90, 93, 94)

    assert left == [94]
    assert (found["MB/s"], found["windows"]) == (93, 3)
    assert found["last two apart, %"] == pytest.approx(100 * 3 / 93)
    assert capsys.readouterr().err == ""


def test_windows_that_never_agree_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    left, found = windows(50, 90, 50, 90, 90)

    assert left == [90]
    assert (found["MB/s"], found["windows"]) == (90, 4)
    assert "a case: not steady after 4 windows, MB/s: 50, 90, 50, 90" in capsys.readouterr().err


def test_one_window_agrees_with_nothing() -> None:
    assert apart([]) == apart([5.0]) == apart([0.0, 0.0]) == 1.0
    assert apart([100.0, 96.0]) == pytest.approx(0.04)
