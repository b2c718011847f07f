"""The load of brokers is counted again for topics that changed alone."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from broker.cluster.decisions.placement import BrokerLoad
from broker.cluster.new_partitions import RunningLoad
from logstore.formats.partition_row import PartitionRow


def topic(number: int, leaders: Sequence[int], *, is_deleted: bool = False) -> Any:
    rows = [PartitionRow.new(broker, 1, (broker, 9)) for broker in leaders]
    return SimpleNamespace(topic_id=bytes([number]), rows=rows, is_deleted=is_deleted)


def shown(load: BrokerLoad) -> tuple[dict[int, int], dict[int, int]]:
    return dict(+load.preferred), dict(+load.replicas)


def counted(*topics: Any) -> tuple[dict[int, int], dict[int, int]]:
    return shown(BrokerLoad.of(row for one in topics for row in one.rows))


def test_the_load_follows_topics_that_come_change_and_go() -> None:
    one, two = topic(1, [1, 2]), topic(2, [2, 2, 3])
    load = RunningLoad([one, two])
    assert shown(load.now()) == counted(one, two)

    two = topic(2, [1, 1, 3, 3])
    load.changed(two)
    assert shown(load.now()) == counted(one, two)

    load.changed(topic(1, [1, 2], is_deleted=True))
    assert shown(load.now()) == counted(two)


def test_rows_of_topics_that_stay_are_counted_once() -> None:
    stays = [topic(number, [1] * 100) for number in range(50)]
    load = RunningLoad(stays)
    load.now()
    before = load.counted_rows

    for number in range(50, 60):
        load.changed(topic(number, [1]))
        load.now()
    assert load.counted_rows - before == 10
