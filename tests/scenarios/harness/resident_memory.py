"""Whether the memory of a process is flat, by samples of its resident set. Pure.

A run has four quarters. In the first one caches fill and allocators warm up, so it proves nothing;
the second is what a warm process needs; the median of the last one may be above the median of the
second by `GROWTH_MB_MAX`.
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

MB = 1_000_000
GROWTH_MB_MAX = 12.0
SHARES = (0.02, 0.25, 0.5, 0.75, 1.0)
"""Of the run: where a report shows figures."""


class Sample(NamedTuple):
    at_s: float
    """Since the run began."""
    byte_count: int


def growth_mb(samples: Sequence[Sample], whole_s: float) -> float:
    """The median of the last quarter above that of the second. Raises on a quarter without any."""
    return (_median(samples, whole_s, 3) - _median(samples, whole_s, 1)) / MB


def is_flat(samples: Sequence[Sample], whole_s: float) -> bool:
    return growth_mb(samples, whole_s) <= GROWTH_MB_MAX


def report(
    by_broker: Mapping[int, Sequence[Sample]],
    segments: Mapping[int, Sequence[Sample]],
    whole_s: float,
) -> Iterator[str]:
    """Two lines per broker: its resident set, and how much of it segments are."""
    for number, samples in by_broker.items():
        shown = _shown(samples, whole_s)
        peak = max(sample.byte_count for sample in samples) / MB
        verdict = "flat" if is_flat(samples, whole_s) else "NOT FLAT"
        yield (
            f"broker {number}    MB at minutes {_minutes(whole_s)}: {shown}; peak {peak:.0f}; "
            f"second quarter to last {growth_mb(samples, whole_s):+.1f}: {verdict}"
        )
        yield f"  segments  MB: {_shown(segments[number], whole_s)}"


def _shown(samples: Sequence[Sample], whole_s: float) -> str:
    return " / ".join(f"{_at(samples, share * whole_s) / MB:.0f}" for share in SHARES)


def _minutes(whole_s: float) -> str:
    return " / ".join(f"{share * whole_s / 60:.3g}" for share in SHARES)


def _at(samples: Sequence[Sample], at_s: float) -> int:
    return min(samples, key=lambda sample: abs(sample.at_s - at_s)).byte_count


def _median(samples: Sequence[Sample], whole_s: float, quarter: int) -> float:
    begin_s, end_s = whole_s * quarter / 4, whole_s * (quarter + 1) / 4
    values = [one.byte_count for one in samples if begin_s <= one.at_s < end_s]
    if not values:
        raise ValueError(f"no sample of quarter {quarter + 1} of {whole_s:.0f} s")
    return statistics.median(values)
