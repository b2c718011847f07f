"""What time deletion by age believes it is: a wrong clock delays, and never hurries."""

import random
from dataclasses import replace

import pytest

from logstore.errors import Retryable
from logstore.objects.memory import MemoryObjects, MemoryStore
from logstore.protocol.deletion.believed_time import (
    CATCH_UP_MAX_MS,
    PACE,
    ROW_STEP_MS,
    STAMPS,
    BelievedTime,
    believed_now,
    grace_start,
)
from logstore.protocol.steps import ModifiedMs
from logstore.registry.memory import MemoryRows
from logstore.registry.retrying import RetryingRegistry
from logstore.runners.step_runner import StepRunner
from logstore.testing.scripted import stop_before
from logstore.testing.virtual_loop import EPOCH_MS, VirtualClock

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400
DAY_MS = DAY_S * 1000


class SetClock:
    """A wall clock that is set by hand, beside a monotonic one."""

    def __init__(self, wall_ms: int = EPOCH_MS, monotonic_s: float = 100.0) -> None:
        self.wall_ms = wall_ms
        self.steady_s = monotonic_s

    def monotonic_s(self) -> float:
        return self.steady_s

    def now_ms(self) -> int:
        return self.wall_ms

    async def sleep_s(self, seconds: float) -> None:
        self.pass_s(seconds)

    def pass_s(self, seconds: float) -> None:
        self.steady_s += seconds
        self.wall_ms += round(seconds * 1000)


class Bench:
    """A log whose store stamps with `store_clock`, or with the clock of the host."""

    def __init__(self, *, store_has_its_own: bool = True) -> None:
        self.rng = random.Random(1)
        self.clock = SetClock()
        self.store_clock = SetClock() if store_has_its_own else self.clock
        self.objects = MemoryObjects(self.store_clock)
        self.rows = MemoryRows()

    def process(self, boot: str | None = None) -> StepRunner:
        registry = RetryingRegistry(
            self.rows, lambda: f"{self.rng.getrandbits(64)}", self.clock, self.rng
        )
        return StepRunner(
            MemoryStore(self.objects),
            registry,
            self.clock,
            self.rng,
            lambda: self.rng.randbytes(16),
            BelievedTime(boot),
        )

    def pass_s(self, seconds: float) -> None:
        self.clock.pass_s(seconds)
        if self.store_clock is not self.clock:
            self.store_clock.pass_s(seconds)


async def asked(runner: StepRunner) -> int:
    return await runner.run(believed_now(runner.believed))


async def test_a_wall_clock_ahead_of_the_store_is_not_believed() -> None:
    bench = Bench()
    process = bench.process()
    bench.clock.wall_ms += 8 * DAY_MS
    assert await asked(process) == EPOCH_MS
    assert process.believed.ahead_ms == 8 * DAY_MS
    bench.pass_s(30)
    assert await asked(process) == EPOCH_MS + 30_000


async def test_a_wall_clock_that_is_behind_delays() -> None:
    bench = Bench()
    bench.clock.wall_ms -= DAY_MS
    process = bench.process()
    assert await asked(process) == EPOCH_MS - DAY_MS
    assert process.believed.ahead_ms == 0


async def test_a_store_behind_delays_and_is_asked_again_while_it_matters() -> None:
    """A host that was suspended: its monotonic clock stood still."""

    bench = Bench()
    process = bench.process()
    assert await asked(process) == EPOCH_MS
    bench.clock.wall_ms += DAY_MS
    bench.store_clock.wall_ms += DAY_MS
    assert await asked(process) == EPOCH_MS, "asked a moment ago"
    bench.pass_s(10 * MINUTE_S)
    assert await asked(process) == EPOCH_MS + DAY_MS + 600_000


async def test_the_store_is_asked_once_and_nothing_is_left_there() -> None:
    bench = Bench()
    process = bench.process()
    for _ in range(10):
        await asked(process)
        bench.pass_s(HOUR_S)
    with pytest.raises(AssertionError, match="no ModifiedMs"):
        await stop_before(process, believed_now(process.believed), ModifiedMs)
    assert list(bench.objects.list(STAMPS)) == []
    assert await bench.rows.query("time") == [], "no row on a bucket"


async def test_without_the_stores_answer_there_is_no_time() -> None:
    class Away(MemoryStore):
        async def create(self, key: str, parts: object) -> None:
            raise Retryable("away")

    bench = Bench()
    process = replace(bench.process(), store=Away(bench.objects))
    with pytest.raises(Retryable):
        await asked(process)


