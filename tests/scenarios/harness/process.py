"""A child process whose lines are waited for, each wait with a deadline."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO

ROOT = Path(__file__).parents[3]
DEADLINE_S = 30.0
POLL_S = 0.05
LINES_MAX = 500_000
STORY_LINES_MAX = 60
"""Of what a child said, in an error: the first of them and the last tell what became of it."""

Wanted = Callable[[re.Match[str]], bool]


class ProcessFailed(AssertionError):
    """A child did not do what was waited for; the text ends with what it said."""


def poll_until(
    condition: Callable[[], bool], *processes: "Process", deadline_s: float = 90.0
) -> None:
    """Raises `ProcessFailed`, with what these said, when it is not so in time or one has ended."""
    give_up_at = time.monotonic() + deadline_s
    while not condition():
        for one in processes:
            one.require_alive()
        if time.monotonic() > give_up_at:
            stories = "\n".join(one._story() for one in processes)
            raise ProcessFailed(f"not so in {deadline_s:.0f} s: {stories}")
        time.sleep(POLL_S)


class Process:
    """Runs `python -m <arguments>`, or these arguments of another `program`; killed on the way out
    of its `with`, if it still runs."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        before: Sequence[str] = (),
        listens: bool = False,
        source: Path = ROOT,
        program: Sequence[str] = (sys.executable, "-m"),
    ) -> None:
        """`source` has the packages to run: of this version, or of a release.

        `before` goes in front of the command: a shell that sets limits, for one.

        With `listens` the child gets lines by `say`; else its stdin is empty.
        """
        self.command = [*before, *program, *arguments]
        self._lines: list[str] = []
        self._said: list[str] = []
        self._streams_open = 2
        self._news = threading.Condition()
        self._child = subprocess.Popen(
            self.command,
            cwd=source,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **(environment or {})},
            stdin=subprocess.PIPE if listens else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            text=True,
            errors="replace",
        )
        assert self._child.stdout is not None
        assert self._child.stderr is not None
        self._readers = [
            threading.Thread(target=self._read, args=streams, daemon=True)
            for streams in ((self._child.stdout, self._said), (self._child.stderr, []))
        ]
        for reader in self._readers:
            reader.start()

    def __enter__(self) -> "Process":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        self.wait()

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def is_alive(self) -> bool:
        return self._child.poll() is None

    def require_alive(self) -> None:
        """Raises `ProcessFailed` with its output where it has ended."""
        if not self.is_alive:
            raise ProcessFailed(f"it ended with code {self._child.returncode}: {self._story()}")

    @property
    def lines(self) -> list[str]:
        """Lines of both streams so far, in the order in which they arrived."""
        with self._news:
            return list(self._lines)

    @property
    def said(self) -> list[str]:
        """The lines of its stdout: on a loaded machine those of stderr may arrive later."""
        with self._news:
            return list(self._said)

    def wait_for(
        self,
        pattern: str,
        *,
        where: Wanted = bool,
        after: int = 0,
        deadline_s: float = DEADLINE_S,
    ) -> re.Match[str]:
        """The first line, said already or yet to come, in which `pattern` is found.

        `after`: how many lines to pass over. Raises `ProcessFailed`.
        """
        found = self.wait_for_line_or_end(pattern, where=where, after=after, deadline_s=deadline_s)
        if found is None:
            raise ProcessFailed(f"ended without a line like {pattern!r}: {self._story()}")
        return found

    def wait_for_line_or_end(
        self,
        pattern: str,
        *,
        where: Wanted = bool,
        after: int = 0,
        deadline_s: float = DEADLINE_S,
    ) -> re.Match[str] | None:
        """As `wait_for`; None when the process ended without such a line."""
        give_up_at, seen = time.monotonic() + deadline_s, after
        with self._news:
            while True:
                for line in self._lines[seen:]:
                    found = re.search(pattern, line)
                    if found and where(found):
                        return found
                seen = max(seen, len(self._lines))
                if not self._streams_open:
                    return None
                left = give_up_at - time.monotonic()
                if left <= 0:
                    raise ProcessFailed(
                        f"no line like {pattern!r} in {deadline_s:.0f} s: {self._story()}"
                    )
                self._news.wait(left)

    def say(self, line: str) -> None:
        """Write a line to the child's stdin. Raises `ProcessFailed` if it has ended."""
        assert self._child.stdin is not None, "the child was started without listens=True"
        try:
            self._child.stdin.write(f"{line}\n")
            self._child.stdin.flush()
        except BrokenPipeError:
            raise ProcessFailed(f"ended before it could read {line!r}: {self._story()}") from None

    def send(self, number: signal.Signals) -> None:
        self._child.send_signal(number)

    def kill(self) -> None:
        self._child.kill()

    def wait(self, *, deadline_s: float = DEADLINE_S) -> int:
        """Its exit code (negative: the signal that ended it), once all it said has been read."""
        try:
            code = self._child.wait(deadline_s)
        except subprocess.TimeoutExpired:
            raise ProcessFailed(f"still runs after {deadline_s:.0f} s: {self._story()}") from None
        for reader in self._readers:
            reader.join(deadline_s)
        if self._child.stdin is not None:
            with suppress(BrokenPipeError):
                self._child.stdin.close()
        return code

    def _read(self, stream: IO[str], own: list[str]) -> None:
        with stream:
            for line in stream:
                with self._news:
                    assert len(self._lines) < LINES_MAX, "a child that talks without end"
                    self._lines.append(line.rstrip("\n"))
                    own.append(self._lines[-1])
                    self._news.notify_all()
        with self._news:
            self._streams_open -= 1
            self._news.notify_all()

    def _story(self) -> str:
        lines = self._lines
        if len(lines) > STORY_LINES_MAX:
            half = STORY_LINES_MAX // 2
            left_out = f"… {len(lines) - 2 * half} lines …"
            lines = [*lines[:half], left_out, *lines[-half:]]
        return f"{' '.join(self.command)}\n" + "\n".join(lines)
