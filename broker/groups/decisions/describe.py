"""Groups as clients see them: DescribeGroups and ListGroups. Pure."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from broker.groups.decisions.group import Group, Member, Phase
from logstore.slices import Slices

DEAD = "Dead"
CLASSIC = "classic"
SLICE_NAMES = 5_000
"""Of states or types to list: some 1 ms."""

_STATES = frozenset(phase.value.lower() for phase in Phase)
_TYPES = frozenset((CLASSIC,))


@dataclass(frozen=True, slots=True)
class Described:
    state: str
    protocol_type: str = ""
    protocol: str = ""
    members: Sequence[tuple[Member, bytes, bytes]] = ()
    """With metadata and assignment; both empty while the group rebalances."""


def describe(group: Group | None) -> Described:
    """A group that is not there is "Dead"."""
    if group is None:
        return Described(DEAD)
    is_stable = group.phase is Phase.STABLE
    members = [
        (m, m.metadata(group.protocol) if is_stable else b"", m.assignment if is_stable else b"")
        for m in group.members.values()
    ]
    protocol = group.protocol or "" if is_stable else ""
    return Described(group.phase.value, group.type_now, protocol, members)


def list_filter(states: Collection[str], types: Collection[str]) -> Slices[Callable[[Group], bool]]:
    """Lists groups in one of `states` and of one of `types`; none given: any. Case is ignored."""
    wanted_types = yield from _known(types, _TYPES)
    wanted_states = yield from _known(states, _STATES)
    if types and not wanted_types:
        return lambda _: False
    if not states:
        return lambda _: True
    return lambda group: group.phase.value.lower() in wanted_states


def _known(names: Iterable[str], known: frozenset[str]) -> Slices[frozenset[str]]:
    """Which of `known` are named: a client may name 100,000."""
    found: frozenset[str] = frozenset()
    left = iter(names)
    while some := list(islice(left, SLICE_NAMES)):
        found |= known.intersection(map(str.lower, some))
        yield
    return found
