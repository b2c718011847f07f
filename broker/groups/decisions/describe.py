"""Groups as clients see them: DescribeGroups and ListGroups. Pure."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from broker.groups.decisions.group import Group, Member, Phase

DEAD = "Dead"
CLASSIC = "classic"


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


def list_filter(states: Collection[str], types: Collection[str]) -> Callable[[Group], bool]:
    """Lists groups in one of `states` and of one of `types`; none given: any. Case is ignored."""
    wanted_types = {kind.lower() for kind in types}
    if wanted_types and CLASSIC not in wanted_types:
        return lambda _: False
    wanted_states = {state.lower() for state in states}
    return lambda group: not wanted_states or group.phase.value.lower() in wanted_states
