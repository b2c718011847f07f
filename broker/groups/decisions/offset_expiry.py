"""Which committed offsets are too old, and which groups are gone with them (KIP-211). Pure.

    no members           all, counted from when the last member left
    never had members    all, each counted from its commit
    members              those of topics without a subscription any more, from their commit

An offset with an expiry of its own, as old clients ask for, goes by that instead of the time.
"""

from broker.groups.decisions.formats import NEVER, CommittedOffset, GroupKey, OffsetKey
from broker.groups.decisions.group import Group, Phase
from broker.groups.decisions.outcome import Change
from broker.groups.decisions.subscription import subscribed_topics


def expired(group: Group, retention_ms: int, now_ms: int) -> list[Change]:
    if group.phase is Phase.EMPTY:
        since_ms = group.state_ms if group.protocol_type else NEVER
        spared = frozenset[str]()
    elif group.phase is Phase.STABLE:
        topics = subscribed_topics(group)
        if topics is None:
            return []
        since_ms, spared = NEVER, topics
    else:
        return []
    changes: list[Change] = [
        (OffsetKey(group.group_id, topic, partition), None)
        for (topic, partition), offset in group.offsets.items()
        if topic not in spared and _is_over(offset, since_ms, retention_ms, now_ms)
    ]
    nothing_left = len(changes) == len(group.offsets)
    if nothing_left and group.phase is Phase.EMPTY and group.recorded and not group.pending:
        changes.append((GroupKey(group.group_id), None))
    return changes


def _is_over(offset: CommittedOffset, since_ms: int, retention_ms: int, now_ms: int) -> bool:
    if offset.expire_ms != NEVER:
        return now_ms >= offset.expire_ms
    from_ms = offset.commit_ms if since_ms == NEVER else since_ms
    return now_ms - from_ms >= retention_ms
