"""A child process that does not outlive its test: `with subprocess.Popen(…)` alone waits for ever.

When a wait with a deadline fails, the end of that `with` waits again, without one.
"""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def child_of(command: list[str], **how: Any) -> Iterator["subprocess.Popen[Any]"]:
    """As `subprocess.Popen`; killed on the way out if it still runs."""
    with subprocess.Popen(command, **how) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
