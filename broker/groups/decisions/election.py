"""The leader of a generation and its protocol: chosen when all have joined. Pure.

The protocol is the one most members like best among those that all of them know, each voting for
the first such in its own list. Kafka leaves a tie open; here the leader's list decides it.
"""

from collections import Counter
from collections.abc import Iterable

from broker.groups.decisions.group import Group, Member, Phase, Protocols


def supports(group: Group, protocol_type: str, protocols: Protocols) -> bool:
    """Whether a member with these protocols may join: all members must know one of them."""
    if group.phase is Phase.EMPTY or not group.members:
        return bool(protocol_type and protocols)
    names = {name for name, _ in protocols}
    return protocol_type == group.type_now and bool(names & common(group.members.values()))


def common(members: Iterable[Member]) -> set[str]:
    names: set[str] | None = None
    for member in members:
        own = {name for name, _ in member.protocols}
        names = own if names is None else names & own
    return names or set()


def elect_leader(group: Group) -> Member | None:
    """The leader so far if it has joined, else the first member that has; None: none has."""
    old = group.members.get(group.leader or "")
    if old is not None and old.joining is not None:
        return old
    return next((m for m in group.members.values() if m.joining is not None), None)


def elect_protocol(members: Iterable[Member], leader: Member) -> str:
    members = list(members)
    known = common(members)
    assert known, "a member was let in that has no protocol in common with the others"
    votes = Counter(_vote(member, known) for member in members)
    most = max(votes.values())
    return next(n for n in (*_names(leader), *sorted(known)) if votes[n] == most)


def _vote(member: Member, known: set[str]) -> str:
    return next(name for name in _names(member) if name in known)


def _names(member: Member) -> list[str]:
    return [name for name, _ in member.protocols]
