"""Draws the first query's result: delays through the day, and flights per hour."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib

matplotlib.use("Agg")  # draws into a file, needs no screen

from matplotlib import pyplot

CARRIERS_SHOWN = 5
DAY_BEGINS = 5


class HourOfCarrier(NamedTuple):
    """`delay` is the average departure delay in minutes, None if no flight left."""

    carrier: str
    hour: int
    delay: float | None
    flights: int


def draw(hours: Sequence[HourOfCarrier], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    flights_of: Counter[str] = Counter()
    flights_at: Counter[int] = Counter()
    delays: dict[str, dict[int, float]] = defaultdict(dict)
    for one in hours:
        flights_of[one.carrier] += one.flights
        flights_at[one.hour] += one.flights
        if one.delay is not None:
            delays[one.carrier][one.hour] = one.delay

    figure, (above, below) = pyplot.subplots(2, sharex=True, figsize=(9, 7), height_ratios=(2, 1))
    for carrier, _ in flights_of.most_common(CARRIERS_SHOWN):
        points = sorted(delays[carrier].items())
        above.plot(*zip(*points, strict=True), marker="o", markersize=3, label=carrier)
    above.set_ylabel("average departure delay, minutes")
    above.set_title("Flights from New York City in 2013, by a streaming query over logstore")
    above.legend(title="carrier")
    above.grid(alpha=0.3)
    below.bar(list(flights_at), list(flights_at.values()), color="0.6")
    below.set_ylabel("flights")
    below.set_xlabel("scheduled hour of departure")
    below.grid(alpha=0.3, axis="y")
    below.set_xlim(DAY_BEGINS - 0.5, 23.5)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
