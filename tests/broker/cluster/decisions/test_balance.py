"""Balance, replicas and moves that got stuck: few moves at a time, and only where they help."""

from collections import Counter
from dataclasses import replace

from broker.cluster.decisions.balance import MOVES_MAX
from broker.cluster.decisions.decide import decide
from broker.cluster.decisions.view import Reassign, Remind
from logstore.formats.broker_row import BrokerStatus
from logstore.formats.partition_row import NO_BROKER, PartitionRow
from logstore.slices import finish
from tests.broker.cluster.cluster_model import RULES, Model, broker_row, led_by


def cluster(count: int, rows: list[PartitionRow], asked: int = 1) -> Model:
    return Model({n: broker_row(10 + n) for n in range(1, count + 1)}, rows, asked=asked)


def leaders(model: Model) -> Counter[int]:
    return Counter(row.broker for row in model.rows)


def test_a_broker_that_joined_is_given_its_share_a_few_at_a_time() -> None:
    model = cluster(1, [led_by(1, 11) for _ in range(90)])
    model.run(20)
    model.brokers |= {2: broker_row(12), 3: broker_row(13)}
    steps = [len(model.look(1.0)) for _ in range(60)]

    assert leaders(model) == {1: 30, 2: 30, 3: 30}
    assert all(row.replicas == (row.broker,) for row in model.rows)
    assert max(steps) == MOVES_MAX
    assert sum(steps) == 60


def test_the_topic_that_is_spread_least_evenly_moves_first() -> None:
    model = cluster(2, [led_by(1, 11) for _ in range(9)])
    model.run(20)
    topics = {1: Counter[int](), 2: Counter[int]()}
    for number, row in enumerate(model.rows):
        topics[row.broker][number % 3] += 1

    assert max(max(found.values()) for found in topics.values()) == 2


def test_a_small_imbalance_is_left_alone() -> None:
    rows = [led_by(1, 11)] * 42 + [led_by(2, 12)] * 39
    model = cluster(2, rows)
    model.run(60)

    assert leaders(model) == {1: 42, 2: 39}


def test_a_partition_goes_back_to_its_preferred_leader_once_that_is_settled() -> None:
    model = cluster(2, [led_by(1, 11, (2, 1)), led_by(1, 11, (1, 2))], asked=2)
    for _ in range(19):
        assert model.look(0.5) == []
    model.run(10)

    assert leaders(model) == {1: 1, 2: 1}


def test_nothing_moves_for_balance_where_that_is_switched_off() -> None:
    model = cluster(2, [led_by(1, 11, (2, 1))] * 5, asked=2)
    rules = replace(RULES, balance=replace(RULES.balance, is_enabled=False))
    for _ in range(40):
        model.now_s += 5
        assert finish(decide(model.view(), model.memory, rules)) == []


def test_nothing_is_levelled_while_partitions_are_to_be_taken_over() -> None:
    model = cluster(3, [led_by(1, 11) for _ in range(30)])
    model.run(7, later_s=1.0)
    model.rows.append(led_by(3, 13))
    model.dead = {3}
    model.now_s += 60

    assert [type(action).__name__ for action in model.decide()] == ["TakeOver"]


def test_replicas_are_filled_up_as_brokers_join() -> None:
    model = cluster(1, [led_by(1, 11) for _ in range(6)], asked=3)
    model.run(20)
    assert {row.replicas for row in model.rows} == {(1,)}
    model.brokers |= {2: broker_row(12), 3: broker_row(13)}
    model.run(40)

    assert all(sorted(row.replicas) == [1, 2, 3] for row in model.rows)
    assert leaders(model) == {1: 2, 2: 2, 3: 2}


def test_a_dead_broker_keeps_its_replicas_until_it_is_gone() -> None:
    rows = [led_by(1, 11, (1, 2)), led_by(3, 13, (3, 2))]
    model = cluster(3, rows, asked=2)
    model.dead = {2}
    model.run(100)
    assert model.rows == rows
    model.run(40)

    assert [row.replicas for row in model.rows] == [(1, 3), (3, 1)]


def test_a_restart_gives_a_broker_back_what_it_led() -> None:
    model = cluster(3, [led_by(n, 10 + n) for n in (1, 2, 3)] * 4)
    model.run(10)
    model.dead = {3}
    model.run(10)
    assert leaders(model)[3] == 0
    model.dead = set()
    model.brokers[3] = broker_row(23)
    model.run(20)

    assert leaders(model) == {1: 4, 2: 4, 3: 4}


def one_action(model: Model) -> Reassign:
    actions = model.decide()
    assert len(actions) == 1
    assert isinstance(actions[0], Reassign)
    return actions[0]


def test_a_reassignment_without_a_target_goes_on() -> None:
    model = cluster(3, [led_by(1, 11, (1,), reassigning=(3, 2))])
    assert one_action(model).wanted.target == 3
    model.look()

    assert (model.rows[0].broker, model.rows[0].replicas) == (3, (3, 2))


def test_a_reassignment_that_keeps_the_leader_needs_no_move() -> None:
    model = cluster(3, [led_by(1, 11, (1,), reassigning=(3, 1))])
    wanted = one_action(model).wanted

    assert (wanted.replicas, wanted.reassigning, wanted.target) == ((3, 1), (), NO_BROKER)


def test_a_target_that_is_not_fit_to_lead_is_replaced_or_forgotten() -> None:
    stuck = led_by(1, 11, (1,), reassigning=(3, 2), target=3)
    model = cluster(3, [stuck, led_by(1, 11, (1,), target=3)])
    model.brokers[3] = broker_row(13, status=BrokerStatus.DRAINING)
    assert model.decide() == []
    model.now_s += 3
    first, second = model.decide()

    assert isinstance(first, Reassign)
    assert isinstance(second, Reassign)
    assert first.wanted == replace(stuck, target=2)
    assert second.wanted.target == NO_BROKER


def test_a_partition_led_by_its_target_moves_no_more() -> None:
    model = cluster(2, [led_by(2, 12, (2,), target=2)])

    assert one_action(model).wanted == led_by(2, 12, (2,))


def test_a_leader_that_did_not_hear_of_a_move_is_reminded() -> None:
    model = cluster(2, [led_by(1, 11, (1,), target=2)])
    assert model.decide() == []
    model.now_s += 9.5
    assert model.decide() == []
    model.now_s += 0.5

    assert model.decide() == [Remind(model.view().places.all[0])]


def test_a_move_of_a_dead_leader_is_left_to_its_takeover() -> None:
    model = cluster(3, [led_by(2, 12, (2,), reassigning=(3,), target=3)])
    model.dead = {2}
    model.look()

    assert (model.rows[0].broker, model.rows[0].replicas) == (3, (3,))


def test_a_reassignment_to_brokers_that_are_gone_is_given_up() -> None:
    model = cluster(3, [led_by(1, 11, (1,), reassigning=(2,))])
    model.dead = {2}
    model.run(119)
    assert model.rows[0].reassigning == (2,)
    model.run(5)

    assert model.rows[0] == led_by(1, 11, (1,))
