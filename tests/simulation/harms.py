"""Harm done to brokers: kills, pauses, twins, stores and registries that go away or dawdle."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from logstore.formats.chain_row import CHAIN, ChainRow, ChainStatus, chain_sk
from logstore.testing.simulated_rows import RowFaults, at_once
from logstore.testing.simulated_store import StoreFaults
from tests.simulation.served import ServedBroker
from tests.simulation.world import World, is_gone

TAKEOVER_S_MAX = 12.0

HARMS = {
    "kill": 5,
    "kill at a step": 5,
    "kill while a put is late": 2,
    "pause": 2,
    "pause and twin": 3,
    "twin": 1,
    "clean stop": 2,
    "fall ill": 1,
}
CLUSTER_HARMS = {
    **HARMS,
    "cut off from the registry": 2,
    "cut off from the store": 1,
    "rolling restart": 1,
    "kill all": 1,
    "registry late": 2,
    "controller killed in a takeover": 2,
}

LATE = {"late": 0.4, "late_max_s": 30.0}
ANSWERS_LOST = {"answer_lost": 0.7}


async def start_all(world: World) -> None:
    await asyncio.gather(*(world.start(broker) for broker in world.brokers))


async def do_harm(world: World, harms: Mapping[str, int] | None = None) -> None:
    """By weights of kinds of harm; None: all that the number of brokers allows."""
    rng = world.rng
    until_s = world.clock.monotonic_s() + world.plan.faults_s
    if harms is None:
        harms = CLUSTER_HARMS if len(world.brokers) > 1 else HARMS
    while world.clock.monotonic_s() < until_s:
        await world.clock.sleep_s(rng.choice((0.0, 0.3, 3.0)) * rng.random())
        broker = rng.choice(world.brokers)
        primary = world.primaries[broker]
        if primary is None or is_gone(primary):
            if primary is not None:
                world.judge_end(primary)
            if len(world.brokers) == 1 or rng.random() < 0.5:
                await world.start(broker)
            continue
        harm = rng.choices(list(harms), list(harms.values()))[0]
        world.trace(f"harm: {harm} broker={broker}")
        world.seen[harm] += 1
        await _harm(world, harm, primary)


async def _harm(world: World, harm: str, primary: ServedBroker) -> None:
    rng, broker = world.rng, primary.broker
    match harm:
        case "kill":
            primary.process.kill()
            await _start_or_leave(world, broker)
        case "kill at a step":
            primary.process.dies_at_step = primary.process.step_count + rng.randrange(1, 200)
            await world.until(lambda: is_gone(primary), 5.0)
        case "kill while a put is late":
            await _kill_while_a_put_is_late(world, primary)
        case "pause":
            primary.process.stop_for(rng.uniform(0.1, 2.5))
        case "pause and twin":
            primary.process.stop_for(rng.uniform(3.0, 12.0))
            await _start_or_leave(world, broker, new_lock=True)
        case "twin":
            await world.start(broker)
        case "clean stop":
            await _stop(world, primary)
        case "quiet":
            await world.clock.sleep_s(rng.uniform(0.5, 4.0))
        case "fall ill":
            await _ill_for(world, rng.uniform(0.5, 8.0), broker)
        case _:
            await _harm_cluster(world, harm, broker)


async def _harm_cluster(world: World, harm: str, broker: int) -> None:
    rng = world.rng
    match harm:
        case "cut off from the registry":
            await _without_registry(world, rng.uniform(1.0, 10.0), broker)
        case "cut off from the store":
            await _without_store(world, rng.uniform(1.0, 10.0), broker)
        case "rolling restart":
            for one in world.brokers:
                primary = world.primaries[one]
                if primary is not None and not is_gone(primary):
                    await _stop(world, primary)
                await world.start(one)
        case "kill all":
            for life in world.lives:
                life.process.kill()
            await start_all(world)
        case "registry late" | "registry loses answers":
            faults = LATE if harm == "registry late" else ANSWERS_LOST
            await _bad_registry(world, faults, rng.uniform(3.0, 15.0), broker)
        case "controller killed in a takeover":
            await _kill_controller_in_a_takeover(world, broker)
        case _:
            raise AssertionError(harm)


async def _start_or_leave(world: World, broker: int, *, new_lock: bool = False) -> None:
    """In a cluster the others are left alone with it, now and then."""
    if len(world.brokers) == 1 or world.rng.random() < 0.6:
        await world.start(broker, new_lock=new_lock)
    else:
        await world.clock.sleep_s(world.rng.uniform(0, 8.0))


async def _stop(world: World, primary: ServedBroker) -> None:
    primary.stop()
    if not await world.until(lambda: is_gone(primary), 60.0):
        primary.process.kill()
    world.judge_end(primary)
    world.seen["closed cleanly"] += primary.closed_cleanly
    world.seen["drained"] += primary.drained


async def _kill_while_a_put_is_late(world: World, primary: ServedBroker) -> None:
    """What it handed to the store lands when others have taken over."""
    store, before = world.stores[primary.broker], world.seen["put late"]
    usual, store.faults = store.faults, replace(store.faults, put_late=0.7)
    await world.until(lambda: world.seen["put late"] > before or is_gone(primary), 5.0)
    await world.clock.sleep_s(world.rng.choice((0.0, 0.2)))
    primary.process.kill()
    store.faults = usual
    await _start_or_leave(world, primary.broker)


async def _ill_for(world: World, seconds: float, broker: int) -> None:
    """Store or registry go away altogether for a while, for one broker."""
    if world.rng.random() < 0.5:
        await _without_store(world, seconds, broker)
    else:
        await _without_registry(world, seconds, broker)


async def _without_store(world: World, seconds: float, broker: int) -> None:
    store = world.stores[broker]
    away = StoreFaults(put_lost=0.6, throttled=0.4, get_failed=0.6)
    healthy, store.faults = store.faults, away
    await world.clock.sleep_s(seconds)
    store.faults = healthy


async def _without_registry(world: World, seconds: float, broker: int) -> None:
    rows = world.registries[broker]
    healthy, rows.faults = rows.faults, RowFaults(throttled=0.5, lost=0.5)
    await world.clock.sleep_s(seconds)
    rows.faults = healthy


async def _bad_registry(
    world: World, faults: Mapping[str, float], seconds: float, broker: int
) -> None:
    """What one broker wrote to the registry arrives when it is not expected any more; or it learns
    late that its writes arrived, and others read them before."""
    rows = world.registries[broker]
    healthy, rows.faults = rows.faults, replace(rows.faults, **faults)
    await world.clock.sleep_s(seconds)
    rows.faults = healthy


async def _kill_controller_in_a_takeover(world: World, broker: int) -> None:
    """Kill a broker; once its chain is fenced, some steps on kill the controller."""
    victim = world.primaries[broker]
    if victim is None or victim.log is None:
        return
    epoch = victim.log.epoch
    victim.process.kill()
    if await world.until(lambda: _is_fenced(world, epoch), TAKEOVER_S_MAX):
        controller = world.active_controller()
        if controller is not None:
            steps = world.rng.randrange(1, 150)
            controller.process.dies_at_step = controller.process.step_count + steps
            await world.until(lambda: is_gone(controller), 2.0)
            world.seen["controller died in a takeover"] += controller.process.is_dead
    await _start_or_leave(world, broker)


def _is_fenced(world: World, epoch: int) -> bool:
    row = at_once(world.rows.get(CHAIN, chain_sk(epoch)))
    return row is not None and ChainRow.of(row).status is not ChainStatus.OPEN
