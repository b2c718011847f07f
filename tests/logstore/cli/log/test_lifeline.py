"""A child ends with its stdin, however its parent ends: by SIGTERM, else a little later."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from logstore.cli.log import lifeline
from tests.children import child_of

ROOT = Path(__file__).parents[4]
DEADLINE_S = 6.0 if "PLANTED" in os.environ else 30.0
"""Shorter where a planted bug prevents what is waited for."""


@contextmanager
def child(before: str) -> Iterator["subprocess.Popen[bytes]"]:
    program = (
        f"import signal, threading; from logstore.cli.log import lifeline; {before}; "
        "lifeline.end_with_stdin(); print(flush=True); threading.Event().wait()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "cwd": ROOT}
    with child_of([sys.executable, "-c", program], **pipes) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process


@pytest.mark.parametrize(
    ("before", "code"),
    [
        ("pass", -signal.SIGTERM),
        (
            "signal.signal(signal.SIGTERM, signal.SIG_IGN); lifeline.GRACE_S = 0.01",
            lifeline.KILLED,
        ),
    ],
)
def test_the_end_of_stdin_ends_it(before: str, code: int) -> None:
    with child(before) as process:
        assert process.stdin is not None
        process.stdin.write(b"a line is no end")
        process.stdin.close()

        assert process.wait(DEADLINE_S) == code
