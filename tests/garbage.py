"""What only Python's collector of garbage would free."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture
def uncollected() -> Iterator[None]:
    """The collector runs only where the test says so, over what the test makes.

    A look at all that libraries and earlier tests hold takes half a second of CPU.
    """
    gc.disable()
    gc.freeze()
    yield
    gc.unfreeze()
    gc.set_debug(0)
    gc.garbage.clear()
    gc.enable()


def garbage() -> list[object]:
    """Objects in cycles that nothing refers to. They stay garbage, and are found again."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    gc.set_debug(0)
    found = gc.garbage[:]
    gc.garbage.clear()
    return found
