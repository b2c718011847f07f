"""The lease protocol: one owner acts at a time, and a new one is there when the old is gone."""

import itertools
import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.errors import OutcomeUnknown, Retryable
from logstore.formats.lease_row import LEASE, LeaseRow
from logstore.formats.partition_row import NO_BROKER
from logstore.objects.memory import MemoryObjects, MemoryStore
from logstore.protocol.leading.lease import LATE_RENEWALS_MAX, STEP_DOWN_AT, Lease
from logstore.protocol.steps import GetRow, UpdateRow
from logstore.registry.memory import MemoryRows
from logstore.registry.retrying import RetryingRegistry
from logstore.runners.step_runner import StepRunner
from logstore.testing.simulated_rows import at_once

LEASE_S = 3.0
WHAT = "controller"


class _StandingClock:
    """For calls that never wait."""

    def monotonic_s(self) -> float:
        return 0.0

    def now_ms(self) -> int:
        return 0

    async def sleep_s(self, seconds: float) -> None:
        raise AssertionError("nothing here waits")


@dataclass
class World:
    """One lease row and those who want it; each has a clock that is off by its own amount."""

    rows: MemoryRows = field(default_factory=MemoryRows)
    now_s: float = 1000.0
    dead: set[tuple[int, int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        clock, ids = _StandingClock(), itertools.count()
        self.runner = StepRunner(
            MemoryStore(MemoryObjects(clock)),
            RetryingRegistry(self.rows, lambda: str(next(ids)), clock, random.Random(0)),
            clock,
            random.Random(0),
            lambda: b"",
        )

    def step(self, lease: Lease, off_s: float = 0.0, *, applies: bool = True) -> None:
        steps = lease.step(self.now_s + off_s, lambda *life: life in self.dead, applies=applies)
        at_once(self.runner.run(steps))

    def row(self) -> LeaseRow:
        row = at_once(self.rows.get(LEASE, WHAT))
        assert row is not None
        return LeaseRow.of(row)

    def watch(self, lease: Lease, seconds: int) -> None:
        for _ in range(seconds):
            self.now_s += 1
            self.step(lease)


def lease_of(owner: int, epoch: int = 1) -> Lease:
    return Lease(WHAT, owner=owner, owner_epoch=epoch, lease_s=LEASE_S)


def test_the_first_to_look_takes_a_lease_that_no_process_ever_had() -> None:
    world, first, second = World(), lease_of(1), lease_of(2)
    world.step(first)
    world.step(second)

    assert first.holds(world.now_s)
    assert not second.holds(world.now_s)
    assert second.seen == world.row() == LeaseRow(owner=1, owner_epoch=1, epoch=1, heartbeat=0)


def test_a_lease_that_is_renewed_stays_with_its_owner() -> None:
    world, first, second = World(), lease_of(1), lease_of(2)
    for _ in range(20):
        world.now_s += 1
        world.step(first)
        world.step(second)

        assert first.holds(world.now_s)
        assert not second.holds(world.now_s)
    assert (world.row().epoch, world.row().heartbeat, first.acquired) == (1, 19, 1)


def test_a_lease_that_stood_still_for_a_term_is_taken_over() -> None:
    world, first, second = World(), lease_of(1), lease_of(2)
    world.step(first)
    world.step(second)

    world.watch(second, 2)
    assert not second.holds(world.now_s)
    world.watch(second, 1)

    assert second.holds(world.now_s)
    assert not first.holds(world.now_s)
    assert world.row().epoch == 2


def test_a_dead_owners_lease_is_taken_over_at_once() -> None:
    world, first, second = World(), lease_of(1, epoch=5), lease_of(2)
    world.step(first)
    world.dead = {(1, 5)}
    world.step(second)

    assert second.holds(world.now_s)


def test_a_broker_that_started_again_takes_its_own_lease_at_once() -> None:
    world, again = World(), lease_of(1, epoch=6)
    world.step(lease_of(1, epoch=5))
    world.step(again)

    assert again.holds(world.now_s)
    assert world.row().owner_epoch == 6


def test_an_owner_that_cannot_renew_steps_down_at_half_term() -> None:
    world, lease = World(), lease_of(1)
    world.step(lease)

    assert lease.holds(world.now_s + 1.4)
    assert not lease.holds(world.now_s + 1.5)
    assert lease.is_mine


def test_an_owner_that_stepped_down_goes_on_when_its_place_was_not_taken() -> None:
    world, lease = World(), lease_of(1)
    world.step(lease)
    world.now_s += 60
    world.step(lease)

    assert lease.holds(world.now_s)
    assert lease.acquired == 1


def test_an_observer_that_does_not_apply_neither_takes_it_nor_renews_it() -> None:
    world, lease, successor = World(), lease_of(1), lease_of(2)
    world.step(lease)
    for _ in range(3):
        world.now_s += 1
        world.step(lease, applies=False)
        world.step(successor)

        assert not lease.holds(world.now_s)
        assert lease.seen == world.row()
    world.watch(successor, 1)

    assert successor.holds(world.now_s)


def test_a_zombie_learns_at_its_next_renewal_that_it_was_replaced() -> None:
    world, zombie, successor = World(), lease_of(1), lease_of(2)
    world.step(zombie)
    world.step(successor)
    world.watch(successor, 10)
    world.step(zombie)

    assert not zombie.holds(world.now_s)
    assert successor.holds(world.now_s)
    assert zombie.seen is not None
    assert zombie.seen.owner == 2


def test_a_lease_given_up_is_free_at_once() -> None:
    world, first, second = World(), lease_of(1), lease_of(2)
    world.step(first)
    at_once(world.runner.run(first.give_up()))
    assert not first.holds(world.now_s)
    assert world.row().owner == NO_BROKER
    world.step(second)

    assert second.holds(world.now_s)


def test_giving_up_what_another_has_changes_nothing() -> None:
    world, first, second = World(), lease_of(1), lease_of(2)
    world.step(first)
    world.step(second)
    before = world.row()
    at_once(world.runner.run(second.give_up()))

    assert world.row() == before


def test_an_observer_that_stood_still_does_not_take_over_at_its_first_look() -> None:
    world, first, second = World(), lease_of(1), lease_of(2)
    world.step(first)
    world.step(second)
    world.now_s += 3600
    world.step(second)

    assert not second.holds(world.now_s)


def test_a_renewal_whose_answer_was_lost_for_good_is_found_out_at_the_next() -> None:
    world, lease = World(), lease_of(1)
    world.step(lease)
    steps = lease.step(world.now_s + 1, lambda *life: False)
    request = steps.send(None)
    assert isinstance(request, UpdateRow)
    at_once(world.runner._perform(request))
    with pytest.raises(OutcomeUnknown):
        steps.throw(OutcomeUnknown("time-out"))
    world.now_s += 2
    world.step(lease)
    world.step(lease)

    assert lease.holds(world.now_s)


def test_a_registry_that_is_away_is_the_callers_to_hear_of() -> None:
    world, lease = World(), lease_of(1)
    steps = lease.step(world.now_s, lambda *life: False)
    assert isinstance(steps.send(None), GetRow)
    with pytest.raises(Retryable):
        steps.throw(Retryable("503"))

    assert not lease.holds(world.now_s)


def test_an_owner_that_is_always_too_late_to_act_is_to_give_it_up() -> None:
    world, one = World(), lease_of(1)
    for number in range(1, 2 * LATE_RENEWALS_MAX):
        world.step(one)
        assert one.is_mine
        one.note_ended(world.now_s + LEASE_S * STEP_DOWN_AT)
        assert one.is_too_slow == (number >= LATE_RENEWALS_MAX)
        world.now_s += LEASE_S
    at_once(world.runner.run(one.give_up()))
    assert not one.is_too_slow


@pytest.mark.parametrize("applied", [True, False])
def test_late_renewals_are_counted_in_a_row(applied: bool) -> None:
    """One in time ends the row, and a look by one that does not apply."""
    world, one = World(), lease_of(1)
    for _ in range(2 * LATE_RENEWALS_MAX):
        for late in range(LATE_RENEWALS_MAX):
            world.now_s += LEASE_S
            is_last = late == LATE_RENEWALS_MAX - 1
            world.step(one, applies=applied or not is_last)
            is_in_time = is_last and applied
            one.note_ended(
                world.now_s + (0 if is_in_time else LEASE_S), applied=applied or not is_last
            )
            assert not one.is_too_slow


@given(
    looks=st.lists(st.tuples(st.integers(0, 2), st.floats(0.0, 2.0)), max_size=80),
    off_s=st.lists(st.integers(-3600, 3600), min_size=3, max_size=3),
)
def test_no_two_hold_it_at_once_however_they_look_and_whatever_their_clocks_say(
    looks: list[tuple[int, float]], off_s: list[int]
) -> None:
    world, leases = World(), [lease_of(1), lease_of(2), lease_of(3)]
    for who, later_s in looks:
        world.now_s += later_s
        world.step(leases[who], off_s[who])

        holders = [
            lease
            for lease, off in zip(leases, off_s, strict=True)
            if lease.holds(world.now_s + off)
        ]
        assert len(holders) <= 1
