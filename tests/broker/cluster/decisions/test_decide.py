"""What is decided of any cluster: nothing for the dead, the same twice, peace in the end."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.cluster.decisions.view import Reassign, TakeOver
from logstore.formats.broker_row import BrokerStatus
from logstore.formats.chain_row import ChainRow, ChainStatus
from logstore.formats.partition_row import NO_BROKER, PartitionRow
from tests.broker.cluster.cluster_model import Model, broker_row, led_by

EARLIER = 1000
"""Epochs of earlier lives are so much lower than those of later ones."""


@st.composite
def partitions(draw: st.DrawFn, ids: list[int], chains: dict[int, int]) -> PartitionRow:
    broker = draw(st.sampled_from(ids))
    some = st.lists(st.sampled_from(ids), unique=True, max_size=3)
    replicas = draw(some) or [broker]
    return led_by(
        broker,
        chains[broker] - draw(st.sampled_from((0, 0, 0, EARLIER))),
        replicas,
        target=draw(st.sampled_from([NO_BROKER, NO_BROKER, *ids])),
        reassigning=tuple(draw(some)) if draw(st.booleans()) else (),
    )


@st.composite
def clusters(draw: st.DrawFn) -> Model:
    ids = list(range(1, draw(st.integers(2, 6))))
    statuses = {
        broker: draw(st.sampled_from([BrokerStatus.SERVING] * 4 + list(BrokerStatus)))
        for broker in ids
    }
    statuses[1] = BrokerStatus.SERVING
    racks = draw(st.lists(st.sampled_from(["a", "b"]), min_size=len(ids), max_size=len(ids)))
    brokers = {
        broker: broker_row(2 * EARLIER + broker, status=statuses[broker], rack=rack)
        for broker, rack in zip(ids, racks, strict=True)
    }
    chains = {broker: row.epoch for broker, row in brokers.items()}
    rows = draw(st.lists(partitions(ids, chains), max_size=30))
    known = {
        epoch: ChainRow(broker=broker, status=draw(st.sampled_from(ChainStatus)))
        for broker, row in brokers.items()
        for epoch in (row.epoch - EARLIER, row.epoch)
        if broker != 1 and draw(st.booleans())
    }
    dead = draw(st.sets(st.sampled_from(ids))) - {1}
    return Model(brokers, rows, dead, known, asked=draw(st.integers(1, 3)))


@given(clusters(), st.lists(st.floats(0.5, 100), max_size=6))
def test_no_broker_that_is_dead_leaving_or_fenced_is_named(
    model: Model, waits: list[float]
) -> None:
    for wait_s in waits:
        model.now_s += wait_s
        eligible = model.view().eligible
        for action in model.decide():
            if isinstance(action, Reassign):
                before, wanted = action.place.row, action.wanted
                new = {wanted.target} - {before.target, NO_BROKER}
                new |= set(wanted.replicas) - set(before.replicas) - set(before.reassigning)
                new |= set(wanted.reassigning) - set(before.replicas) - set(before.reassigning)
                assert new <= eligible
            if isinstance(action, TakeOver):
                owner = model.brokers[action.broker]
                is_current = action.chain == owner.epoch and action.broker in model.alive
                assert not (is_current and model.view().is_open(action.chain))


@given(clusters(), st.lists(st.floats(0.5, 100), max_size=6))
def test_the_same_look_leads_to_the_same_decisions(model: Model, waits: list[float]) -> None:
    for wait_s in waits:
        model.now_s += wait_s
        assert model.decide() == model.decide()


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(clusters())
def test_in_the_end_leadership_is_balanced_and_there_is_nothing_left_to_do(model: Model) -> None:
    model.run(90, later_s=11.0)
    for _ in range(10):
        assert model.look(5.0) == []

    eligible = model.view().eligible
    heads, astray = Counter[int](), Counter[int]()
    for row in model.rows:
        assert row.broker in model.alive
        assert row.target == NO_BROKER
        assert model.view().is_open(row.chain) or row.broker == 1
        heads[row.replicas[0]] += 1
        astray[row.replicas[0]] += row.broker != row.replicas[0]
        assert len(row.replicas) >= min(model.asked, len(eligible))
        assert len(set(row.replicas)) == len(row.replicas)
        assert eligible & set(row.replicas)
    for broker in eligible:
        assert astray[broker] * 100 <= heads[broker] * 10
    most = max(heads[broker] for broker in eligible)
    least = min(heads[broker] for broker in eligible)
    assert most - least <= 1 or (most - least) * 10 <= most


def test_a_broker_that_cannot_read_the_finalized_level_is_given_no_partition() -> None:
    brokers = {1: broker_row(11, level_max=2), 2: broker_row(12), 3: broker_row(13, level_max=2)}
    view = Model(brokers, [led_by(1, 11)]).view()
    assert view.eligible == {1, 2, 3}
    assert replace(view, format_level=2).eligible == {1, 3}
