"""Metrics of several brokers: together they tell every group's lag, though none asks another."""

import pytest

from tests.broker.group_calls import SETTINGS, commit, prepare_cluster
from tests.broker.http.pages import Labels, Scraped, pages_of, scrape
from tests.broker.running import Running, batch_of, produce
from tests.broker.running_cluster import running_cluster

PARTITIONS = 4


@pytest.mark.slow
def test_leaders_and_coordinators_together_tell_the_lag_of_every_partition() -> None:
    with running_cluster(2, SETTINGS) as brokers:
        prepare_cluster(brokers)
        assignments = [(1 + number % 2,) for number in range(PARTITIONS)]
        made = brokers[1].log.create_topic("t", PARTITIONS, {}, assignments=assignments)
        brokers[1].wait_for(made)
        for one in brokers.values():
            one.wait_until(lambda one=one: "t" in one.log.topics)  # type: ignore[misc]
        for number in range(PARTITIONS):
            write(brokers[1 + number % 2], number)
            assert 0 in [commit_at(one, number) for one in brokers.values()]
        pages = []
        for one in brokers.values():
            with pages_of(one) as door:
                pages.append(scrape(door.port))

    ends = gathered(pages, "logstore_partition_high_watermark")
    committed = gathered(pages, "logstore_group_committed_offset")
    lags = gathered(pages, "logstore_group_lag_records")
    for number in range(PARTITIONS):
        place = {("topic", "t"), ("partition", str(number))}
        labels = frozenset({("group", "g"), *place})
        assert ends[frozenset(place)] - committed[labels] == 1
        assert lags.get(labels, 1) == 1
    assert sum(page.value("logstore_group_lag_unknown") for page in pages) == PARTITIONS / 2
    assert {page.value("logstore_brokers_alive") for page in pages} == {2}


def write(broker: Running, partition: int) -> None:
    broker.wait_until(lambda: partition in broker.log.topics["t"].leaders)
    broker.wait_until(lambda: broker.log.topics["t"].leaders[partition].has_begun)
    with broker.connect() as client:
        produce(client, "t", batch_of(b"a", b"b"), partition=partition)


def commit_at(broker: Running, partition: int) -> int:
    with broker.connect() as client:
        return commit(client, "g", 1, "t", partition=partition)


def gathered(pages: list[Scraped], name: str) -> dict[Labels, float]:
    """A metric of all brokers; each labels are one broker's to tell."""
    found: dict[Labels, float] = {}
    for page in pages:
        assert not found.keys() & page.samples.get(name, {}).keys()
        found.update(page.samples.get(name, {}))
    return found
