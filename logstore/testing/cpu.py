"""Cost of the steps of a simulated process: one core, whose time is virtual time.

A step is charged by the coroutine or callback that it runs, and by the bytes that it hands to a
store or a connection, or takes from one. The process takes no other step until its core has done
that much work, so timers run late, answers wait, and leases may run out, as on a real machine.

The figures are means of the CPU time that the product's own steps took on one core of a server with
two (Python 3.11, `time.thread_time`), 80,000 steps of simulated clusters:

    python -m tests.simulation.measure_steps

Slower machines multiply them. A step that takes more than `STANDS_S` holds up everything that the
loop does, the renewal of its lease too.
"""

from collections.abc import Callable

STANDS_S = 0.5
QUANTUM_S = 0.001
"""Work that is done at one moment of virtual time: a timer for each step would cost more."""

OTHER_STEP_S = 10e-6
STEP_S = {
    "SimulatedTransport._read": 125e-6,
    "ActionQueue._run": 113e-6,
    "LeadershipTransitions.run": 109e-6,
    "Trimming.run": 95e-6,
    "Log.start": 93e-6,
    "Controller.run": 82e-6,
    "Watch.run": 80e-6,
    "Broker._run": 80e-6,
    "_Fetch._outcome": 80e-6,
    "outcome_of": 66e-6,
    "ChainWriter._put_checkpoint": 56e-6,
    "Followers._run": 55e-6,
    "LeaseKeeper.run": 51e-6,
    "Membership._renew_in_time": 48e-6,
    "ChainWriter._put": 39e-6,
    "ChainWriter.run": 34e-6,
    "Timers._fire": 29e-6,
    "Membership.run": 29e-6,
    "Clients._uncork": 27e-6,
    "SegmentCache.part": 25e-6,
    "StepRunner._outcome": 22e-6,
    "Coordinators.run": 20e-6,
    "TaskGroup._on_task_done": 4e-6,
}
BYTE_S = 0.7e-9
"""Joined, copied or checksummed once: `b"".join` of 1 MiB buffers."""


class Cpu:
    """The core of one process. `stands` is called for each step that takes too long."""

    def __init__(self, slowness: float, stands: Callable[[str, float], None]) -> None:
        self.busy_until_s = 0.0
        self.used_s = 0.0
        self.longest_s = 0.0
        self._slowness = slowness
        self._stands = stands
        self._byte_count = 0

    def charge_bytes(self, count: int) -> None:
        """The step that runs handles so many."""
        self._byte_count += count

    def is_busy(self, now_s: float) -> bool:
        """Whether more is to be done than fits into this moment."""
        return self.busy_until_s > now_s + QUANTUM_S

    def did(self, callback: object, now_s: float) -> None:
        """A step is over."""
        name = name_of(callback)
        cost_s = STEP_S.get(name, OTHER_STEP_S) + self._byte_count * BYTE_S
        self._byte_count = 0
        cost_s *= self._slowness
        self.used_s += cost_s
        self.longest_s = max(self.longest_s, cost_s)
        self.busy_until_s = max(self.busy_until_s, now_s) + cost_s
        if cost_s >= STANDS_S:
            self._stands(name, cost_s)


def name_of(callback: object) -> str:
    """Of the coroutine that a step goes on with, or of the function that it calls."""
    coroutine_of = getattr(getattr(callback, "__self__", None), "get_coro", None)
    runs = callback if coroutine_of is None else coroutine_of()
    return getattr(runs, "__qualname__", type(runs).__name__)
