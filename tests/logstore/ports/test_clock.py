"""The clock of a process counts the time for which its machine was suspended."""

import time

from logstore.ports.clock import MONOTONIC_CLOCK, SystemClock


def test_leases_and_graces_run_out_while_the_machine_is_suspended() -> None:
    # On a machine that was never suspended both clocks of Linux show the same.
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    assert clock == MONOTONIC_CLOCK
    before_s = time.clock_gettime(clock)
    assert before_s <= SystemClock().monotonic_s() <= time.clock_gettime(clock)
