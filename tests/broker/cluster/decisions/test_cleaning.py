"""Cleaning: what was promised to no client goes, once watched for long enough; nothing else."""

from broker.cluster.decisions.cleaning import (
    DELETION_GRACE_S,
    LACKING_GRACE_S,
    ORPHAN_GRACE_S,
    Inventory,
    clean,
)
from broker.cluster.decisions.controller_state import FirstSeen
from broker.cluster.decisions.view import Action, DeleteTopic, RemoveOrphan
from logstore.formats.partition_row import PartitionRow
from logstore.formats.topic_partition import TopicPartition
from logstore.formats.topic_row import TopicRow, TopicStatus
from logstore.slices import finish

ID, OTHER = b"1" * 16, b"2" * 16
ROW = PartitionRow.new(1, 10)
FIRST, SECOND = TopicPartition(ID, 0), TopicPartition(ID, 1)
STRAY = TopicPartition(OTHER, 0)


def topic(topic_id: bytes = ID, status: TopicStatus = TopicStatus.LIVE) -> TopicRow:
    return TopicRow(topic_id, status, 2, {})


def test_a_whole_topic_is_left_alone() -> None:
    inventory = Inventory({"orders": topic()}, {FIRST: ROW, SECOND: ROW})
    first_seen = FirstSeen()

    assert [cleaned(inventory, first_seen, 60.0 * look) for look in range(60)] == [[]] * 60


def test_a_deletion_that_died_is_finished() -> None:
    inventory = Inventory({"orders": topic(status=TopicStatus.DELETING)}, {SECOND: ROW})
    first_seen = FirstSeen()

    assert cleaned(inventory, first_seen, 0.0) == []
    assert cleaned(inventory, first_seen, DELETION_GRACE_S) == [
        DeleteTopic("orders", ID, "its deletion was left half done")
    ]


def test_a_topic_without_any_partition_is_dropped() -> None:
    inventory, first_seen = Inventory({"orders": topic()}, {}), FirstSeen()

    assert cleaned(inventory, first_seen, 0.0) == []
    assert cleaned(inventory, first_seen, LACKING_GRACE_S) == [
        DeleteTopic("orders", ID, "it has no partition", lacks_rows=True)
    ]


def test_a_topic_that_lacks_only_some_partitions_is_left_to_a_person() -> None:
    inventory, first_seen = Inventory({"orders": topic()}, {SECOND: ROW}), FirstSeen()

    assert [cleaned(inventory, first_seen, 60.0 * look) for look in range(60)] == [[]] * 60


def test_partitions_whose_topic_never_came_are_removed() -> None:
    inventory = Inventory(
        {"orders": topic()},
        {FIRST: ROW, SECOND: ROW, STRAY: ROW},
    )
    first_seen = FirstSeen()

    assert cleaned(inventory, first_seen, 0.0) == []
    assert cleaned(inventory, first_seen, ORPHAN_GRACE_S - 1) == []
    assert cleaned(inventory, first_seen, ORPHAN_GRACE_S) == [RemoveOrphan(OTHER, {0: ROW})]


def test_a_topic_that_came_after_all_keeps_its_partitions() -> None:
    orphan, first_seen = (
        Inventory({}, {FIRST: ROW, SECOND: ROW}),
        FirstSeen(),
    )
    cleaned(orphan, first_seen, 0.0)
    whole = Inventory({"orders": topic()}, orphan.rows)

    assert cleaned(whole, first_seen, ORPHAN_GRACE_S) == []
    assert cleaned(orphan, first_seen, ORPHAN_GRACE_S + 60) == []


def cleaned(inventory: Inventory, first_seen: FirstSeen, now_s: float) -> list[Action]:
    return finish(clean(inventory, first_seen, now_s))
