"""What a log at work looks like for a moment is no problem of it."""

from collections.abc import Sequence

from logstore.cli.fsck.again import CHECKS, found_each_time
from logstore.protocol.rules.checks import Problem, ProblemKind

ROW = "row partition/00/0"


def apart(leader_epoch: int, end: int = 5) -> Problem:
    which = f"leader_epoch={leader_epoch} chain=1"
    return Problem(ProblemKind.STRETCHES, ROW, f"{which} end={end}", (1,), which)


class Looks:
    def __init__(self, *found: Sequence[Problem]) -> None:
        self._left = list(found)

    def __call__(self, problems: Sequence[Problem]) -> Sequence[Problem]:
        return self._left.pop(0)


def test_what_every_look_finds_counts_though_its_figures_change() -> None:
    again = Looks(*([apart(1, end=6 + number)] for number in range(CHECKS - 1)))
    assert found_each_time([apart(1)], again) == [apart(1)]


def test_another_epoch_range_of_the_row_in_each_look_is_a_partition_that_moves() -> None:
    again = Looks(*([apart(2 + number)] for number in range(CHECKS - 1)))
    assert found_each_time([apart(1)], again) == []
