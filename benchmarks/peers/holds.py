"""How long callbacks held a broker's event loop: measured in its process, asked for by cases.

A callback of the loop is a request's decoding and handling, a slice, a step of a task, a flush. CPU
time of the loop's thread counts, so work in other threads does not, nor another process; the
garbage collector does where it ran in that thread.
"""

import asyncio
import gc
import json
import signal
import time
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.peers.server import Server

ANSWER_S = 60.0
DESCRIBED_MS = 2.0
WHAT_CHARS = 200


class Hold(NamedTuple):
    """The longest one since the one before was asked for."""

    ms: float
    collector_ms: float
    """Of these, the garbage collector's."""
    what: str
    longest_collection_ms: float
    """Of any callback."""


NOTHING = Hold(0.0, 0.0, "", 0.0)


class LoopMeter:
    """Measures all callbacks of the event loop of this process, from `begin` on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._longest = NOTHING
        self._collector_s = 0.0
        self._collecting_since_s = 0.0
        self._longest_collection_s = 0.0

    def begin(self) -> None:
        """Signal SIGUSR1 has the longest hold written to the file; measuring begins again then."""
        signal.signal(signal.SIGUSR1, self._tell)
        gc.callbacks.append(self._collected)
        run = asyncio.Handle._run

        def measured(handle: asyncio.Handle) -> None:
            self._collector_s = 0.0
            # One that cancels itself has none afterwards.
            callback = handle._callback  # type: ignore[attr-defined]
            began_s = time.thread_time()
            run(handle)
            took_ms = (time.thread_time() - began_s) * 1e3
            if took_ms > self._longest.ms:
                what = _describe(callback) if took_ms > DESCRIBED_MS else ""
                self._longest = Hold(took_ms, self._collector_s * 1e3, what, 0.0)

        asyncio.Handle._run = measured  # type: ignore[assignment,method-assign]

    def _collected(self, phase: str, _: object) -> None:
        if phase == "start":
            self._collecting_since_s = time.thread_time()
        else:
            took_s = time.thread_time() - self._collecting_since_s
            self._collector_s += took_s
            self._longest_collection_s = max(self._longest_collection_s, took_s)

    def _tell(self, *_: object) -> None:
        longest, self._longest = self._longest, NOTHING
        longest = longest._replace(longest_collection_ms=self._longest_collection_s * 1e3)
        self._longest_collection_s = 0.0
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps(longest))
        new.replace(self._path)


def _describe(callback: Any) -> str:
    task = getattr(callback, "__self__", None)
    if isinstance(task, asyncio.Task):
        return f"{task.get_coro()!r}"[:WHAT_CHARS]
    return f"{callback!r}"[:WHAT_CHARS]


def longest_hold(server: Server) -> Hold:
    """Of the broker, since this was called last."""
    (path,), (process,) = server.counts, server.processes
    path.unlink(missing_ok=True)
    process.send_signal(signal.SIGUSR1)
    deadline_s = time.monotonic() + ANSWER_S
    while not path.exists():
        if time.monotonic() > deadline_s:
            raise RuntimeError(f"the broker does not say how long its loop was held: {path}")
        time.sleep(0.01)
    return Hold(*json.loads(path.read_text()))
