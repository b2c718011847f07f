"""Output of commands: JSON for machines; for people tables, on a terminal by rich."""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Protocol, TextIO

from logstore.cli.decisions.printable import json_text, printable

_NUMBER = re.compile(r"-?\d*")

UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


class Advance(Protocol):
    def __call__(self, count: int) -> None: ...


def print_json(value: object) -> None:
    print(json_text(jsonable(value), indent=2))


def jsonable(value: Any) -> Any:
    """Dataclasses and named tuples as objects, bytes as hexadecimal digits, enums by value."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: jsonable(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Enum):
        return jsonable(value.value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return jsonable(value._asdict())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [jsonable(item) for item in value]
    return value


def print_line(text: str = "", *, to: TextIO | None = None) -> None:
    """One line for people, whatever is in `text`: `printable`."""
    print(printable(text), file=to)


def print_part(text: str) -> None:
    """The same behind an empty line."""
    print(f"\n{printable(text)}")


def print_facts(facts: Sequence[tuple[str, object]]) -> None:
    """Names and values, one a line."""
    width = max((len(name) for name, _ in facts), default=0)
    for name, value in facts:
        print(f"{printable(name):{width}}  {printable(str(value))}")


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A title and a table; columns of whole numbers are put flush right."""
    cells = [["" if cell is None else printable(str(cell)) for cell in row] for row in rows]
    right = [
        bool(rows) and all(_NUMBER.fullmatch(row[at]) for row in cells)
        for at in range(len(columns))
    ]
    print_part(title)
    if not (sys.stdout.isatty() and _print_rich(columns, cells, right)):
        _print_plain(columns, cells, right)


def _print_plain(
    columns: Sequence[str], cells: Sequence[Sequence[str]], right: Sequence[bool]
) -> None:
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    for line in (columns, *cells):
        padded = [
            cell.rjust(width) if flush else cell.ljust(width)
            for cell, width, flush in zip(line, widths, right, strict=True)
        ]
        print(f"  {'  '.join(padded)}".rstrip())


def _print_rich(
    columns: Sequence[str], cells: Sequence[Sequence[str]], right: Sequence[bool]
) -> bool:
    """False where rich is not installed."""
    try:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ModuleNotFoundError:
        return False
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name, flush in zip(columns, right, strict=True):
        table.add_column(name, justify="right" if flush else "left", overflow="fold")
    for row in cells:
        table.add_row(*map(Text, row))
    Console().print(table)
    return True


@contextmanager
def progress(what: str, total: int | None) -> Iterator[Advance]:
    """A bar on stderr while something long goes on; nothing unless that is a terminal.

    None: the total is unknown; finished steps are counted.
    """
    if total == 0 or not sys.stderr.isatty():
        yield lambda count: None
        return
    try:
        from rich.console import Console
        from rich.progress import Progress
    except ModuleNotFoundError:
        yield lambda count: None
        return
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda count: bar.advance(task, count)


def size_text(count: int) -> str:
    """1536 → "1.5 KiB"."""
    size = float(count)
    for unit in UNITS:
        if size < 1024 or unit == UNITS[-1]:
            return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError("unreachable")


def dollars_text(dollars: float) -> str:
    """Two digits of cents are not enough for what little logs cost."""
    return f"${dollars:,.2f}" if dollars >= 1 else f"${dollars:.6f}"


def time_text(milliseconds: int) -> str:
    """ISO 8601 in UTC; empty for the -1 that stands for "none"."""
    if milliseconds < 0:
        return ""
    try:
        moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{milliseconds} ms"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
