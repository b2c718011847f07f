"""Measures what steps of brokers take, for the table in `logstore.testing.cpu`.

    python -m tests.simulation.measure_steps [SEED…]

Prints, for each kind of step of the seeds' clusters: how many there were, the mean of the CPU time
that they took in microseconds, and the figure in the table.
"""

import gc
import random
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence

from logstore.testing.cpu import OTHER_STEP_S, STEP_S, name_of
from logstore.testing.process_loop import Process
from tests.simulation.plan import draw_cluster_plan
from tests.simulation.story import play

SHOWN_MAX = 40


def main(arguments: list[str]) -> int:
    took: dict[str, list[int]] = defaultdict(list)

    usual = Process.run_step

    def run_step(self: Process, callback: Callable[..., object], args: Sequence[object]) -> None:
        began_ns = time.thread_time_ns()
        usual(self, callback, args)
        took[name_of(callback)].append(time.thread_time_ns() - began_ns)

    Process.run_step = run_step  # type: ignore[method-assign]
    gc.disable()
    try:
        for seed in map(int, arguments or ("0", "1", "2")):
            play(seed, draw_cluster_plan(random.Random(seed)))
    finally:
        gc.enable()
        Process.run_step = usual  # type: ignore[method-assign]
    for name, times in sorted(took.items(), key=lambda one: -sum(one[1]))[:SHOWN_MAX]:
        mean_us, table_us = sum(times) / len(times) / 1000, 1e6 * STEP_S.get(name, OTHER_STEP_S)
        sys.stdout.write(f"{name:50} {len(times):8} {mean_us:8.1f} {table_us:8.1f}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
