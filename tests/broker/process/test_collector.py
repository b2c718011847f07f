"""The collector of garbage looks at what is new, and at all of the heap seldom."""

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from broker.process import collector
from broker.process.collector import EVERYTHING_S, Collector, thresholds

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        collector.IS_INCREMENTAL, reason="this Python collects in small steps by itself"
    ),
]


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()
    gc.collect()


class Node:
    """Part of a cycle."""

    def __init__(self) -> None:
        self.me = self


def aged() -> "tuple[Node, weakref.ref[Node]]":
    """An object that young collections have moved to the oldest generation."""
    node = Node()
    gc.collect(0)
    gc.collect(1)
    return node, weakref.ref(node)


def test_what_the_start_has_made_is_frozen_and_nothing_old_is_collected_unasked() -> None:
    async def begin() -> None:
        collecting = Collector()
        collecting.begin(asyncio.get_running_loop())
        collecting.end()

    asyncio.run(begin())

    assert gc.get_freeze_count() > 0
    assert gc.get_threshold() == thresholds()
    assert thresholds()[2] == collector.NEVER


def test_a_young_cycle_is_collected_before_what_is_old_is_frozen() -> None:
    collecting = Collector()
    collecting.collect_everything(0.0)
    aged()
    node = Node()
    ref = weakref.ref(node)
    del node

    collecting.look(1.0)

    assert ref() is None


def test_what_survives_a_look_is_frozen_until_everything_is_collected() -> None:
    collecting = Collector()
    collecting.collect_everything(0.0)
    node, ref = aged()
    collecting.look(1.0)
    frozen_count = gc.get_freeze_count()
    del node
    more = [[] for _ in range(frozen_count)]  # type: ignore[var-annotated]

    aged()
    collecting.look(EVERYTHING_S - 1)
    assert ref() is not None, "it was looked at too early"
    assert gc.get_freeze_count() > frozen_count + len(more) // 2

    aged()
    collecting.look(EVERYTHING_S)
    assert ref() is None


def test_everything_is_left_alone_while_it_does_not_grow() -> None:
    collecting = Collector()
    collecting.collect_everything(0.0)
    node, ref = aged()
    collecting.look(1.0)
    del node

    aged()
    collecting.look(2 * EVERYTHING_S)

    assert ref() is not None


def test_nothing_is_collected_while_nothing_grows_old() -> None:
    collecting = Collector()
    collecting.collect_everything(0.0)
    node = Node()
    ref = weakref.ref(node)
    del node

    collecting.look(1.0)

    assert ref() is not None
