"""Steps of simulated processes take time where they have a core."""

import asyncio

from logstore.testing.cpu import OTHER_STEP_S, STANDS_S, Cpu
from logstore.testing.process_loop import Process, charge_bytes, simulate

GIGABYTE = 1_000_000_000


def test_work_delays_what_the_process_does_next_and_no_other_process() -> None:
    stood: list[float] = []
    late: dict[str, float] = {}

    async def works() -> None:
        charge_bytes(GIGABYTE)

    async def wakes(name: str) -> None:
        await asyncio.sleep(0.01)
        late[name] = asyncio.get_running_loop().time() - 0.01

    async def main() -> None:
        busy, idle = Process("busy"), Process("idle")
        busy.cpu = Cpu(1.0, lambda name, seconds: stood.append(seconds))
        for process in (busy, idle):
            process.spawn(wakes(process.name))
        busy.spawn(works())
        await asyncio.sleep(10)

    simulate(main())
    assert late["idle"] == 0
    assert late["busy"] > STANDS_S
    assert len(stood) == 1


def test_many_small_steps_take_as_long_as_their_sum() -> None:
    async def steps(count: int) -> float:
        for _ in range(count):
            await asyncio.sleep(0)
        return asyncio.get_running_loop().time()

    async def main() -> float:
        process = Process("busy")
        process.cpu = Cpu(10.0, lambda name, seconds: None)
        return await process.spawn(steps(1_000))

    took_s = simulate(main())
    assert 0.9 < took_s / (1_000 * 10 * OTHER_STEP_S) < 1.1
