"""A log at work changes while it is checked: only problems that every look finds count."""

from collections.abc import Callable, Sequence

from logstore.protocol.rules.checks import Problem

CHECKS = 3


def found_each_time(
    problems: Sequence[Problem], look_again: Callable[[Sequence[Problem]], Sequence[Problem]]
) -> Sequence[Problem]:
    """Those of the first look that are found by more looks at what is left of them.

    A partition that changes its leader during each look has another epoch range in two of the looks
    each time, which is none of these.
    """
    for _ in range(CHECKS - 1):
        if not problems:
            break
        again = {(one.what, one.where, one.which) for one in look_again(problems)}
        problems = [one for one in problems if (one.what, one.where, one.which) in again]
    return problems
