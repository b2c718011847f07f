"""Figures of one case: every value of every round, their medians, and the table that shows them."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

LABEL_WIDTH, COLUMN_WIDTH = 36, 15
RATIO = f"{'ratio':>10}"
RIVALS_MAX = 2


@dataclass(slots=True)
class Figures:
    """`values` by figure and contender, one value a round; `load_averages`, one a run."""

    contenders: Sequence[str]
    values: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    load_averages: list[float] = field(default_factory=list)

    def add(self, contender: str, found: Mapping[str, float], load_average: float) -> None:
        self.load_averages.append(round(load_average, 2))
        for figure, value in found.items():
            self.values.setdefault(figure, {}).setdefault(contender, []).append(value)

    def median(self, figure: str, contender: str) -> float | None:
        """None where this contender has no such figure."""
        found = self.values[figure].get(contender)
        return statistics.median(found) if found else None


def order(contenders: Sequence[str], round_number: int) -> Sequence[str]:
    """Forwards, then backwards: no contender must always be first, on a cold machine."""
    return contenders[:: -1 if round_number % 2 else 1]


def table(figures: Figures) -> Iterator[str]:
    """Medians, a column for each contender; of two or three, the ratios of the first to the others.

    Ratios stand in the order of the others.
    """
    first, *others = figures.contenders
    rivals = others if len(others) <= RIVALS_MAX else []
    width = max(LABEL_WIDTH, 1 + max(map(len, figures.values), default=0))
    column = max(COLUMN_WIDTH, 2 + max(map(len, figures.contenders)))
    heading = "".join(f"{name:>{column}}" for name in figures.contenders)
    yield f"{'median':{width}}{heading}{RATIO * len(rivals)}".rstrip()
    for figure in figures.values:
        medians = {name: figures.median(figure, name) for name in figures.contenders}
        line = f"{figure:{width}}" + "".join(_cell(value, column) for value in medians.values())
        line += "".join(_ratio(medians[first], medians[rival]) for rival in rivals)
        yield line.rstrip()


def _ratio(ours: float | None, theirs: float | None) -> str:
    if ours is None or not theirs:
        return " " * len(RATIO)
    return f"{ours / theirs:{len(RATIO)}.2f}"


def _cell(value: float | None, width: int) -> str:
    if value is None:
        return " " * width
    digits = 1 if abs(value) >= 10 else 3
    return f"{value:{width},.{digits}f}"
