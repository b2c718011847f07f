"""Compaction beside a broker: `logstore compact --every` as a child process, where wanted.

    controller ──is active──▶ child ──a line of JSON for each run──▶ counts, for /metrics

Only the controller's broker has one, so a cluster pays for one. The lease `compactor`, which each
run takes, and the tables' conditional commits keep two from doing harm, as they do beside a
scheduler's. The child has a lower priority and is the kernel's first choice when memory is short.
It ends with the broker: by a signal, and when the broker is killed by the end of its stdin.

No code of compaction is imported here: it loads libraries that a broker does not need.
"""

import asyncio
import json
import logging
import os
import random
import sys
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from broker.upkeep.compaction_counts import CompactionCounts, Restarts
from broker.upkeep.exit_reason import exit_reason
from logstore.config.sources import FILE_SUFFIX, variable_of
from logstore.config.storage import STORAGE_SETTINGS
from logstore.errors import LogstoreError
from logstore.ports.clock import Clock

POLL_S = 1.0
"""How often it is looked whether this broker is the controller."""
STOP_S = 10.0
"""From SIGTERM to SIGKILL: within it a run gives its lease back."""
NICE = 10
OOM_SCORE = 500
TASK_MIB = 32
"""Of the log, in one task at a time; docs/operations/history.md says how much memory that is."""
LINE_BYTES_MAX = 1 << 20

logger = logging.getLogger(__name__)


class ActiveController(Protocol):
    @property
    def is_active(self) -> bool: ...


def compact_command(url: str, every: str) -> list[str]:
    """The command line of the child."""
    command = [sys.executable, "-m", "logstore.cli.main", "compact", "--url", url]
    command += ["--every", every, "--workers", "1", "--task-mib", str(TASK_MIB)]
    return [*command, "--json", "--end-with-stdin"]


def child_environment(environment: Mapping[str, str], storage: Mapping[str, str]) -> dict[str, str]:
    """`environment` with the broker's settings of the store, which no command line shows."""
    variables = {name: variable_of(name) for name in STORAGE_SETTINGS}
    ours = {one for name in variables.values() for one in (name, f"{name}{FILE_SUFFIX}")}
    rest = {name: text for name, text in environment.items() if name not in ours}
    return {**rest, **{variables[name]: text for name, text in storage.items()}}


class CompactionChild:
    """`stop` is set when the broker is to end. `counts` are those of this broker process."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        counts: CompactionCounts,
        stop: asyncio.Event,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._command = command
        self._environment = environment
        self._counts = counts
        self._stop = stop
        self._clock = clock
        self._restarts = Restarts(rng)
        self._controller: ActiveController | None = None
        self._ending = asyncio.Event()

    def watch(self, controller: ActiveController) -> None:
        """Run where `controller`, of the broker's newest epoch, is active."""
        self._controller = controller

    @property
    def is_wanted(self) -> bool:
        """Whether a child should run now."""
        if self._stop.is_set() or self._ending.is_set() or self._controller is None:
            return False
        return self._controller.is_active

    async def beside(self, broker: Awaitable[int]) -> int:
        """The exit code of `broker`, with a child beside it when wanted. Raises as it does."""
        code, failure = 0, None
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._run())
            try:
                code = await broker
            except LogstoreError as error:
                failure = error
            finally:
                self._ending.set()
        if failure is not None:
            raise failure
        return code

    async def _run(self) -> None:
        while not self._ending.is_set():
            if self.is_wanted:
                await self._live()
            else:
                await self._wait(POLL_S)

    async def _live(self) -> None:
        """One child from start to end, and the wait before the next one if it died."""
        try:
            process = await self._start()
        except OSError as error:
            await self._died(f"it cannot be started: {error.strerror or error}")
            return
        self._counts.is_running = True
        self._lower(process.pid)
        logger.info("compaction runs here: pid=%d", process.pid)
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._take_runs(process.stdout))
                tasks.create_task(self._pass_on(process.stderr))
                ended = tasks.create_task(process.wait())
                while not ended.done() and self.is_wanted:
                    await asyncio.wait([ended], timeout=POLL_S)
                is_death = ended.done() and self.is_wanted
                if not ended.done():
                    await _end(process, ended)
        finally:
            self._counts.ended()
            if process.returncode is None:
                process.kill()
        if is_death:
            await self._died(exit_reason(ended.result()))
        else:
            logger.info("compaction ended here: pid=%d", process.pid)

    async def _start(self) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *self._command,
            env=self._environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=LINE_BYTES_MAX,
            start_new_session=True,  # Ctrl-C is ours to pass on
        )

    def _lower(self, pid: int) -> None:
        with suppress(OSError):  # it may have ended
            nice = os.getpriority(os.PRIO_PROCESS, 0)
            os.setpriority(os.PRIO_PROCESS, pid, min(19, nice + NICE))
        with suppress(OSError):  # not on Linux
            Path(f"/proc/{pid}/oom_score_adj").write_text(f"{OOM_SCORE}\n")

    async def _take_runs(self, lines: asyncio.StreamReader) -> None:
        async for text in _lines_of(lines):
            try:
                figures = json.loads(text)
            except ValueError:
                continue
            moved = self._counts.records
            if self._counts.add_run(figures, self._clock.now_ms()):
                self._restarts.had_a_good_run()
            if self._counts.records > moved:
                logger.info("compaction moved records: count=%d", self._counts.records - moved)

    async def _pass_on(self, lines: asyncio.StreamReader) -> None:
        async for text in _lines_of(lines):
            if self._restarts.is_news(text):
                logger.warning("compaction: %s", text.removeprefix("logstore: "))

    async def _died(self, how: str) -> None:
        self._counts.deaths += 1
        wait_s, is_said = self._restarts.after_death()
        if is_said:
            logger.warning("compaction died: %s; it starts again in %.1f s", how, wait_s)
        await self._wait(wait_s)

    async def _wait(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ending.wait()


async def _end(process: asyncio.subprocess.Process, ended: "asyncio.Task[int]") -> None:
    with suppress(ProcessLookupError):
        process.terminate()
    await asyncio.wait([ended], timeout=STOP_S)
    if not ended.done():
        with suppress(ProcessLookupError):
            process.kill()


async def _lines_of(lines: asyncio.StreamReader) -> AsyncIterator[str]:
    while True:
        try:
            line = await lines.readline()
        except ValueError:  # longer than the buffer, which has been emptied
            continue
        if not line:
            return
        yield line.decode(errors="replace").strip()
