"""One moment of a topic: no hole and no double, whatever compaction does while it is looked at."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.errors import Corrupt, Invalid, Retryable
from logstore.history.forms.snapshot import Snapshot
from logstore.reading.planning.extents import Extent, Extents, TopicExtent
from spark_source.planning.pinning import PinnedSnapshot, pin_snapshot, pinned

TOPIC = b"t" * 16


class World:
    """A topic that goes on between any two looks: appended to, moved to its table, trimmed."""

    def __init__(self, between: Callable[["World"], None], partitions: int = 2) -> None:
        self._between = between
        self.topic_id = TOPIC
        self.starts = dict.fromkeys(range(partitions), 0)
        self.ends = dict.fromkeys(range(partitions), 0)
        self.table_ends: dict[int, int] = {}
        self.version = -1

    def look(self) -> Extents:
        self._between(self)
        extents = {number: Extent(self.starts[number], end) for number, end in self.ends.items()}
        return {"orders": TopicExtent(self.topic_id, extents)}

    def newest_table(self, topic_id: bytes) -> Snapshot | None:
        self._between(self)
        if self.version < 0:
            return None
        return Snapshot(topic_id, self.version, dict(self.table_ends))

    def append(self, partition: int, count: int) -> None:
        self.ends[partition] += count

    def move(self) -> None:
        """A whole run of compaction: everything there is."""
        self.table_ends = dict(self.ends)
        self.version += 1


def check(found: PinnedSnapshot) -> None:
    for number, bound in found.bounds.items():
        assert found.starts[number] <= bound <= found.ends[number]


def test_the_table_is_looked_at_before_the_log() -> None:
    def busy(world: World) -> None:
        for number in world.ends:
            world.append(number, 10)
        world.move()

    check(pin_snapshot(World(busy), "orders"))


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 5), st.booleans()), max_size=12))
def test_history_ends_where_the_tail_begins_at_any_moment(
    story: list[tuple[int, int, bool]],
) -> None:
    steps = iter(story)

    def some(world: World) -> None:
        for partition, count, moves in (next(steps, (0, 0, False)) for _ in range(3)):
            world.append(partition, count)
            if moves:
                world.move()

    world = World(some)
    found = pin_snapshot(world, "orders")

    check(found)
    if found.version is None:
        assert found.bounds == found.starts
        assert not found.has_history


def test_what_retention_took_is_neither_history_nor_tail() -> None:
    extent = TopicExtent(TOPIC, {0: Extent(30, 100), 1: Extent(5, 50), 2: Extent(0, 0)})

    found = pinned("orders", extent, Snapshot(TOPIC, 3, {0: 20, 1: 20, 7: 9}))

    assert found.bounds == {0: 30, 1: 20, 2: 0}
    assert found.has_history
    assert found.has_tail


def test_a_topic_all_of_which_has_moved_has_no_tail() -> None:
    found = pinned("orders", TopicExtent(TOPIC, {0: Extent(0, 20)}), Snapshot(TOPIC, 3, {0: 20}))

    assert (found.has_history, found.has_tail) == (True, False)


def test_a_log_that_ends_below_its_table_is_an_older_copy() -> None:
    with pytest.raises(Corrupt, match="partition=0 end=10 table end=20; is the registry an older"):
        pinned("orders", TopicExtent(TOPIC, {0: Extent(0, 10)}), Snapshot(TOPIC, 3, {0: 20}))


def test_a_topic_that_changes_its_life_during_the_read_is_looked_at_again_by_the_caller() -> None:
    def recreate(world: World) -> None:
        world.topic_id = bytes(reversed(world.topic_id[:-1] + b"x"))

    with pytest.raises(Retryable, match="re-created while it was read: topic=orders"):
        pin_snapshot(World(recreate), "orders")
    with pytest.raises(Invalid, match="no such topic: returns"):
        pin_snapshot(World(lambda _: None), "returns")
