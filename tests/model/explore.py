"""Every state of a small world within bounds, nearest first; a trace to what is wrong."""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

STATES_MAX = 2_000_000

W = TypeVar("W", bound=Hashable)


@dataclass(slots=True)
class Found:
    """`trace` leads to the first state that is `wrong`."""

    states: int = 0
    wrong: str = ""
    trace: list[str] = field(default_factory=list)
    happened: set[str] = field(default_factory=set)


def explore(
    first: W, moves: Callable[[W], Iterable[tuple[str, W]]], wrong_with: Callable[[W], str]
) -> Found:
    """`moves` names what may happen in a state; `wrong_with` is empty when nothing is wrong."""
    found = Found()
    came_from: dict[W, tuple[W, str] | None] = {first: None}
    waiting = [first]
    for world in waiting:
        for name, after in moves(world):
            found.happened.add(name)
            if after in came_from:
                continue
            came_from[after] = (world, name)
            waiting.append(after)
            found.wrong = wrong_with(after)
            if found.wrong:
                found.trace = _trace(after, came_from)
                found.states = len(waiting)
                return found
        assert len(waiting) <= STATES_MAX, "the bounds are too wide"
    found.states = len(waiting)
    return found


def _trace(world: W, came_from: dict[W, tuple[W, str] | None]) -> list[str]:
    steps = []
    while (step := came_from[world]) is not None:
        world, name = step
        steps.append(name)
    return steps[::-1]
