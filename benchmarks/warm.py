"""Windows of the same work, one after the other, until two successive ones agree.

A JVM compiles for gigabytes, a broker fills its pools: a first window says little of the next.
"""

import sys
from collections.abc import Callable, Mapping

WINDOWS_MAX = 8
AGREE_WITHIN = 0.05


def warmed(
    what: str,
    measure: Callable[[], Mapping[str, float]],
    figure: str,
    *,
    windows_max: int = WINDOWS_MAX,
) -> dict[str, float]:
    """The figures of the last window, and how far `figure` was from that of the window before.

    A line on stderr where no two successive windows agree within 5 %.
    """
    found = dict(measure())
    seen = [found[figure]]
    while apart(seen) >= AGREE_WITHIN and len(seen) < windows_max:
        found = dict(measure())
        seen.append(found[figure])
    if apart(seen) >= AGREE_WITHIN:
        values = ", ".join(f"{value:,.4g}" for value in seen)
        print(f"{what}: not steady after {len(seen)} windows, {figure}: {values}", file=sys.stderr)
    return {**found, "windows": len(seen), "last two apart, %": 100 * apart(seen)}


def apart(values: list[float]) -> float:
    """Of the last two, as a part of the larger one; 1.0 with fewer than two."""
    if len(values) < 2 or not max(values[-2:]):
        return 1.0
    return abs(values[-1] - values[-2]) / max(values[-2:])
