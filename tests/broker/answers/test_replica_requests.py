"""Reassignments and elections: what each asks of a partition's row, and when it is refused."""

from dataclasses import replace

import pytest

from broker.answers.decisions.refuse import Refuse
from broker.answers.replica_requests import Election, cancel, elect, reassign
from logstore.formats.partition_row import NO_BROKER, PartitionRow
from logstore.protocol.topics.replica_changes import Placement
from logstore.wire.errors import ErrorCode

ROW = PartitionRow.new(1, 7, (1, 2))
KNOWN = {1, 2, 3, 4}


def refusal(call: object) -> ErrorCode:
    assert callable(call)
    with pytest.raises(Refuse) as refused:
        call()
    return refused.value.code


def test_replicas_change_at_once_where_the_leader_stays() -> None:
    assert reassign(ROW, 0, [3, 1], known=KNOWN, live=KNOWN) == Placement((3, 1), (), NO_BROKER)


def test_another_leader_takes_the_replicas_over_with_the_partition() -> None:
    wanted = reassign(ROW, 0, [3, 4], known=KNOWN, live={1, 2, 4})

    assert wanted == Placement((1, 2), (3, 4), 4)


def test_a_new_reassignment_replaces_the_one_before() -> None:
    moving = replace(ROW, reassigning=(3, 4), target=3)

    assert reassign(moving, 0, [2, 4], known=KNOWN, live=KNOWN) == Placement((1, 2), (2, 4), 2)
    assert reassign(moving, 0, [1, 2], known=KNOWN, live=KNOWN) == Placement((1, 2), (), NO_BROKER)


def test_an_election_under_way_goes_on_where_it_can() -> None:
    moving = replace(ROW, target=2)

    assert reassign(moving, 0, [1, 2, 3], known=KNOWN, live=KNOWN).target == 2
    assert reassign(moving, 0, [1, 3], known=KNOWN, live=KNOWN).target == NO_BROKER


@pytest.mark.parametrize("wanted", [[], [1, 1], [1, 5], [-1], [3, 4]])
def test_replicas_must_be_known_brokers_of_which_one_can_lead(wanted: list[int]) -> None:
    code = refusal(lambda: reassign(ROW, 0, wanted, known=KNOWN, live={1, 2}))

    assert code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_the_number_of_replicas_changes_only_if_the_client_allows_it() -> None:
    assert reassign(ROW, 0, [1, 2, 3], known=KNOWN, live=KNOWN).replicas == (1, 2, 3)
    code = refusal(lambda: reassign(ROW, 0, [1], known=KNOWN, live=KNOWN, may_resize=False))
    assert code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_what_is_not_being_reassigned_cannot_be_cancelled() -> None:
    assert cancel(replace(ROW, reassigning=(3,), target=3)) == Placement((1, 2), (), NO_BROKER)
    assert refusal(lambda: cancel(ROW)) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_the_preferred_leader_is_elected_if_it_lives_and_does_not_lead() -> None:
    row = ROW.taken_by(broker=2, chain=8, start=0)

    assert elect(row, Election.PREFERRED, {1, 2}) == Placement((1, 2), (), 1)
    assert refusal(lambda: elect(ROW, Election.PREFERRED, {1, 2})) == ErrorCode.ELECTION_NOT_NEEDED
    gone = refusal(lambda: elect(row, Election.PREFERRED, {2}))
    assert gone == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE


def test_an_unclean_election_is_for_partitions_without_a_leader() -> None:
    assert elect(ROW, Election.UNCLEAN, {2}) == Placement((1, 2), (), 2)
    assert refusal(lambda: elect(ROW, Election.UNCLEAN, {1})) == ErrorCode.ELECTION_NOT_NEEDED
    refused = refusal(lambda: elect(ROW, Election.UNCLEAN, {3}))
    assert refused == ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
