"""Figures of a case: medians, the table, the order of rounds, and the chart."""

from pathlib import Path

from benchmarks.chart import draw
from benchmarks.figures import Figures, order, table


def measured() -> Figures:
    figures = Figures(["ours", "theirs", "large"])
    for values in ((1.0, 30.0), (3.0, 20.0), (2.0, 10.0)):
        figures.add("ours", {"MB": values[0]}, 1.0)
        figures.add("theirs", {"MB": values[1], "only theirs": 5.0}, 2.0)
    return figures


def test_a_figure_is_the_median_over_the_rounds() -> None:
    figures = measured()

    assert figures.median("MB", "ours") == 2.0
    assert figures.median("MB", "theirs") == 20.0
    assert figures.load_averages == [1.0, 2.0] * 3


def test_who_lacks_a_figure_has_an_empty_cell_in_its_own_column() -> None:
    heading, shared, other = table(measured())
    ends = [heading.index(name) + len(name) for name in ("ours", "theirs")]

    assert shared.split()[1:] == ["2.000", "20.0", "0.10"]  # of the first to the second
    assert other.split()[2:] == ["5.000"]
    assert len(other) == ends[1]
    assert measured().median("only theirs", "ours") is None


def test_two_contenders_are_held_against_each_other() -> None:
    figures = Figures(["ours", "theirs"])
    figures.add("ours", {"MB": 30.0}, 0.0)
    figures.add("theirs", {"MB": 20.0}, 0.0)

    heading, line = table(figures)

    assert heading.split()[-1] == "ratio"
    assert line.split()[-1] == "1.50"


def test_the_first_of_three_is_held_against_both_others() -> None:
    figures = Figures(["ours", "theirs", "theirs, tuned"])
    for name, value in (("ours", 30.0), ("theirs", 10.0), ("theirs, tuned", 20.0)):
        figures.add(name, {"MB/s of a figure with a name that is long": value}, 0.0)

    heading, line = table(figures)

    assert heading.split()[-2:] == ["ratio", "ratio"]
    assert line.split()[-5:] == ["30.0", "10.0", "20.0", "3.00", "1.50"]


def test_every_second_round_runs_backwards() -> None:
    assert [list(order(["a", "b", "c"], number)) for number in range(3)] == [
        ["a", "b", "c"],
        ["c", "b", "a"],
        ["a", "b", "c"],
    ]


def test_a_chart_is_drawn_where_some_figures_are_missing(tmp_path: Path) -> None:
    path = tmp_path / "charts" / "case.png"

    draw("case", measured(), path)

    assert path.read_bytes().startswith(b"\x89PNG")


def test_columns_are_as_wide_as_the_names_of_contenders() -> None:
    names = ("in memory, as moved", "in buckets, cleaned before")
    figures = Figures(names, {"scan": {name: [1.0] for name in names}})
    heading, line = table(figures)

    assert "moved  in buckets" in heading
    assert len(heading) == len(line)
