"""Requests about replicas and leaders, as changes of a partition's row.

A reassignment moves no records, since these are in the object store; it says which brokers are to
serve. Where the leader stays one of them it is done at once, else with the next leadership, which
the leader is asked to hand over.
"""

from collections.abc import Collection, Sequence
from enum import IntEnum

from broker.answers.creation import check_assignment
from broker.answers.decisions.refuse import Refuse
from logstore.formats.partition_row import NO_BROKER, PartitionRow
from logstore.protocol.topics.replica_changes import Placement
from logstore.wire.errors import ErrorCode


class Election(IntEnum):
    """Kafka's `ElectionType`."""

    PREFERRED = 0
    UNCLEAN = 1


def reassign(
    row: PartitionRow,
    partition: int,
    wanted: Sequence[int],
    *,
    known: Collection[int],
    live: Collection[int],
    may_resize: bool = True,
) -> Placement:
    """Raises `Refuse`. `known` brokers may be away for now, but for one that could lead."""
    check_assignment(partition, wanted, known, "registered")
    replicas = tuple(wanted)
    if not may_resize and len(replicas) != len(row.replicas):
        raise Refuse(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"the number of replicas may not change: now={len(row.replicas)} asked={len(replicas)}",
        )
    if row.broker in replicas:
        target = row.target if row.target in replicas else NO_BROKER
        return Placement(replicas, (), target)
    target = next((broker for broker in replicas if broker in live), NO_BROKER)
    if target == NO_BROKER:
        raise Refuse(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"none of these brokers is alive: partition={partition} brokers={list(replicas)}",
        )
    return Placement(row.replicas, replicas, target)


def cancel(row: PartitionRow) -> Placement:
    """Raises `Refuse` where there is nothing to cancel."""
    if not row.reassigning:
        raise Refuse(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "replicas are not being reassigned")
    return Placement(row.replicas, (), NO_BROKER)


def elect(row: PartitionRow, election: Election, live: Collection[int]) -> Placement:
    """Raises `Refuse`, with ELECTION_NOT_NEEDED where nothing is to be done.

    No leader can miss records, so an unclean election is for partitions without a live leader.
    """
    if election is Election.UNCLEAN:
        if row.broker in live:
            raise Refuse(ErrorCode.ELECTION_NOT_NEEDED, f"broker {row.broker} leads")
        target = next((broker for broker in row.replicas if broker in live), NO_BROKER)
        if target == NO_BROKER:
            raise Refuse(
                ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
                f"no replica is alive: replicas={list(row.replicas)}",
            )
        return Placement(row.replicas, row.reassigning, target)
    preferred = row.replicas[0]
    if row.broker == preferred:
        raise Refuse(ErrorCode.ELECTION_NOT_NEEDED, f"broker {preferred} leads already")
    if preferred not in live:
        raise Refuse(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
            f"the preferred leader is not alive: broker={preferred}",
        )
    return Placement(row.replicas, row.reassigning, preferred)
