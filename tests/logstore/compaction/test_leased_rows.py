"""The compactor's lease: one owner at a time, a dead one is found out, a live one is named."""

import pytest

from logstore.compaction.leased_rows import Busy, LeasedRows
from tests.logstore.compaction.world import World
from tests.logstore.waits import Waits


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
