"""Committed offsets of deleted topics: which topics to ask about, and which offsets go. Pure.

An offset names its topic by name and id. A topic of another id, or none, bears the name now: then
the offset's topic may be deleted, or only unknown here, and the topic's records decide. An offset
without an id (an old client said how long to keep it) goes if it was committed before its topic was
seen to be deleted.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from broker.groups.decisions.formats import OffsetKey
from broker.groups.decisions.group import Group
from broker.groups.decisions.offsets import Place
from broker.groups.decisions.outcome import Change
from logstore.wire.primitives import ZERO_UUID


@dataclass(frozen=True, slots=True)
class Deletions:
    """Topics that are deleted for certain: ids, and when each name was last seen to be deleted."""

    topic_ids: Collection[bytes]
    seen_ms: Mapping[str, int]


IdOf = Callable[[str], bytes | None]
"""The id of the topic that bears a name now; None where no topic is known by it."""


def suspects(group: Group, places: Collection[Place], id_of: IdOf) -> set[bytes]:
    """Returns the ids of topics with offsets in `places` that do not bear their name now."""
    suspected: set[bytes] = set()
    for place in places:
        offset = group.offsets.get(place)
        if offset is None or offset.topic_id == ZERO_UUID:
            continue
        if id_of(place[0]) != offset.topic_id:
            suspected.add(offset.topic_id)
    return suspected


def voided(group: Group, places: Collection[Place], deletions: Deletions) -> list[Change]:
    """Returns the deletions of those offsets in `places` whose topics are deleted."""
    changes: list[Change] = []
    for place in places:
        offset = group.offsets.get(place)
        if offset is None:
            continue
        if offset.topic_id == ZERO_UUID:
            seen_ms = deletions.seen_ms.get(place[0])
            is_void = seen_ms is not None and offset.commit_ms <= seen_ms
        else:
            is_void = offset.topic_id in deletions.topic_ids
        if is_void:
            changes.append((OffsetKey(group.group_id, *place), None))
    return changes
