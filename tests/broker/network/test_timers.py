"""Deadlines are met, not early and little late; those that were unset are not."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from broker.network.timers import TICK_S, Timers
from logstore.testing.virtual_loop import VirtualClock, run


class Alarm:
    def __init__(self) -> None:
        self.timer_bucket = 0
        self.rang_s: float | None = None

    def time_out(self) -> None:
        assert self.rang_s is None
        self.rang_s = asyncio.get_running_loop().time()


@given(st.lists(st.tuples(st.floats(0, 100), st.booleans()), max_size=30))
def test_deadlines_are_met_unless_they_were_unset(plan: list[tuple[float, bool]]) -> None:
    async def story() -> None:
        timers = Timers(asyncio.get_running_loop())
        alarms = [Alarm() for _ in plan]
        for alarm, (seconds, _) in zip(alarms, plan, strict=True):
            timers.set(alarm, seconds)
        for alarm, (_, stays) in zip(alarms, plan, strict=True):
            if not stays:
                timers.unset(alarm)
        await VirtualClock().sleep_s(200)

        for alarm, (seconds, stays) in zip(alarms, plan, strict=True):
            if not stays:
                assert alarm.rang_s is None
            else:
                assert alarm.rang_s is not None
                assert seconds - 0.002 <= alarm.rang_s <= seconds + TICK_S + 0.002

    run(story())


async def test_an_earlier_deadline_set_later_is_met_first() -> None:
    timers = Timers(asyncio.get_running_loop())
    late, early = Alarm(), Alarm()
    timers.set(late, 10)
    timers.set(early, 1)
    await VirtualClock().sleep_s(2)

    assert early.rang_s is not None
    assert late.rang_s is None
    timers.close()
    await VirtualClock().sleep_s(20)
    assert late.rang_s is None


async def test_a_deadline_that_another_unsets_when_both_are_due_is_not_met() -> None:
    class Unsetting(Alarm):
        def __init__(self, timers: Timers, other: Alarm) -> None:
            super().__init__()
            self._timers, self._other = timers, other

        def time_out(self) -> None:
            self._timers.unset(self._other)

    timers = Timers(asyncio.get_running_loop())
    second = Alarm()
    first = Unsetting(timers, second)
    timers.set(first, 1)
    timers.set(second, 1)
    await VirtualClock().sleep_s(5)

    assert second.rang_s is None


async def test_a_deadline_that_sets_another_is_met_again() -> None:
    class Repeating(Alarm):
        def __init__(self, timers: Timers) -> None:
            super().__init__()
            self.count = 0
            self._timers = timers

        def time_out(self) -> None:
            self.count += 1
            self._timers.set(self, 1)

    timers = Timers(asyncio.get_running_loop())
    alarm = Repeating(timers)
    timers.set(alarm, 1)
    await VirtualClock().sleep_s(10.5)

    assert 9 <= alarm.count <= 10


class Faulty(Alarm):
    def time_out(self) -> None:
        super().time_out()
        raise ValueError("a fault of the timer's owner")


async def test_a_fault_of_one_is_reported_and_leaves_the_others_their_deadlines() -> None:
    loop, faults = asyncio.get_running_loop(), list[object]()
    loop.set_exception_handler(lambda _, context: faults.append(context.get("exception")))
    timers = Timers(loop)
    alarms = [Alarm(), Faulty(), Alarm(), Faulty(), Alarm()]
    for alarm in alarms:
        timers.set(alarm, 1)
    await VirtualClock().sleep_s(2)

    assert all(alarm.rang_s is not None for alarm in alarms)
    assert [type(fault) for fault in faults] == [ValueError, ValueError]
