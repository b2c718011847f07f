"""Rows as they come in: what was read, or made, before what is known takes nothing back."""

from dataclasses import replace

from logstore.epoch.catalog import SLICE_ROWS, Catalog
from logstore.formats.partition_row import PartitionRow
from logstore.formats.topic_partition import TopicPartition
from logstore.formats.topic_row import TopicRow, TopicStatus
from logstore.protocol.rows.view import RegistryUpdate
from logstore.slices import finish

ID, OTHER_ID = b"i" * 16, b"o" * 16
TOPIC = TopicRow(ID, TopicStatus.LIVE, 1, {"retention.ms": "1"}, 1, 2)


def catalog_with(topic: TopicRow) -> Catalog:
    catalog = Catalog(1, 7)
    catalog.apply(update(topic))
    return catalog


def update(topic: TopicRow) -> RegistryUpdate:
    rows = {
        TopicPartition(topic.topic_id, number): PartitionRow.new(2, 5)
        for number in range(topic.partitions)
    }
    return RegistryUpdate(1, {"orders": topic}, rows)


def test_a_topic_is_what_the_newest_version_of_its_row_says() -> None:
    catalog = catalog_with(TOPIC)
    newer = replace(TOPIC, partitions=2, configs={"retention.ms": "2"}, version=4)
    found = catalog.apply(update(newer))
    assert [topic.configs for topic in found.changed] == [newer.configs]

    late = catalog.apply(update(replace(TOPIC, configs={"retention.ms": "3"}, version=3)))

    assert not late.changed
    assert catalog.topics["orders"].configs == newer.configs
    assert catalog.topics["orders"].partition_count == 2


def test_a_row_that_was_read_before_log_start_was_raised_takes_nothing_back() -> None:
    catalog = catalog_with(TOPIC)
    raised = replace(PartitionRow.new(2, 5), log_start=9)
    catalog.apply(RegistryUpdate(2, {}, {TopicPartition(ID, 0): raised}))
    catalog.apply(update(TOPIC))

    assert catalog.topics["orders"].rows == [raised]


def test_a_topic_that_grows_stays_while_some_of_its_new_rows_are_not_known() -> None:
    """Two admins at once: who let it grow by one learns that it has three partitions by now."""
    catalog = catalog_with(TOPIC)
    topic = catalog.topics["orders"]
    grown = replace(TOPIC, partitions=3, configs={"retention.ms": "2"}, version=3)
    some = {TopicPartition(ID, 1): PartitionRow.new(1, 7)}

    early = catalog.apply(RegistryUpdate(0, {"orders": grown}, some))

    assert catalog.topics["orders"] is topic
    assert not topic.is_deleted
    assert (topic.partition_count, topic.configs) == (1, grown.configs)
    assert not early.claims
    whole = catalog.apply(RegistryUpdate(2, {}, {TopicPartition(ID, 2): PartitionRow.new(2, 5)}))
    assert topic.partition_count == 3
    assert [claim.partition for claim in whole.claims] == [1]


def test_another_life_of_a_topic_counts_its_versions_from_zero() -> None:
    catalog = catalog_with(TOPIC)
    catalog.apply(update(replace(TOPIC, topic_id=OTHER_ID, version=1)))
    assert catalog.topics["orders"].topic_id == OTHER_ID


def test_a_topic_that_is_gone_comes_back_with_a_row_that_is_read_later() -> None:
    catalog = catalog_with(TOPIC)
    catalog.apply(RegistryUpdate(2, {"orders": None}, {TopicPartition(ID, 0): None}))
    assert "orders" not in catalog.topics
    catalog.apply(update(replace(TOPIC, topic_id=OTHER_ID, version=1)))
    assert catalog.topics["orders"].topic_id == OTHER_ID


def test_of_all_rows_those_that_changed_are_news() -> None:
    catalog = catalog_with(TOPIC)
    changed = replace(PartitionRow.new(2, 5), log_start=9)
    new = TopicRow(OTHER_ID, TopicStatus.LIVE, 1, {}, 1, 1)
    rows = {TopicPartition(ID, 0): changed, TopicPartition(OTHER_ID, 0): PartitionRow.new(2, 5)}
    same = RegistryUpdate(3, {"orders": TOPIC}, dict(update(TOPIC).partitions), is_everything=True)
    other = RegistryUpdate(4, {"orders": TOPIC, "new": new}, rows, is_everything=True)
    none = RegistryUpdate(5, {}, {}, is_everything=True)

    assert finish(catalog.news(same)) == RegistryUpdate(3, {}, {})
    assert finish(catalog.news(other)) == RegistryUpdate(4, {"new": new}, rows)
    gone = finish(catalog.news(none))
    assert gone == RegistryUpdate(5, {"orders": None}, {TopicPartition(ID, 0): None})
    assert [topic.is_deleted for topic in catalog.apply(gone).changed] == [True]


def test_many_rows_are_compared_in_slices() -> None:
    many = update(replace(TOPIC, partitions=3 * SLICE_ROWS))

    assert sum(1 for _ in Catalog(1, 7).news(many)) == 2


def test_the_late_answer_to_a_creation_takes_back_no_change_of_its_partitions() -> None:
    catalog = catalog_with(TOPIC)
    moving = replace(PartitionRow.new(2, 5), replicas=(2, 3), target=3)
    catalog.apply(RegistryUpdate(2, {}, {TopicPartition(ID, 0): moving}))

    late = catalog.apply(replace(update(TOPIC), version=0, is_written=True))

    assert not late.changed
    assert catalog.topics["orders"].rows == [moving]


def test_a_change_made_here_is_counted_whatever_the_version_of_the_feed() -> None:
    """Who reads the rows asks by the count whether they are out of date."""
    catalog = catalog_with(TOPIC)
    catalog.apply(replace(update(TOPIC), version=0))
    assert catalog.edit_count == 0
    catalog.apply(replace(update(TOPIC), version=0, is_written=True))
    assert catalog.edit_count == 1
