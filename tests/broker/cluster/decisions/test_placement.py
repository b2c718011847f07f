"""Placement: leaders and replicas spread evenly, over racks, with few brokers followed by each."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.cluster.decisions.placement import (
    BrokerLoad,
    Successors,
    alternate_racks,
    next_on_ring,
    place,
)
from logstore.formats.partition_row import PartitionRow


@st.composite
def equal_racks(draw: st.DrawFn) -> dict[int, str]:
    """Brokers with arbitrary ids, equally many in each rack."""
    racks, size = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    ids = draw(st.permutations(range(100, 100 + racks * size)))
    return {broker: f"rack {number % racks}" for number, broker in enumerate(ids)}


def spread(counts: Counter[int], brokers: dict[int, str]) -> int:
    found = [counts[broker] for broker in brokers]
    return max(found) - min(found)


@given(equal_racks(), st.integers(0, 60), st.integers(1, 6), st.randoms(use_true_random=False))
def test_brokers_lead_and_hold_equally_many_to_one(
    brokers: dict[int, str], count: int, replicas: int, rng: object
) -> None:
    placed = place(count, replicas, brokers, BrokerLoad(Counter({min(brokers): 7})))

    assert len(placed) == count
    assert all(len(set(one)) == len(one) == min(replicas, len(brokers)) for one in placed)
    assert spread(Counter(one[0] for one in placed), brokers) <= 1
    assert spread(Counter(broker for one in placed for broker in one), brokers) <= 1


@given(
    st.dictionaries(st.integers(0, 50), st.sampled_from(["", "a", "b", "c"]), min_size=1),
    st.integers(1, 30),
    st.integers(1, 5),
)
def test_replicas_are_in_as_many_racks_as_can_be_and_leaders_even_whatever_the_racks(
    brokers: dict[int, str], count: int, replicas: int
) -> None:
    placed = place(count, replicas, brokers)
    racks = {broker: rack or str(broker) for broker, rack in brokers.items()}

    most = min(replicas, len(set(racks.values())))
    assert all(len({racks[broker] for broker in one}) >= min(most, len(one)) for one in placed)
    assert spread(Counter(one[0] for one in placed), brokers) <= 1


def test_a_broker_follows_few_others_however_many_topics_there_are() -> None:
    brokers = {broker: f"rack {broker % 3}" for broker in range(12)}
    load, followed = BrokerLoad(), set()
    for topic in range(50):
        for replicas in place(1 + topic % 17, 3, brokers, load):
            load.preferred[replicas[0]] += 1
            load.replicas.update(replicas)
            followed |= {(follower, replicas[0]) for follower in replicas[1:]}

    assert max(Counter(follower for follower, _ in followed).values()) == 2
    assert spread(load.preferred, brokers) <= 2


def test_topics_of_one_partition_go_to_the_broker_that_leads_fewest() -> None:
    brokers, load = {1: "", 2: "", 3: ""}, BrokerLoad()
    for _ in range(9):
        load.preferred[place(1, 1, brokers, load)[0][0]] += 1

    assert load.preferred == {1: 3, 2: 3, 3: 3}


def test_no_broker_to_place_on_is_the_callers_mistake() -> None:
    with pytest.raises(ValueError, match="no broker"):
        place(1, 1, {})


def test_neighbours_on_the_ring_are_in_different_racks() -> None:
    assert alternate_racks({1: "a", 2: "a", 3: "b", 4: "b"}) == [1, 3, 2, 4]
    assert next_on_ring({1: "a", 2: "a", 3: "b", 4: "b"}, 1, {1}) == [3, 2, 4]
    assert next_on_ring({1: "a", 2: "a", 3: "b", 4: "b"}, 2, {2, 3}) == [4, 1]
    assert next_on_ring({1: "a", 2: "b"}, 9, {9}) == [1, 2]


def test_load_counts_what_partitions_are_about_to_become() -> None:
    rows = [PartitionRow.new(1, 10, (1, 2)), PartitionRow.new(1, 10, (1,))]
    load = BrokerLoad.of(rows)

    assert load.preferred == {1: 2}
    assert load.replicas == {1: 2, 2: 1}


def test_heirs_are_live_replicas_and_the_rest_is_spread() -> None:
    successors = Successors({2, 3, 4}, {2: 1, 3: 0, 4: 5})

    assert successors.choose(PartitionRow.new(1, 10, (1, 4))) == 4
    alone = PartitionRow.new(1, 10, (1,))
    assert [successors.choose(alone) for _ in range(4)] == [3, 2, 3, 2]
    assert Successors((), {}).choose(alone) is None


@given(st.sets(st.integers(1, 9), min_size=1), st.integers(0, 60))
def test_partitions_without_a_live_replica_are_spread_evenly_over_survivors(
    survivors: set[int], count: int
) -> None:
    successors = Successors(survivors, {})
    chosen = Counter(successors.choose(PartitionRow.new(99, 1)) for _ in range(count))

    assert set(chosen) <= survivors
    counts = [chosen[broker] for broker in survivors]
    assert max(counts) - min(counts) <= 1
