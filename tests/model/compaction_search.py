"""Every state of the world of compaction within bounds, nearest first; a trace to what is wrong."""

from dataclasses import dataclass, field

from tests.model.compaction import Bounds, World, moves, wrong_with

STATES_MAX = 2_000_000


@dataclass(slots=True)
class Found:
    """`trace` leads to the first state that is `wrong`."""

    states: int = 0
    wrong: str = ""
    trace: list[str] = field(default_factory=list)
    happened: set[str] = field(default_factory=set)


def search_compaction(bounds: Bounds) -> Found:
    found, first = Found(), World()
    came_from: dict[World, tuple[World, str] | None] = {first: None}
    waiting = [first]
    for world in waiting:
        for name, after in moves(world, bounds):
            found.happened.add(name)
            if after in came_from:
                continue
            came_from[after] = (world, name)
            waiting.append(after)
            found.wrong = wrong_with(after, bounds)
            if found.wrong:
                found.trace = _trace(after, came_from)
                found.states = len(waiting)
                return found
        assert len(waiting) <= STATES_MAX, "the bounds are too wide"
    found.states = len(waiting)
    return found


def _trace(world: World, came_from: dict[World, tuple[World, str] | None]) -> list[str]:
    steps = []
    while (step := came_from[world]) is not None:
        world, name = step
        steps.append(name)
    return steps[::-1]
