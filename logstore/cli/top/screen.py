"""The figures of `logstore top` for rich: as many rows as the terminal has lines."""

from rich.console import Group
from rich.table import Table
from rich.text import Text

from logstore.cli.decisions.top_figures import ClusterFigures
from logstore.cli.top.text import TopTable, summary_line, tables_of

TABLE_LINES = 3
"""Of each table, beside its rows: an empty line, title, columns."""
ALARMS = ("gone", "not ready", "holds producers", "fenced")


def screen_of(figures: ClusterFigures, height: int) -> Group:
    line = summary_line(figures)
    parts: list[Text | Table] = [Text(line, style="bold red" if "!" in line else "bold")]
    left = height - 2
    for table in tables_of(figures):
        count = min(len(table.rows), left - TABLE_LINES)
        if count <= 0:
            break
        parts += [Text(), Text(table.title, style="dim"), _table(table, count)]
        left -= count + TABLE_LINES
    return Group(*parts)


def _table(table: TopTable, count: int) -> Table:
    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for number, name in enumerate(table.columns):
        is_text = number == 0 or name == "state"
        shown.add_column(name, justify="left" if is_text else "right", no_wrap=True)
    for row in table.rows[:count]:
        is_alarm = table.title == "brokers" and any(word in row[1] for word in ALARMS)
        shown.add_row(*map(Text, row), style="red" if is_alarm else "")
    return shown
