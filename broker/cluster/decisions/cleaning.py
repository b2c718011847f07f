"""Half-done creations and deletions, and the actions that clear them away. Pure.

Topic rows are the commit points: partitions whose topic never came, and topics whose partitions
are all gone, are of calls that failed: none was answered as a success. A topic that lacks only some
of its rows is left to a person. Rows look the same where others were lost: so before any of
these go, chains are asked whether the topic was ever led (`logstore.protocol.rules.disposal`).
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from broker.cluster.decisions.controller_state import FirstSeen
from broker.cluster.decisions.view import SLICE_PARTITIONS, Action, DeleteTopic, RemoveOrphan
from logstore.formats.partition_row import PartitionRow
from logstore.formats.topic_partition import TopicPartition
from logstore.formats.topic_row import TopicRow, TopicStatus
from logstore.slices import Slices, parts_of

DELETION_GRACE_S = 30.0
LACKING_GRACE_S = 120.0
ORPHAN_GRACE_S = 600.0


@dataclass(frozen=True, slots=True)
class Inventory:
    """All topics but the deleted, and all partition rows, read one after the other."""

    topics: Mapping[str, TopicRow]
    rows: Mapping[TopicPartition, PartitionRow]


def clean(inventory: Inventory, first_seen: FirstSeen, now_s: float) -> Slices[list[Action]]:
    there = yield from _topics_with_rows(inventory)
    actions: list[Action] = []
    for name, topic in inventory.topics.items():
        if topic.status is TopicStatus.DELETING:
            fact, grace_s, reason = "deleting", DELETION_GRACE_S, "its deletion was left half done"
        elif topic.topic_id not in there:
            fact, grace_s, reason = "lacking", LACKING_GRACE_S, "it has no partition"
        else:
            continue
        if first_seen.age_s((fact, topic.topic_id), now_s) >= grace_s:
            actions.append(DeleteTopic(name, topic.topic_id, reason, lacks_rows=fact == "lacking"))
    known = {topic.topic_id for topic in inventory.topics.values()}
    orphans: defaultdict[bytes, dict[int, PartitionRow]] = defaultdict(dict)
    for some in parts_of(tuple(inventory.rows.items()), SLICE_PARTITIONS):
        for (topic_id, partition), row in some:
            if topic_id in known:
                continue
            if first_seen.age_s(("orphan", topic_id, partition), now_s) >= ORPHAN_GRACE_S:
                orphans[topic_id][partition] = row
        yield
    actions += [RemoveOrphan(topic_id, rows) for topic_id, rows in orphans.items()]
    first_seen.end_pass()
    return actions


def _topics_with_rows(inventory: Inventory) -> Slices[set[bytes]]:
    """Ids of topics that have a partition row."""
    there: set[bytes] = set()
    for keys in parts_of(tuple(inventory.rows), SLICE_PARTITIONS):
        there.update(topic_id for topic_id, _ in keys)
        yield
    return there
