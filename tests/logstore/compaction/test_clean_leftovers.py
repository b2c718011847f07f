"""Objects that a dead run of key compaction left are swept, whatever became of its topics."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from logstore.compaction.compactor import Compactor
from logstore.compaction.decisions.run_rows import RUNS_KEPT
from logstore.compaction.decisions.summary import Summary
from logstore.compaction.local import LocalCarrier
from logstore.compaction.session import RunOptions
from logstore.ports.clock import SystemClock
from tests.logstore.compaction.keyed import KeyedTopic
from tests.logstore.compaction.world import LEASE_S, NOW, World

HOUR_MS = 3_600_000


class LaterClock(SystemClock):
    """Hours ahead of the system's."""

    def __init__(self, hours: int) -> None:
        self._ahead_ms = hours * HOUR_MS

    def now_ms(self) -> int:
        return super().now_ms() + self._ahead_ms


class _Killed(BaseException):
    """Ends a run where it stands."""


@pytest.fixture
def topic(world: World) -> Iterator[KeyedTopic]:
    """A run that cleaned it died between two tasks; then the topic went."""
    topic = KeyedTopic.create(world, "state")
    topic.write((b"a", b"1"), (b"a", b"2"))
    topic.move()

    def kill(step: str) -> None:
        if step == "task done":
            raise _Killed

    with pytest.raises(_Killed):
        world.compact(NOW, watch=kill)
    object_path = world.directory / "compaction" / "a-run" / "an-object"  # of a task that was late
    object_path.parent.mkdir(parents=True)
    object_path.write_bytes(b"x")
    world.log.delete_topic("state")
    yield topic


def compact(world: World, hours: int, options: RunOptions = NOW) -> Summary:
    url = str(world.directory)
    carrier = LocalCarrier(url, {}, 1)
    clock = LaterClock(hours)
    compactor = Compactor(url, {}, carrier, clock=clock, lease_s=LEASE_S, tables=world.tables)
    try:
        return compactor.run(options, 60)
    finally:
        compactor.close()


def objects(world: World) -> list[Path]:
    return [path for path in (world.directory / "compaction").rglob("*") if path.is_file()]


def test_they_go_a_day_later_where_no_topic_is_compacted_any_more(topic: KeyedTopic) -> None:
    world = topic.world
    compact(world, 0)
    assert objects(world)  # a task of that run may be at work still

    compact(world, 25)
    assert not objects(world)
    assert not any(row.objects for row in world.run_rows())


def test_the_row_of_such_a_run_stays_until_then(topic: KeyedTopic) -> None:
    world = topic.world
    for _ in range(RUNS_KEPT + 2):
        compact(world, 0)
    assert [row.objects for row in world.run_rows()].count(1) == 1

    compact(world, 25)
    assert not objects(world)
    assert len(world.run_rows()) <= RUNS_KEPT + 2


def test_a_run_that_ends_well_leaves_no_mark(world: World) -> None:
    topic = KeyedTopic.create(world, "state")
    topic.write((b"a", b"1"), (b"a", b"2"))
    topic.clean()

    assert [row.objects for row in world.run_rows()] == [0]
