"""Figures of one case: every value of every round, their medians, and the table that shows them."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

LABEL_WIDTH, COLUMN_WIDTH = 36, 15


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
    """Forwards, then backwards: who comes first must not always meet a cold machine."""
    return contenders[:: -1 if round_number % 2 else 1]


def table(figures: Figures) -> Iterator[str]:
    """Medians, a column for each contender; of two, the ratio."""
    is_pair = len(figures.contenders) == 2
    heading = "".join(f"{name:>{COLUMN_WIDTH}}" for name in figures.contenders)
    yield f"{'median':{LABEL_WIDTH}}{heading}{'ratio' if is_pair else '':>10}".rstrip()
    for figure in figures.values:
        medians = [figures.median(figure, name) for name in figures.contenders]
        line = f"{figure:{LABEL_WIDTH}}" + "".join(map(_cell, medians))
        if is_pair and medians[0] is not None and medians[1]:
            line += f"{medians[0] / medians[1]:10.2f}"
        yield line.rstrip()


def _cell(value: float | None) -> str:
    if value is None:
        return " " * COLUMN_WIDTH
    digits = 1 if abs(value) >= 10 else 3
    return f"{value:{COLUMN_WIDTH},.{digits}f}"
