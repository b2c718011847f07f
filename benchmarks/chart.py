"""Draws the figures of one case: medians as bars, and from the smallest to the largest value."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # draws into a file, needs no screen

from matplotlib import pyplot

from benchmarks.figures import Figures

COLUMNS = 3


def draw(case: str, figures: Figures, path: Path) -> None:
    names = list(figures.values)
    rows = -(-len(names) // COLUMNS)
    height = rows * (0.9 + 0.3 * len(figures.contenders)) + 0.5
    figure, axes = pyplot.subplots(rows, COLUMNS, figsize=(13, height), squeeze=False)
    for panel in axes.flat[len(names) :]:
        panel.axis("off")
    for panel, name in zip(axes.flat, names, strict=False):
        shown = [one for one in figures.contenders if one in figures.values[name]]
        medians = [figures.median(name, one) or 0.0 for one in shown]
        values = [figures.values[name][one] for one in shown]
        spread = [
            [m - min(v) for m, v in zip(medians, values, strict=True)],
            [max(v) - m for m, v in zip(medians, values, strict=True)],
        ]
        colours = [f"C{list(figures.contenders).index(one)}" for one in shown]
        bars = panel.barh(shown, medians, xerr=spread, color=colours, ecolor="0.3", capsize=3)
        panel.bar_label(bars, labels=[f"{m:,.4g}" for m in medians], padding=4, fontsize=8)
        panel.set_title(name, fontsize=9, loc="left")
        panel.margins(x=0.2)
        panel.invert_yaxis()
        panel.tick_params(labelsize=8)
    low, high = min(figures.load_averages), max(figures.load_averages)
    figure.suptitle(f"{case} (load average {low:.1f} to {high:.1f})")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
