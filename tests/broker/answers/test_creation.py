"""Partitions that a broker places itself go to another broker if the chosen one died."""

import pytest

from broker.answers.creation import PLACEMENTS_MAX, make_placed
from broker.answers.error_codes import code_of
from broker.cluster.new_partitions import Assignments
from logstore.epoch.topic_changes import NotAlive
from logstore.errors import Invalid, Retryable
from logstore.testing.virtual_loop import run
from logstore.wire.errors import ErrorCode


class Cluster:
    """Broker 1 takes partitions; those of `dead` are placed on until that is noticed."""

    def __init__(self, dead: list[int]) -> None:
        self.dead = dead
        self.tried: list[int] = []

    async def make(self, assignments: Assignments) -> str:
        (leader,) = assignments[0]
        self.tried.append(leader)
        if leader != 1:
            raise NotAlive(f"broker is not alive, it cannot lead: broker={leader}")
        return "made"

    def place(self) -> Assignments:
        return [[self.dead.pop() if self.dead else 1]]


def test_partitions_are_placed_again_where_the_chosen_broker_died() -> None:
    cluster = Cluster([3])
    assert run(make_placed(cluster.make, [[2]], cluster.place)) == "made"
    assert cluster.tried == [2, 3, 1]


def test_a_client_that_chose_no_broker_has_to_try_again() -> None:
    cluster = Cluster([7] * PLACEMENTS_MAX)
    with pytest.raises(Retryable, match="try again") as raised:
        run(make_placed(cluster.make, [[2]], cluster.place))
    assert code_of(raised.value) == ErrorCode.KAFKA_STORAGE_ERROR
    assert len(cluster.tried) == PLACEMENTS_MAX


def test_a_client_that_chose_a_dead_broker_is_answered_so() -> None:
    cluster = Cluster([])
    with pytest.raises(Invalid) as raised:
        run(make_placed(cluster.make, [[2]], None))
    assert code_of(raised.value) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert cluster.tried == [2]
