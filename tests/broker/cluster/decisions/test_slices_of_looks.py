"""A look at many partitions is in slices: between two breaths it goes through few of them."""

from broker.cluster.decisions.cleaning import Inventory, clean
from broker.cluster.decisions.controller_state import FirstSeen
from broker.cluster.decisions.decide import decide
from broker.cluster.decisions.view import SLICE_PARTITIONS
from logstore.formats.partition_row import PartitionRow
from logstore.formats.topic_partition import TopicPartition
from tests.broker.cluster.cluster_model import RULES, Model, broker_row, led_by

SLICES = 4
MANY = SLICES * SLICE_PARTITIONS


def test_what_to_do_next_is_decided_in_slices() -> None:
    brokers = {broker: broker_row(10 + broker) for broker in (1, 2)}
    rows = [led_by(1 + number % 2, 11 + number % 2) for number in range(MANY)]
    model = Model(brokers, rows)
    assert model.decide() == []
    model.now_s = 60.0

    # Replicas, partitions that may move, those led by another, those of each preferred leader.
    assert sum(1 for _ in decide(model.view(), model.memory, RULES)) == 4 * SLICES


def test_what_is_half_done_is_looked_for_in_slices() -> None:
    topic_id = b"1" * 16
    rows = {TopicPartition(topic_id, number): PartitionRow.new(1, 10) for number in range(MANY)}

    assert sum(1 for _ in clean(Inventory({}, rows), FirstSeen(), 0.0)) == 2 * SLICES
