"""Which topics a consumer subscribes to, by the metadata it joins with. Pure.

    version int16 | topics array of string | user data … (later versions append fields)

Only groups of protocol type "consumer" have it; other kinds of group bring their own bytes. Source:
Apache Kafka, ConsumerProtocolSubscription.
"""

from broker.groups.decisions.fields import FieldReader
from broker.groups.decisions.group import Group
from logstore.errors import Corrupt

CONSUMER = "consumer"


def is_consumers(group: Group) -> bool:
    return group.type_now == CONSUMER


def subscribed_topics(group: Group) -> frozenset[str] | None:
    """Of all members together; None when that cannot be known."""
    if not is_consumers(group) or (group.members and group.protocol is None):
        return None
    topics: set[str] = set()
    try:
        for member in group.members.values():
            topics.update(topics_of(member.metadata(group.protocol)))
    except Corrupt:
        return None
    return frozenset(topics)


def topics_of(metadata: bytes) -> list[str]:
    """Raises `Corrupt`."""
    fields = FieldReader(metadata)
    if fields.int16() < 0:
        raise Corrupt("negative version of a subscription")
    return [fields.string() for _ in range(fields.count())]
