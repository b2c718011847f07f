"""Fencing: chains without a writer are taken over, those with one are left alone."""

import pytest

from broker.cluster.decisions.view import Action, StepDown, TakeOver
from logstore.formats.broker_row import BrokerStatus
from logstore.formats.chain_row import ChainRow, ChainStatus
from tests.broker.cluster.cluster_model import Model, broker_row, led_by


def cluster(**brokers: int) -> Model:
    return Model({int(name[1:]): broker_row(epoch) for name, epoch in brokers.items()}, [])


def taken(actions: list[Action]) -> dict[int, str]:
    return {one.chain: one.reason for one in actions if isinstance(one, TakeOver)}


def test_nothing_is_done_about_a_healthy_cluster() -> None:
    model = cluster(b1=11, b2=12)
    model.rows = [led_by(1, 11), led_by(2, 12)]

    assert [model.look() for _ in range(200)] == [[]] * 200


def test_the_chains_of_dead_brokers_are_taken_over_at_once_and_together() -> None:
    model = cluster(b1=11, b2=12, b3=13)
    model.rows = [led_by(2, 12), led_by(3, 13), led_by(1, 11)]
    model.dead = {2, 3}

    assert taken(model.look()) == {12: "its broker is dead", 13: "its broker is dead"}
    assert {row.broker for row in model.rows} == {1}
    assert taken(model.look()) == {}


def test_a_dead_broker_that_leads_nothing_is_sealed_once() -> None:
    model = cluster(b1=11, b2=12)
    model.dead = {2}

    assert set(taken(model.look())) == {12}
    assert taken(model.look()) == {}


def test_the_partitions_of_a_dead_broker_are_spread_over_the_survivors() -> None:
    model = cluster(b1=11, b2=12, b3=13, b4=14)
    model.rows = [led_by(4, 14) for _ in range(9)]
    model.dead = {4}
    model.look()

    assert sorted(row.broker for row in model.rows) == [1, 1, 1, 2, 2, 2, 3, 3, 3]


def test_a_broker_that_stopped_in_good_order_is_not_waited_for() -> None:
    model = cluster(b1=11, b2=12)
    model.brokers[2] = broker_row(12, status=BrokerStatus.STOPPED)

    assert taken(model.look()) == {12: "its broker has stopped"}


def test_a_broker_that_started_again_sees_to_its_earlier_chains_for_a_while() -> None:
    model = cluster(b1=11, b2=20)
    model.rows = [led_by(2, 12)]

    assert taken(model.look()) == {}
    assert taken(model.look(5.5)) == {}
    assert taken(model.look(0.5)) == {12: "its broker has started again"}


def test_a_partition_that_names_a_sealed_chain_is_taken_over_though_its_broker_lives() -> None:
    model = cluster(b1=11, b2=12)
    model.rows = [led_by(2, 12)]
    model.chains[12] = ChainRow(broker=2, status=ChainStatus.SEALED)

    assert taken(model.look()) == {12: "it is fenced and partitions name it"}
    assert model.rows[0].broker == 1


def test_our_own_open_chain_is_never_taken_over() -> None:
    model = cluster(b1=11)
    model.rows = [led_by(1, 11)]
    model.chains[11] = ChainRow(broker=1, status=ChainStatus.FENCED)

    assert [taken(model.look(60)) for _ in range(20)] == [{}] * 20


def test_a_broker_whose_row_we_have_not_seen_yet_is_given_time() -> None:
    model = cluster(b1=11)
    model.rows = [led_by(3, 13)]

    assert taken(model.look()) == {}
    assert taken(model.look(3.0)) == {13: "its broker has no row"}


def test_a_chain_newer_than_its_brokers_row_is_of_a_start_under_way() -> None:
    model = cluster(b1=11, b2=12)
    model.dead = {2}
    model.chains = {
        12: ChainRow(broker=2, status=ChainStatus.SEALED),
        15: ChainRow(broker=2, status=ChainStatus.OPEN),
    }

    assert taken(model.look()) == {}
    assert taken(model.look(59)) == {}
    assert taken(model.look(1)) == {15: "its broker never began to serve"}


def put_ages(model: Model, *, stored_by: int = 0, **ages_ms: int) -> list[Action]:
    """A look one second later, at which brokers show these ages of their oldest puts, and
    `stored_by` that something of its own was stored since."""
    for name, age_ms in ages_ms.items():
        broker = int(name[1:])
        row = model.brokers[broker]
        end = row.committed_end + (broker == stored_by)
        model.brokers[broker] = broker_row(row.epoch, put_age_ms=age_ms, committed_end=end)
    return model.look(1.0)


@pytest.mark.parametrize("age_ms", [0, 50])
def test_a_broker_that_the_store_does_not_answer_is_fenced_while_others_are_answered(
    age_ms: int,
) -> None:
    """No put need be on its way at the moment of a heartbeat."""
    model = cluster(b1=11, b2=12, b3=13)
    for second in range(11):
        assert put_ages(model, stored_by=3, b2=1000 * second, b3=age_ms) == []
    actions = put_ages(model, stored_by=3, b2=11_000, b3=age_ms)

    reason = "the store does not answer its broker put_age_ms=11000"
    assert actions == [TakeOver(12, 2, reason, probe=True)]


@pytest.mark.parametrize("others_ms", [0, 20_000])
def test_a_store_that_does_not_answer_fences_no_broker(others_ms: int) -> None:
    model = cluster(b1=11, b2=12, b3=13)
    for second in range(60):
        waiting_ms = min(1000 * second, others_ms)
        assert put_ages(model, b1=waiting_ms, b2=1000 * second, b3=waiting_ms) == []


def test_brokers_that_the_store_does_not_answer_are_fenced_one_at_a_time() -> None:
    model = cluster(b1=11, b2=12, b3=13, b4=14)
    put_ages(model, b4=60)
    fenced = []
    for second in range(1, 25):
        actions = put_ages(model, stored_by=4, b2=20_000, b3=20_000, b4=50)
        fenced += [(second, action.broker) for action in actions if isinstance(action, TakeOver)]

    assert fenced == [(1, 3), (11, 2)]


def test_a_controller_that_the_store_does_not_answer_steps_down() -> None:
    model = cluster(b1=11, b2=12)
    put_ages(model, b1=9_000, b2=90)
    actions = put_ages(model, stored_by=2, b1=11_000, b2=90)

    assert actions == [StepDown("the store does not answer us put_age_ms=11000")]
