"""CPU time of another process in fractions of a millisecond.

`psutil` counts whole ticks of 10 ms; Linux's scheduler keeps nanoseconds for each thread.
"""

from contextlib import suppress
from pathlib import Path

import psutil


def cpu_ms(process: psutil.Process) -> float:
    """Of all threads that live now, so only differences over a short while mean something."""
    spent_ns = 0
    for thread in Path(f"/proc/{process.pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            spent_ns += int((thread / "schedstat").read_text().split()[0])
    return spent_ns / 1e6
