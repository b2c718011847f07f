"""The parts of the demo: named on the screen as they begin, with the time that each took."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


class Phases:
    def __init__(self, console: Console) -> None:
        self.console = console
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        with self.console.status(f"{name} …"), self._timed(name):
            yield

    @contextmanager
    def counted(self, name: str, total: int) -> Iterator[Callable[[int], None]]:
        """With a bar; call the result with the number of further ones done."""
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeElapsedColumn(),
        )
        began = time.perf_counter()
        with (
            self._timed(name),
            Progress(
                *columns, console=self.console, transient=True, disable=not self.console.is_terminal
            ) as bar,
        ):
            task = bar.add_task(name, total=total, rate="")

            def report(count: int) -> None:
                bar.advance(task, count)
                done = bar.tasks[0].completed
                rate = done / max(time.perf_counter() - began, 1e-3)
                bar.update(task, rate=f"{rate:,.0f}/s")

            yield report

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        seconds = time.perf_counter() - began
        self.seconds[name] = seconds
        self.console.print(f"  {name} [dim]({seconds:.1f} s)[/dim]")