async def test_on_a_directory_a_jump_is_believed_only_as_fast_as_time_is_measured() -> None:
    bench = Bench(store_has_its_own=False)
    process = bench.process("boot")
    assert await asked(process) == EPOCH_MS
    bench.clock.wall_ms += 300 * DAY_MS
    assert await asked(process) == EPOCH_MS
    believed_ms = 0
    for _ in range(2):
        bench.pass_s(5 * MINUTE_S)
        believed_ms = await asked(process)
    # By its own monotonic clock until the store, which has no other clock, is asked again.
    assert believed_ms == EPOCH_MS + (1 + PACE) * 300_000
    assert process.believed.ahead_ms > 299 * DAY_MS
    bench.clock.wall_ms -= 300 * DAY_MS
    bench.pass_s(HOUR_S)
    assert await asked(process) == bench.clock.wall_ms, "put right"


@pytest.mark.parametrize("processes", [1, 2])
async def test_on_a_directory_a_grace_begins_no_earlier_than_time_went_on(processes: int) -> None:
    """The clock was set back by hours and is put right later; in another process of this boot."""

    bench = Bench(store_has_its_own=False)
    first = bench.process("boot")
    await asked(first)
    bench.clock.wall_ms -= 5 * HOUR_S * 1000
    for _ in range(3):
        bench.pass_s(HOUR_S)
        assert await asked(first) == bench.clock.wall_ms, "it delays"
    second = first if processes == 1 else bench.process("boot")
    begin_ms = await second.run(grace_start(second.believed))
    assert begin_ms == EPOCH_MS + 3 * HOUR_S * 1000
    bench.clock.wall_ms += 5 * HOUR_S * 1000
    assert await asked(second) <= begin_ms
    assert await second.run(grace_start(second.believed)) == begin_ms


async def test_a_grace_begins_at_the_time_of_a_store_that_has_a_clock() -> None:
    bench = Bench()
    bench.clock.wall_ms += DAY_MS
    process = bench.process()
    assert await process.run(grace_start(process.believed)) == EPOCH_MS


async def test_on_a_directory_a_long_pause_is_made_good() -> None:
    """Nothing ran for three days: with a new boot they are believed within some hours."""

    bench = Bench(store_has_its_own=False)
    await asked(bench.process("first"))
    bench.clock.wall_ms += 3 * DAY_MS
    bench.clock.steady_s = 5.0
    process = bench.process("second")
    assert await asked(process) == EPOCH_MS
    for _ in range(7 * 12):
        bench.pass_s(5 * MINUTE_S)
        await asked(process)
    assert await asked(process) == bench.clock.wall_ms


async def test_time_goes_on_between_programs_of_one_boot() -> None:
    bench = Bench(store_has_its_own=False)
    for _ in range(5):
        assert await asked(bench.process("boot")) == bench.clock.wall_ms
        bench.pass_s(DAY_S)


async def test_programs_that_run_for_a_moment_confirm_no_more_than_one_that_goes_on() -> None:
    bench = Bench(store_has_its_own=False)
    await asked(bench.process("boot"))
    bench.clock.wall_ms += 300 * DAY_MS
    bench.pass_s(2 * DAY_S)
    expected = EPOCH_MS + 2 * DAY_MS + CATCH_UP_MAX_MS
    for _ in range(20):
        assert await asked(bench.process("boot")) == expected


async def test_the_row_goes_up_only_and_in_steps() -> None:
    bench = Bench(store_has_its_own=False)
    one, other = bench.process("boot"), bench.process("boot")
    await asked(one)
    await asked(other)
    seen = set()
    for _ in range(60):
        bench.pass_s(MINUTE_S)
        await asked(one)
        await asked(other)
        row = await bench.rows.get("time", "believed")
        assert row is not None
        seen.add(row["believed_ms"])
    assert len(seen) == HOUR_S * 1000 // ROW_STEP_MS + 1
    assert max(seen) == EPOCH_MS + HOUR_S * 1000


async def test_a_real_clock_of_a_virtual_loop_agrees_with_itself() -> None:
    bench = Bench()
    process = replace(
        bench.process(), clock=VirtualClock(), store=MemoryStore(MemoryObjects(VirtualClock()))
    )
    assert await asked(process) == VirtualClock().now_ms()
