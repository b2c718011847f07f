"""A cluster as commands see it: the broker that is right for each request, asked until it answers.

Brokers restart and coordinators load: a call with a retriable error is retried, with fresh
metadata, until the deadline.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

from logstore.cli.broker_access import PLAIN_ACCESS, BrokerAccess
from logstore.cli.command import BootstrapAddress
from logstore.errors import Invalid, LogstoreError, Retryable, Unavailable
from logstore.ports.clock import Clock, SystemClock
from logstore.retry import RetryDelays, retry
from logstore.wire.errors import ErrorCode
from logstore.wire.framing.client import Connection
from logstore.wire.messages.find_coordinator import FindCoordinatorRequest
from logstore.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from logstore.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

LIST_OFFSETS, METADATA, FIND_COORDINATOR = 2, 3, 10
EARLIEST, LATEST = -2, -1
CONSUMER = -1
"""Replica id of clients."""

CALL_TIMEOUT_S = 35.0
DEADLINE_S = 30.0
_DELAYS = RetryDelays(0.1, 0.1, deadline_s=DEADLINE_S)
GROUP_KEY_TYPE = 0

T = TypeVar("T")


class Moved(Retryable):
    """Another broker is to be asked, or this one later."""


class Cluster:
    def __init__(
        self,
        bootstrap: Sequence[BootstrapAddress],
        *,
        clock: Clock | None = None,
        creates: bool = False,
        access: BrokerAccess = PLAIN_ACCESS,
    ) -> None:
        """`creates`: whether to ask for a topic may create it."""
        self._bootstrap = bootstrap
        self._access = access
        self._clock = clock or SystemClock()
        self._creates = creates
        self._connections: dict[BootstrapAddress, Connection] = {}
        self._brokers: dict[int, BootstrapAddress] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.forget()

    def forget(self) -> None:
        """Close every connection; the next request opens what it needs."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def insist(self, ask: Callable[[], T]) -> T:
        """The answer of `ask`, retried while that may help. Only for repeatable requests."""

        def attempt() -> T:
            try:
                return ask()
            except Unavailable:
                self.forget()
                raise

        return retry(attempt, _DELAYS, random.Random(), monotonic_s=self._clock.monotonic_s)

    # Who is asked

    def any_broker(self) -> Connection:
        """The first that answers of those known. Raises `Retryable` when none does."""
        failures = []
        for place in (*self._bootstrap, *self._brokers.values()):
            try:
                return self._connection(place)
            except Retryable as failure:
                failures.append(str(failure))
        raise Retryable(f"{'; '.join(failures)}; is a broker running there? see --bootstrap")

    def broker(self, node: int) -> Connection:
        if node not in self._brokers:
            raise Moved(f"no such broker: id={node}")
        return self._connection(self._brokers[node])

    def brokers(self) -> list[int]:
        self._metadata([])
        return sorted(self._brokers)

    def coordinator(self, group: str) -> Connection:
        request = FindCoordinatorRequest(group, GROUP_KEY_TYPE, [group])
        response = self.any_broker().call(FIND_COORDINATOR, request)
        coordinator = response.coordinators[0] if response.coordinators else response
        check(
            coordinator.error_code,
            f"find the coordinator of group {group}",
            coordinator.error_message,
        )
        return self._connection(BootstrapAddress(coordinator.host, coordinator.port))

    def leaders(self, topic: str) -> dict[int, int]:
        """Broker by partition."""
        metadata = self._metadata([topic]).topics[0]
        check(metadata.error_code, f"look up topic {topic}")
        leaders = {}
        for partition in metadata.partitions:
            check(partition.error_code, f"find the leader of {topic}")
            leaders[partition.partition_index] = partition.leader_id
        return leaders

    def _metadata(self, topics: Sequence[str]) -> Any:
        wanted = [MetadataRequestTopic(name=name) for name in topics]
        response = self.any_broker().call(METADATA, MetadataRequest(wanted, self._creates))
        self._brokers = {
            one.node_id: BootstrapAddress(one.host, one.port) for one in response.brokers
        }
        return response

    def _connection(self, place: BootstrapAddress) -> Connection:
        known = self._connections.get(place)
        if known is None or known.is_closed:
            known = self._access.open(place.host, place.port, CALL_TIMEOUT_S)
            self._connections[place] = known
        return known

    # What many ask

    def offsets(self, topic: str, partitions: Sequence[int], timestamp: int) -> dict[int, int]:
        """`EARLIEST`, `LATEST`, or the first at or after a time in ms: -1 where there is none."""
        leaders = self.leaders(topic)
        by_leader: dict[int, list[int]] = {}
        for partition in partitions:
            if partition not in leaders:
                raise Invalid(f"no such partition: topic={topic} partition={partition}")
            by_leader.setdefault(leaders[partition], []).append(partition)
        offsets: dict[int, int] = {}
        for leader, numbers in by_leader.items():
            asked = [ListOffsetsPartition(number, -1, timestamp) for number in numbers]
            request = ListOffsetsRequest(CONSUMER, 0, [ListOffsetsTopic(topic, asked)], 30_000)
            for one in self.broker(leader).call(LIST_OFFSETS, request).topics[0].partitions:
                check(one.error_code, f"list offsets of {topic}", is_led=True)
                offsets[one.partition_index] = one.offset
        return offsets


@contextmanager
def cluster_of(
    bootstrap: Sequence[BootstrapAddress],
    *,
    creates: bool = False,
    access: BrokerAccess = PLAIN_ACCESS,
) -> Iterator[Cluster]:
    with Cluster(bootstrap, creates=creates, access=access) as cluster:
        yield cluster


def check(code: int, doing: str, message: str | None = None, *, is_led: bool = False) -> None:
    """Raises `Moved` for a retriable error, `Invalid` for any other; see `error_of`."""
    if code == ErrorCode.NONE:
        return
    raise error_of(code, doing, message, is_led=is_led)


def error_of(
    code: int, doing: str, message: str | None = None, *, is_led: bool = False
) -> LogstoreError:
    """`is_led`: another broker has just named this one as leader: it soon knows the topic."""
    known = ErrorCode(code) if code in ErrorCode._value2member_map_ else None
    text = f"cannot {doing}: error={known.name if known else code}"
    if message:
        text = f"{text}: {message}"
    is_final = known is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not is_led
    if known is not None and known.retriable and not is_final:
        return Moved(f"{text}; try again")
    return Invalid(text)
