"""ElectLeaders, versions 0 to 2: each partition has its own outcome (KIP-183, KIP-460).

The leader is asked to hand the partition over; the answer waits until it has, or the request's time
or a minute is over, and keeps no other change of topics waiting. Null instead of topics means all
partitions; then those that need no election are left out.
"""

from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

from broker.answers.error_codes import Refuse, code_of
from broker.answers.nested_answers import answer_nested
from broker.answers.placement_changes import PlacementChange, change_all, find_partition
from broker.answers.replica_requests import Election, elect
from broker.answers.services import Services
from broker.network.authorizer import CLUSTER, Operation
from broker.network.call import Call
from logstore.epoch.log import Topic
from logstore.errors import LogstoreError
from logstore.formats.partition_row import PartitionRow
from logstore.protocol.replica_changes import Placement
from logstore.slices import Slices
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

WAIT_S_MAX = 60.0
SLICE_PARTITIONS = 2_000
"""Brought into the answer at a time: some 2 ms."""

Results = dict[tuple[str, int], PartitionResult]
"""By topic and partition, as asked for."""


class _Begun(NamedTuple):
    """A partition that is to be led under a higher epoch than `leader_epoch`."""

    topic: Topic
    partition: int
    leader_epoch: int

    @property
    def is_over(self) -> bool:
        topic = self.topic
        if topic.is_deleted or self.partition >= topic.partition_count:
            return True
        return topic.rows[self.partition].leader_epoch > self.leader_epoch


def handle(broker: Services, call: Call, request: ElectLeadersRequest) -> None:
    if not broker.allows(call, Operation.ALTER, *CLUSTER):
        call.answer(ElectLeadersResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    elif request.election_type not in Election.__members__.values():
        call.answer(ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST))
    else:
        broker.start(call, partial(_elect_all, broker, call, request), None)


async def _elect_all(broker: Services, call: Call, request: ElectLeadersRequest) -> None:
    deadline = broker.loop.time() + min(request.timeout_ms / 1000, WAIT_S_MAX)
    results: Results = {}
    async with broker.changes:
        begun = await _begin(broker, request, results, deadline)
    await _wait(broker, begun, results, _left_s(broker, deadline))
    response = _answer(results, is_for_all=request.topic_partitions is None)
    made = await broker.turns.finish(response)
    path = ("replica_election_results", "partition_result")
    await broker.turns.finish(answer_nested(call, made, path))


async def _begin(
    broker: Services, request: ElectLeadersRequest, results: Results, deadline: float
) -> list[_Begun]:
    """Ask for the elections; those that end here get their place in `results` alone."""
    live = frozenset(broker.log.live_brokers())
    election = Election(request.election_type)

    def decide(row: PartitionRow) -> Placement:
        return elect(row, election, live)

    wanted: list[PlacementChange] = []
    async for name, number in broker.turns.share(_asked(broker, request)):
        if (name, number) in results:
            continue
        result = results[name, number] = PartitionResult(number)
        try:
            topic = find_partition(broker, name, number)
            if request.topic_partitions is None:
                decide(topic.rows[number])  # most need nothing: do not read all rows again
        except LogstoreError as error:
            _set_error(result, error)
        else:
            wanted.append(PlacementChange(topic, number, decide))
    outcomes = await change_all(broker, wanted, _left_s(broker, deadline))
    begun = []
    decided = zip(wanted, outcomes, strict=True)
    async for (topic, number, _), outcome in broker.turns.share(decided):
        if isinstance(outcome, LogstoreError):
            _set_error(results[topic.name, number], outcome)
        else:
            begun.append(_Begun(topic, number, outcome.leader_epoch))
    return begun


def _asked(broker: Services, request: ElectLeadersRequest) -> Iterable[tuple[str, int]]:
    if request.topic_partitions is None:
        topics = tuple(broker.log.topics.values())
        return ((topic.name, n) for topic in topics for n in range(topic.partition_count))
    return ((asked.topic, n) for asked in request.topic_partitions for n in asked.partitions)


async def _wait(broker: Services, begun: list[_Begun], results: Results, timeout_s: float) -> None:
    """Until each has its new leader; those that have none in time get an error."""

    def are_over() -> bool:  # asked at each change of a topic: what is over is not looked at again
        while begun and begun[-1].is_over:
            begun.pop()
        return not begun

    if await broker.topic_watch.until(are_over, timeout_s):
        return
    async for one in broker.turns.share(begun):
        if not one.is_over:
            late = Refuse(ErrorCode.REQUEST_TIMED_OUT, "the leader has not handed it over yet")
            _set_error(results[one.topic.name, one.partition], late)


def _answer(results: Results, *, is_for_all: bool) -> Slices[ElectLeadersResponse]:
    topics: dict[str, ReplicaElectionResult] = {}
    for number, ((name, _), result) in enumerate(results.items(), 1):
        if number % SLICE_PARTITIONS == 0:
            yield
        if is_for_all and result.error_code == ErrorCode.ELECTION_NOT_NEEDED:
            continue
        topic = topics.setdefault(name, ReplicaElectionResult(name))
        topic.partition_result.append(result)
    return ElectLeadersResponse(replica_election_results=list(topics.values()))


def _left_s(broker: Services, deadline: float) -> float:
    return max(0.0, deadline - broker.loop.time())


def _set_error(result: PartitionResult, error: LogstoreError) -> None:
    result.error_code, result.error_message = code_of(error), str(error)
