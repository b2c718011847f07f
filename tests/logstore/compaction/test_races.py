"""Two runs at once, a frozen driver that wakes, lost answers, other writers: the table decides."""

from collections.abc import Callable, Sequence

import pytest

from logstore.compaction.leased_rows import Busy, LeasedRows
from logstore.errors import OutcomeUnknown, Retryable
from logstore.formats.compaction_row import COMPACTOR
from logstore.formats.lease_row import LEASE
from logstore.formats.partition_row import NO_BROKER
from logstore.history.forms.names import table_key
from logstore.history.forms.snapshot import CommitFacts, Snapshot, TableCommit
from logstore.stores.backends import Backends
from logstore.stores.location import parse_location
from tests.logstore.compaction.world import World

Before = Callable[[], None]


class Disturbed:
    """The log's tables; the first commits meet with what a test thinks of."""

    def __init__(
        self, world: World, before: Before, *, after: Before | None = None, times: int = 1
    ) -> None:
        self._tables = world.tables
        self._before = before
        self._after = after
        self.left = times
        self.commit_count = 0

    def commits(self, topic_id: bytes, since_version: int) -> Sequence[CommitFacts]:
        return self._tables.commits(topic_id, since_version)

    def version_and_later(
        self, topic_id: bytes, time_ms: int
    ) -> tuple[int | None, Sequence[CommitFacts]]:
        return self._tables.version_and_later(topic_id, time_ms)

    def commit(self, snapshot: Snapshot, commit: TableCommit) -> Snapshot:
        self.commit_count += 1
        if self.left == 0:
            return self._tables.commit(snapshot, commit)
        self.left -= 1
        self._before()
        done = self._tables.commit(snapshot, commit)
        if self._after is not None:
            self._after()
        return done

    def snapshot(
        self, topic_id: bytes, *, version: int | None = None, known: Snapshot | None = None
    ) -> Snapshot | None:
        return self._tables.snapshot(topic_id, version=version, known=known)

    def create(self, topic_id: bytes, topic_name: str) -> Snapshot:
        return self._tables.create(topic_id, topic_name)

    def vacuum(self, topic_id: bytes, retention_hours: int, dry_run: bool, *, now_ms: int) -> int:
        return self._tables.vacuum(topic_id, retention_hours, dry_run, now_ms=now_ms)

    def checkpoint(self, topic_id: bytes) -> None:
        self._tables.checkpoint(topic_id)

    def delete_table(self, topic_id: bytes) -> int:
        return self._tables.delete_table(topic_id)


@pytest.fixture
def orders(world: World) -> World:
    world.create("orders", 2)
    world.fill()
    return world


@pytest.fixture
def without_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lease is liveness only: nothing may be lost where everybody thinks to have it."""
    monkeypatch.setattr(LeasedRows, "check", lambda self: None)


def free_the_lease(world: World) -> None:
    """As when its holder was silent for a lease."""
    rows = Backends(parse_location(str(world.directory))).rows("sqlite:registry.db", "write")
    blocking = rows.blocking()
    try:
        blocking.update_if(LEASE, COMPACTOR, {"owner": NO_BROKER}, [], "freed")
    finally:
        blocking.close()


def another_run(world: World) -> None:
    free_the_lease(world)
    world.compact()


def test_a_driver_that_was_frozen_finds_that_another_has_done_its_work(orders: World) -> None:
    tables = Disturbed(orders, lambda: another_run(orders))

    try:
        assert orders.compact(tables=tables).rows == 0
    except Retryable as lost:  # if it has noticed that before it looked at the table again
        assert "the lease" in str(lost)

    assert tables.left == 0
    orders.check()
    assert orders.compact().rows == 0


def test_two_runs_at_once_move_everything_once(orders: World, without_lease: None) -> None:
    tables = Disturbed(orders, lambda: another_run(orders))

    summary = orders.compact(tables=tables)

    assert (summary.errors, summary.rows) == ([], 0)
    orders.check()


def test_the_slower_of_two_runs_goes_on_where_the_faster_ended(
    orders: World, without_lease: None
) -> None:
    orders.compact()
    orders.fill()

    def ahead() -> None:
        orders.fill(3)  # committed after the slower run froze its cut
        another_run(orders)

    summary = orders.compact(tables=Disturbed(orders, ahead))

    assert (summary.rows, summary.errors) == (0, [])
    orders.check()


def test_a_run_that_is_always_overtaken_gives_up(orders: World, without_lease: None) -> None:
    def ahead() -> None:
        orders.fill(2)
        part = orders.snapshot("orders")
        assert part is not None
        ends = {number: part.end(number) or 0 for number in (0, 1)}
        starts = {number: end for number, end in ends.items() if part.end(number) is not None}
        moved = {number: ends[number] + 1 for number in starts} or {0: 1}
        orders.tables.commit(part, TableCommit(starts or {0: 0}, moved, run="greedy"))

    with pytest.raises(Retryable, match="again and again"):
        orders.compact(tables=Disturbed(orders, ahead, times=99))


def test_a_commit_whose_answer_is_lost_is_found_in_the_table(orders: World) -> None:
    def lose() -> None:
        raise OutcomeUnknown("the answer was lost")

    tables = Disturbed(orders, lambda: None, after=lose)

    summary = orders.compact(tables=tables)

    assert (summary.rows, summary.errors, tables.commit_count) == (120, [], 1)
    orders.check()


def test_a_commit_that_did_not_happen_is_made_again(orders: World) -> None:
    def lose() -> None:
        raise OutcomeUnknown("the request was lost")

    tables = Disturbed(orders, lose, times=2)

    assert orders.compact(tables=tables).rows == 120
    assert tables.commit_count == 3
    orders.check()


def test_an_optimize_in_between_costs_no_task(orders: World) -> None:
    from deltalake import DeltaTable

    orders.compact()
    orders.fill()
    orders.compact()
    orders.fill()
    place = str(orders.directory / table_key(orders.topic_ids["orders"]))

    def optimize() -> None:
        table = DeltaTable(place)
        assert table.optimize.compact()["numFilesRemoved"] == 4
        table.vacuum(dry_run=False)

    summary = orders.compact(tables=Disturbed(orders, optimize))

    assert (summary.tasks, summary.rows) == (1, 120)
    orders.check(is_ordered=False)


@pytest.mark.slow
def test_a_second_run_says_who_is_at_work(orders: World) -> None:
    messages: list[str] = []

    def second(step: str) -> None:
        if step == "plan":
            with pytest.raises(Busy) as refused:
                orders.compact()
            messages.append(str(refused.value))

    orders.compact(watch=second)

    assert "another compaction run is in progress: run=" in messages[0]
    assert "process" in messages[0]
    orders.check()


def test_the_copy_row_never_goes_down(orders: World) -> None:
    orders.compact()
    row = orders.table_pointers()[orders.topic_ids["orders"]]
    orders.fill()

    orders.compact()

    later = orders.table_pointers()[orders.topic_ids["orders"]]
    assert later.version > row.version
    assert later.ends == {0: 120, 1: 120}
