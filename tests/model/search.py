"""Breadth-first search of every state that can be reached; a violation comes with a shortest trace.

A state is its own key: equal worlds are one state, however they came about. Among brokers that have
never led any is as good as another, so only the first is named (`registry.successors`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.model import broker, reader, registry, start, takeover, trimmer
from tests.model.config import Config
from tests.model.invariants import wrong_with
from tests.model.state import NOWHERE, STOPPED, Move, State, initial

ACTORS = (broker, registry, takeover, start, trimmer, reader)
STATES_MAX = 3_000_000


class SearchTooLargeError(Exception):
    """There are more states than a search may hold."""


@dataclass(slots=True)
class Result:
    """`trace` leads to the first state in which something is `wrong`; without one it is empty."""

    config: Config
    states: int = 0
    depth: int = 0
    wrong: str = ""
    trace: list[str] = field(default_factory=list)
    happened: set[str] = field(default_factory=set)
    """Names of all moves that were possible somewhere."""
    all_answered: bool = False
    """Whether a state was reached in which every batch is acknowledged."""


def search(config: Config, states_max: int = STATES_MAX) -> Result:
    """Look at every state within the bounds, nearest first, up to the first that is wrong."""
    result = Result(config)
    first = initial(config)
    states, parents, depths = [first], [0], [0]
    seen = {first}
    at = 0
    while at < len(states):
        for name, _figures, after in moves(states[at], config):
            result.happened.add(name)
            if after in seen:
                continue
            seen.add(after)
            states.append(after)
            parents.append(at)
            depths.append(depths[at] + 1)
            wrong = wrong_with(after, config)
            if wrong:
                result.wrong = wrong
                result.trace = _trace(states, parents, config)
                break
            if NOWHERE not in after.acked:
                result.all_answered = True
        if result.wrong:
            break
        if len(states) > states_max:
            raise SearchTooLargeError(f"more states than allowed: config={config.name}")
        at += 1
    result.states, result.depth = len(states), depths[-1]
    return result


def moves(state: State, config: Config) -> Iterator[Move]:
    if state.phase != STOPPED:
        for actor in ACTORS:
            yield from actor.moves(state, config)


def _trace(states: list[State], parents: list[int], config: Config) -> list[str]:
    """Every move from the beginning to the last state, in words."""
    steps = []
    at = len(states) - 1
    while at:
        before, after = states[parents[at]], states[at]
        name, figures = next(
            (name, figures) for name, figures, state in moves(before, config) if state == after
        )
        steps.append(f"{name} {' '.join(map(str, figures))}".rstrip())
        at = parents[at]
    return steps[::-1]
