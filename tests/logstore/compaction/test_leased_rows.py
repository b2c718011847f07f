"""The compactor's lease: one owner at a time, a dead one is found out, a live one is named."""

from dataclasses import replace

import pytest

from logstore.compaction.leased_rows import Busy, LeasedRows
from logstore.errors import Retryable
from logstore.ports.registry import Condition, Registry, Row
from logstore.protocol.leading.lease import LATE_RENEWALS_MAX
from tests.logstore.compaction.world import LEASE_S, World
from tests.logstore.waits import Waits


class SlowWrites:
    """A registry of which each write takes `write_s` by `clock`."""

    def __init__(self, registry: Registry, clock: Waits) -> None:
        self.write_s = 0.0
        self.query, self.get = registry.query, registry.get
        self.delete_if, self.close = registry.delete_if, registry.close
        self._registry = registry
        self._clock = clock

    async def put_if(self, pk: str, sk: str, row: Row, *conditions: Condition) -> None:
        await self._clock.sleep_s(self.write_s)
        await self._registry.put_if(pk, sk, row, *conditions)

    async def update_if(self, pk: str, sk: str, sets: Row, *conditions: Condition) -> None:
        await self._clock.sleep_s(self.write_s)
        await self._registry.update_if(pk, sk, sets, *conditions)


def slowed(rows: LeasedRows, clock: Waits) -> SlowWrites:
    registry = SlowWrites(rows.log.runner.registry, clock)
    rows._log = replace(rows.log, runner=replace(rows.log.runner, registry=registry))
    return registry


def test_a_free_lease_is_taken_at_once_and_given_back(world: World) -> None:
    for owner in (1, 2):
        rows = world.leased_rows(owner)
        rows.acquire(0)
        assert rows.holds
        rows.check()
        rows.close()


@pytest.mark.slow
def test_one_that_lives_is_not_waited_for(world: World) -> None:
    first, second = world.leased_rows(1), world.leased_rows(2)
    try:
        first.acquire(0)
        with pytest.raises(Busy) as busy:
            second.acquire(0)
        assert busy.value.holder.owner == 1
    finally:
        first.close()
        second.close()


def test_one_that_ends_in_time_is_waited_for(world: World) -> None:
    first, second = world.leased_rows(1), world.leased_rows(2)
    first.acquire(0)
    first.close()
    try:
        second.acquire(30)
        assert second.holds
    finally:
        second.close()


def test_one_that_died_is_found_out(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(self: LeasedRows) -> None:
        """A process that is gone renews nothing, and gives nothing up."""

    first, second = (world.leased_rows(owner, clock=Waits()) for owner in (1, 2))
    first.acquire(0)
    monkeypatch.setattr(LeasedRows, "_give_up", nothing)
    first.close()
    monkeypatch.undo()
    try:
        second.acquire(0)
        assert second.holds
    finally:
        second.close()


def test_one_that_takes_it_too_slowly_to_act_leaves_it_to_others(world: World) -> None:
    """It would keep it for as long as it may wait, and never know in time that it has it."""
    clock = Waits()
    first, second = world.leased_rows(1, clock=clock), world.leased_rows(2)
    slowed(first, clock).write_s = LEASE_S / 2
    try:
        with pytest.raises(Retryable, match="too long to act"):
            first.acquire(100)
        second.acquire(0)
        assert second.holds
    finally:
        first.close()
        second.close()


def test_one_that_renews_too_slowly_to_act_leaves_it_to_others(world: World) -> None:
    """A step of its run may take hours, and would be refused at the end."""
    clock = Waits()
    first, second = world.leased_rows(1, clock=clock), world.leased_rows(2)
    registry = slowed(first, clock)
    try:
        first.acquire(0)
        registry.write_s = LEASE_S / 2
        for _ in range(LATE_RENEWALS_MAX):
            first._call(first._step())
        with pytest.raises(Retryable, match="too long to act"):
            first.check()
        second.acquire(0)
        assert second.holds
    finally:
        first.close()
        second.close()
