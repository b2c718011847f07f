"""A log at work changes while it is checked: only problems that every look finds count."""

from collections.abc import Callable, Sequence

from logstore.protocol.checks import Problem

CHECKS = 3


def found_each_time(
    problems: Sequence[Problem], look_again: Callable[[Sequence[Problem]], Sequence[Problem]]
) -> Sequence[Problem]:
    """Those of the first look that are found by more looks at what is left of them."""
    for _ in range(CHECKS - 1):
        if not problems:
            break
        again = {(one.what, one.where) for one in look_again(problems)}
        problems = [one for one in problems if (one.what, one.where) in again]
    return problems
