"""Brokers as a sink meets them: connections, and who leads, by Kafka's Metadata.

Connections and leaders are kept for the next batch, so that a micro-batch costs one request per
leader. What fails drops its connection; leaders are looked up again when one is not the leader.
One request at a time per broker.
"""

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

from logstore.errors import LogstoreError, Retryable
from logstore.formats.topic_partition import TopicPartition
from logstore.staging.adoption import PartitionLeader
from logstore.wire.errors import ErrorCode
from logstore.wire.framing.client import Connection
from logstore.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)

METADATA = 3
CONNECT_TIMEOUT_S = 35.0
BROKERS_ASKED_MAX = 5
"""For the first metadata, at one go; the next go asks others."""


class BrokerAddress(NamedTuple):
    host: str
    port: int


class BrokerLink(Protocol):
    """A `Connection`, or what takes its place."""

    @property
    def is_closed(self) -> bool: ...
    def call(self, key: int, request: Any, version: int | None = None, /) -> Any: ...
    def close(self) -> None: ...


class Brokers:
    """`find_brokers` names some to begin with; it may raise as a registry does."""

    def __init__(
        self,
        find_brokers: Callable[[], Sequence[BrokerAddress]],
        *,
        timeout_s: float = CONNECT_TIMEOUT_S,
        open_connection: Callable[[str, int, float], BrokerLink] = Connection.open,
    ) -> None:
        self._find_brokers = find_brokers
        self._timeout_s = timeout_s
        self._open = open_connection
        self._addresses: dict[int, BrokerAddress] = {}
        self._connections: dict[BrokerAddress, BrokerLink] = {}
        self._leaders: dict[TopicPartition, PartitionLeader] = {}
        self._topics: dict[str, bytes | None] = {}
        self._asked = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def forget_leaders(self) -> None:
        """They are looked up when they are asked for next."""
        self._leaders.clear()
        self._topics.clear()

    def leaders(self, topics: Sequence[str]) -> Mapping[TopicPartition, PartitionLeader]:
        """By topic id and partition; without partitions that have no leader now.

        Raises `Retryable` or `OutcomeUnknown` while no broker answers.
        """
        if not self._topics.keys() >= set(topics):
            self._look_up(topics)
        return self._leaders

    @property
    def topic_ids(self) -> Mapping[str, bytes | None]:
        """Of the topics that were looked up; None: brokers know no such topic."""
        return self._topics

    def call(self, broker: int, key: int, request: Any, version: int | None = None) -> Any:
        """The broker's answer. Raises as `Connection.call` does, which closes the connection."""
        address = self._addresses.get(broker)
        if address is None:
            raise Retryable(f"no such broker: id={broker}")
        return self._connection(address).call(key, request, version)

    def _look_up(self, topics: Sequence[str]) -> None:
        asked = [MetadataRequestTopic(name=name) for name in topics]
        response: MetadataResponse = self.call_any(METADATA, MetadataRequest(asked, False))
        self._addresses = {
            one.node_id: BrokerAddress(one.host, one.port) for one in response.brokers
        }
        for topic in response.topics:
            is_known = topic.error_code == ErrorCode.NONE
            self._topics[topic.name or ""] = topic.topic_id if is_known else None
            for partition in topic.partitions:
                if partition.leader_id >= 0 and partition.error_code == ErrorCode.NONE:
                    self._leaders[TopicPartition(topic.topic_id, partition.partition_index)] = (
                        PartitionLeader(partition.leader_id, partition.leader_epoch)
                    )

    def call_any(self, key: int, request: Any) -> Any:
        """The answer of some broker. Raises the last error, after a few were asked."""
        failure: LogstoreError = Retryable("no broker is known; is one running?")
        for address in self._some_addresses():
            try:
                return self._connection(address).call(key, request)
            except LogstoreError as error:
                failure = error
                self._asked += 1
        raise failure

    def _some_addresses(self) -> list[BrokerAddress]:
        """Those known from metadata, then those that are named to begin with."""
        known = dict.fromkeys([*self._addresses.values(), *self._find_brokers()])
        addresses = list(known)
        at = self._asked % len(addresses) if addresses else 0
        return (addresses[at:] + addresses[:at])[:BROKERS_ASKED_MAX]

    def _connection(self, address: BrokerAddress) -> BrokerLink:
        known = self._connections.get(address)
        if known is None or known.is_closed:
            known = self._open(*address, self._timeout_s)
            self._connections[address] = known
        return known
