"""Where blocking code of the product runs in a simulated world: its stores, time and threads.

What opens a log by its URL (`logstore.wiring.open`, tables, Spark's executors) gets the world's
stores in place of back ends. Thread pools carry out each call where it is made, in order; a sleep
is one of virtual time; random numbers come from the world's. So a seed plays the same twice.
"""

import asyncio
import importlib
import logging
import pkgutil
import random
import secrets
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any

import logstore.compaction.compactor
import logstore.epoch
import logstore.history.delta
import logstore.objects.from_threads
import logstore.ports.clock
import logstore.protocol
import logstore.reading.brokers.table
import logstore.wiring.open
import spark_source.compaction
import spark_source.planning
from logstore.errors import OutcomeUnknown
from logstore.reading.direct.task_rows import open_once
from logstore.testing.blocking import TurnLock, wait_for
from logstore.testing.blocking_ports import BlockingObjects
from logstore.testing.process_loop import PROCESS
from logstore.testing.simulated_rows import SimulatedRows
from logstore.testing.virtual_loop import VirtualClock
from tests.simulation.in_order import InOrder
from tests.simulation.tiers.leased_rows import SimulatedLeasedRows
from tests.simulation.tiers.world import OUTSIDE, TierWorld

PRODUCT = ("logstore", "spark_source", "broker")
PACKAGES = (
    spark_source,
    spark_source.compaction,
    spark_source.planning,
    logstore.compaction,
    logstore.epoch,
    logstore.history,
    logstore.protocol,
    logstore.reading,
)


@contextmanager
def staged(world: TierWorld) -> Iterator[None]:
    """While this lasts, a log at `URL` is that of `world`. Not for two worlds at a time."""
    open_once.cache_clear()
    rng = random.Random(world.rng.getrandbits(64))
    backends = _backends(world)
    with ExitStack() as stack:

        def replace(owner: Any, name: str, value: Any) -> None:
            stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, value)

        for module in _product_modules():
            if getattr(module, "ThreadPoolExecutor", None) is ThreadPoolExecutor:
                replace(module, "ThreadPoolExecutor", InOrder)
            if getattr(module, "secrets", None) is secrets:
                replace(module, "secrets", _secrets_of(rng))
        for name in ("broker", "logstore"):
            handler = _Alarms(world)
            logging.getLogger(name).addHandler(handler)
            stack.callback(logging.getLogger(name).removeHandler, handler)
        replace(logstore.wiring.open, "Backends", backends)
        replace(logstore.history.delta, "Backends", backends)
        replace(logstore.ports.clock, "time", _time_of(world))
        replace(logstore.reading.brokers.table, "threading", SimpleNamespace(Lock=TurnLock))
        replace(logstore.objects.from_threads.FromThreads, "_run", _run_in_turn)
        replace(logstore.compaction.compactor, "LeasedRows", SimulatedLeasedRows)
        replace(random, "Random", _drawn_from(rng))
        yield
    open_once.cache_clear()


class _Alarms(logging.Handler):
    """What an operator is alarmed by: in a world where nothing is damaged, nothing may."""

    def __init__(self, world: TierWorld) -> None:
        super().__init__(logging.ERROR)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        self._world.hear_alarm(record)


def _time_of(world: TierWorld) -> SimpleNamespace:
    """`time` as `logstore.ports.clock` uses it; each process has a wall clock of its own."""
    clock = VirtualClock()

    def time_ns() -> int:
        return (clock.now_ms() + world.ahead_ms(PROCESS.get(None))) * 1_000_000

    return SimpleNamespace(
        sleep=lambda seconds: wait_for(clock.sleep_s(seconds)),
        clock_gettime=lambda _: clock.monotonic_s(),
        time_ns=time_ns,
    )


def _product_modules() -> list[Any]:
    for package in PACKAGES:
        for info in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            if not info.name.endswith("__main__"):
                importlib.import_module(info.name)
    return [module for name, module in list(sys.modules.items()) if name.split(".")[0] in PRODUCT]


def _backends(world: TierWorld) -> type:
    class StagedBackends:
        """`logstore.stores.backends.Backends` of one world, whatever the location."""

        def __init__(self, location: object, storage: Mapping[str, str] | None = None) -> None:
            self.location = location

        def blocking_store(self) -> BlockingObjects:
            return BlockingObjects(world.stores[OUTSIDE])

        def store(self, clock: object) -> object:
            return world.stores[OUTSIDE]

        def rows(self, registry: str, mode: str) -> SimulatedRows:
            return world.registries[OUTSIDE]

        def is_lost(self, registry: str) -> bool:
            return False

    return StagedBackends


def _run_in_turn(self: Any, call: Any) -> Any:
    """`FromThreads._run`: the loop awaits the call while the thread waits."""

    async def answer() -> Any:
        async with asyncio.timeout(self._timeout_s):
            return await call

    try:
        return wait_for(answer())
    except TimeoutError as error:
        raise OutcomeUnknown(f"no answer of the store: seconds={self._timeout_s}") from error
    finally:
        call.close()  # where it was never begun


def _secrets_of(rng: random.Random) -> SimpleNamespace:
    return SimpleNamespace(
        token_hex=lambda count: rng.randbytes(count).hex(),
        token_bytes=rng.randbytes,
        randbits=rng.getrandbits,
    )


_Random = random.Random


def _drawn_from(rng: random.Random) -> type[random.Random]:
    class Seeded(_Random):
        """As `random.Random`; without a seed the product takes one from the world."""

        def __new__(cls, seed: Any = None) -> Any:
            # Libraries that are loaded during a run have generators of their own.
            caller = sys._getframe(1).f_globals["__name__"].split(".")[0]
            if seed is None and caller in PRODUCT:
                seed = rng.getrandbits(64)
            return _Random(seed)

    return Seeded
