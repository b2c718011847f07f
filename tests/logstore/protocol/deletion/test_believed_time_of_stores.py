"""Each kind of store says what time it is, and a log in a directory remembers what it believed."""

import asyncio
import random
from pathlib import Path

from logstore.objects.s3 import S3Store
from logstore.objects.s3_options import S3Options
from logstore.ports.clock import SystemClock
from logstore.protocol.deletion.believed_time import BELIEVED, STAMPS, TIME
from logstore.protocol.steps import believed_ms
from logstore.registry.memory import MemoryRows
from logstore.registry.retrying import RetryingRegistry
from logstore.runners.step_runner import StepRunner
from logstore.wiring.open import open_log
from tests.servers.buckets import new_location
from tests.servers.locked_moto import aws_environment, locked_moto

AGREE_MS = 5_000


class AheadClock(SystemClock):
    """A wall clock a month ahead."""

    def now_ms(self) -> int:
        return super().now_ms() + 30 * 86_400_000


def wall_ms() -> int:
    return SystemClock().now_ms()


def test_a_directory_is_believed_and_then_doubted(tmp_path: Path) -> None:
    async def asked(clock: SystemClock) -> int:
        log = await open_log(str(tmp_path), clock=clock, rng=random.Random(1))
        try:
            now_ms = await log.runner.run(believed_ms())
            row = await log.runner.registry.get(TIME, BELIEVED)
            assert row is not None
            assert abs(int(row["believed_ms"]) - wall_ms()) < AGREE_MS
            return now_ms
        finally:
            await log.close()

    assert abs(asyncio.run(asked(SystemClock())) - wall_ms()) < AGREE_MS
    assert abs(asyncio.run(asked(AheadClock())) - wall_ms()) < AGREE_MS
    assert not list((tmp_path / STAMPS).iterdir())


def test_a_buckets_own_clock_is_asked() -> None:
    async def asked() -> int:
        options = S3Options.of({"storage.endpoint": locked_moto()})
        clock, rng = AheadClock(), random.Random(1)
        store = S3Store(new_location(locked_moto()), options, clock)
        registry = RetryingRegistry(MemoryRows(), lambda: "w", clock, rng)
        runner = StepRunner(store, registry, clock, rng, lambda: rng.randbytes(16))
        try:
            now_ms = await runner.run(believed_ms())
            assert [info.key async for info in store.list(STAMPS)] == []
            return now_ms
        finally:
            await store.close()

    with aws_environment():
        assert abs(asyncio.run(asked()) - wall_ms()) < AGREE_MS
