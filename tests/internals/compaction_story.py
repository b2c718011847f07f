"""The story of a run of compaction that is killed, and of the next one, which finishes its work."""

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from logstore.compaction.compactor import Compactor
from logstore.compaction.local import LocalCarrier
from logstore.compaction.session import RunOptions
from logstore.testing.blocking import wait_for
from logstore.testing.blocking_ports import BlockingRows
from logstore.testing.process_loop import Process, run_blocking
from logstore.testing.virtual_loop import EPOCH_MS, VirtualClock
from tests.internals.recording import Transcript
from tests.logstore.waits import until
from tests.logstore.written import WrittenLog
from tests.simulation.tiers.stage import staged
from tests.simulation.tiers.tables import URL
from tests.simulation.tiers.world import OUTSIDE

LEASE_S = 3.0
DIES_AT = "commit"


async def compaction(transcript: Transcript, written: WrittenLog) -> None:
    transcript.say("a broker starts")
    async with written.life(clean=False, runner=transcript.runner) as log:
        transcript.say("it commits two batches of two records each")
        topic = await log.create_topic("orders", 1, {})
        for number in range(2):
            await written.write(log, topic.leaders[0], [EPOCH_MS + number] * 2)
        with staged(_world(transcript)):
            transcript.say("a run begins, and is killed before it commits to the table")
            await _run(transcript, DIES_AT)
            transcript.say("a batch more; then, when the lease has run out, the next run")
            await written.write(log, topic.leaders[0], [EPOCH_MS + 2])
            await _run(transcript, "")


async def _run(transcript: Transcript, dies_at: str) -> None:
    """One process that compacts; `dies_at`: the first step whose name begins so is not begun."""
    process = Process("compaction")

    def watch(step: str) -> None:
        if dies_at and step.startswith(dies_at):
            process.kill()
            wait_for(VirtualClock().sleep_s(0))
        transcript.lines.append(f"step    {step}")

    def compact() -> None:
        carrier = LocalCarrier(URL, {}, 1)
        compactor = Compactor(URL, {}, carrier, clock=VirtualClock(), lease_s=LEASE_S)
        compactor.run(RunOptions(now=True), 4 * LEASE_S, watch)
        compactor.close()

    done = process.spawn(run_blocking(compact))
    await until(lambda: done.done() or process.is_dead)
    if done.done():
        done.result()


def _world(transcript: Transcript) -> Any:
    """As much of a simulated world as `staged` needs: its stores and random numbers."""

    class Rows:
        def __getattr__(self, name: str) -> Callable[..., Any]:
            return getattr(transcript.registry, name)  # type: ignore[no-any-return]

        def blocking(self) -> BlockingRows:
            return BlockingRows(transcript.registry)

    return SimpleNamespace(
        rng=random.Random(0),
        stores={OUTSIDE: transcript.store},
        registries={OUTSIDE: Rows()},
        ahead_ms=lambda process: 0,
        hear_alarm=lambda record: None,
    )
