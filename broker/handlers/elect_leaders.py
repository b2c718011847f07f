"""ElectLeaders, versions 0 to 2: each partition has its own outcome (KIP-183, KIP-460).

The leader is asked to hand the partition over; the answer waits until it has, or the request's time
or a minute is over, and keeps no other change of topics waiting. Null instead of topics means all
partitions; then those that need no election are left out.
"""

from collections.abc import Iterable
from typing import NamedTuple

from broker.answers.broker import Broker
from broker.answers.decisions.refuse import Refuse
from broker.answers.error_codes import code_of
from broker.answers.placement_changes import PlacementChange, change_all, find_partition
from broker.answers.replica_requests import Election, elect
from broker.network.call import Call
from broker.requests.refusals import errors_in
from logstore.epoch.log import Topic
from logstore.errors import LogstoreError
from logstore.formats.partition_row import PartitionRow
from logstore.protocol.topics.replica_changes import Placement
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

WAIT_S_MAX = 60.0

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


async def elect_leaders(
    broker: Broker, call: Call, request: ElectLeadersRequest
) -> ElectLeadersResponse:
    if request.election_type not in Election.__members__.values():
        why = f"no such election: election_type={request.election_type}"
        raise Refuse(ErrorCode.INVALID_REQUEST, why)
    deadline = broker.loop.time() + min(request.timeout_ms / 1000, WAIT_S_MAX)
    results: Results = {}
    async with broker.changes:
        begun = await _begin(broker, call, request, results, deadline)
    await _wait(broker, call, begun, results, _left_s(broker, deadline))
    is_for_all = request.topic_partitions is None
    topics: dict[str, ReplicaElectionResult] = {}
    async for (name, _), result in call.each(results.items()):
        if not (is_for_all and result.error_code == ErrorCode.ELECTION_NOT_NEEDED):
            topic = topics.setdefault(name, ReplicaElectionResult(name))
            topic.partition_result.append(result)
    return ElectLeadersResponse(replica_election_results=list(topics.values()))


async def _begin(
    broker: Broker, call: Call, request: ElectLeadersRequest, results: Results, deadline: float
) -> list[_Begun]:
    """Ask for the elections; those that end here get their place in `results` alone."""
    live = frozenset(broker.log.live_brokers())
    election = Election(request.election_type)

    def decide(row: PartitionRow) -> Placement:
        return elect(row, election, live)

    wanted: list[PlacementChange] = []
    async for name, number in call.each(_asked(broker, request)):
        if (name, number) in results:
            continue
        result = results[name, number] = PartitionResult(number)
        with errors_in(result):
            topic = find_partition(broker, name, number)
            if request.topic_partitions is None:
                decide(topic.rows[number])  # most need nothing: do not read all rows again
            wanted.append(PlacementChange(topic, number, decide))
    outcomes = await change_all(broker, wanted, _left_s(broker, deadline))
    begun = []
    decided = zip(wanted, outcomes, strict=True)
    async for (topic, number, _), outcome in call.each(decided):
        if isinstance(outcome, LogstoreError):
            _set_error(results[topic.name, number], outcome)
        else:
            begun.append(_Begun(topic, number, outcome.leader_epoch))
    return begun


def _asked(broker: Broker, request: ElectLeadersRequest) -> Iterable[tuple[str, int]]:
    if request.topic_partitions is None:
        topics = tuple(broker.log.topics.values())
        return ((topic.name, n) for topic in topics for n in range(topic.partition_count))
    return ((asked.topic, n) for asked in request.topic_partitions for n in asked.partitions)


async def _wait(
    broker: Broker, call: Call, begun: list[_Begun], results: Results, timeout_s: float
) -> None:
    """Until each has its new leader; those that have none in time get an error."""

    def are_over() -> bool:  # asked at each change of a topic: what is over is not looked at again
        while begun and begun[-1].is_over:
            begun.pop()
        return not begun

    if await broker.topic_watch.until(are_over, timeout_s):
        return
    async for one in call.each(begun):
        if not one.is_over:
            late = Refuse(ErrorCode.REQUEST_TIMED_OUT, "the leader has not handed it over yet")
            _set_error(results[one.topic.name, one.partition], late)


def _left_s(broker: Broker, deadline: float) -> float:
    return max(0.0, deadline - broker.loop.time())


def _set_error(result: PartitionResult, error: LogstoreError) -> None:
    result.error_code, result.error_message = code_of(error), str(error)
