"""Commits a query's progress to a consumer group, for Kafka's tools.

They are never read back: the query resumes from its checkpoint alone. So a failed commit costs
only a warning, and is retried later with the offsets of that time. It may take
seconds: `spark_source.background_commits` runs it beside the query.
"""

import logging
import math
from collections.abc import Callable, Mapping, Sequence

from logstore.errors import Invalid, LogstoreError, Retryable
from logstore.ports.clock import Clock
from logstore.reading.direct.reader import LogReader
from logstore.wire.errors import ErrorCode
from logstore.wire.framing.client import Connection
from logstore.wire.messages.find_coordinator import FindCoordinatorRequest
from logstore.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from logstore.wiring.open import open_readable
from spark_source.planning.offsets import Position

logger = logging.getLogger(__name__)

OFFSET_COMMIT, FIND_COORDINATOR = 8, 10
GROUP = 0
TIMEOUT_S = 3.0
BROKERS_ASKED_MAX = 3
"""At one go. The next go asks others."""

PAUSE_S = 10.0
"""After a failure: how long nothing is tried."""

Address = tuple[str, int]


class GroupCommits:
    """Commits of one query. `find_brokers` may raise as the registry does."""

    def __init__(
        self,
        group: str,
        find_brokers: Callable[[], Sequence[Address]],
        clock: Clock,
        *,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._group = group
        self._find_brokers = find_brokers
        self._clock = clock
        self._timeout_s = timeout_s
        self._coordinator: Address | None = None
        self._reported: Position | None = None
        self._paused_until_s = -math.inf
        self._has_warned = False
        self._asked = 0

    def tell(self, position: Position) -> None:
        """Everything below `position` has been processed. Never raises what `logstore` raises.

        Blocks for up to `BROKERS_ASKED_MAX` time-outs, and at once returns for a while after that.
        """
        now_s = self._clock.monotonic_s()
        if position == self._reported or now_s < self._paused_until_s:
            return
        try:
            self._commit(position)
            self._reported = position
        except LogstoreError as error:
            self._coordinator = None
            self._paused_until_s = self._clock.monotonic_s() + PAUSE_S
            if not self._has_warned:
                self._has_warned = True
                logger.warning(
                    "commitGroup: progress is not committed to the group, the query continues: "
                    "group=%s cause=%s; retried with later batches, reported once",
                    self._group,
                    error,
                )

    def _commit(self, position: Position) -> None:
        if self._coordinator is None:
            self._coordinator = self._find_coordinator()
        with Connection.open(*self._coordinator, self._timeout_s) as connection:
            response = connection.call(OFFSET_COMMIT, _request(self._group, position))
        for topic in response.topics:
            for partition in topic.partitions:
                if partition.error_code:
                    raise Retryable(
                        f"offset not committed: topic={topic.name} "
                        f"partition={partition.partition_index} "
                        f"error={error_name(partition.error_code)}"
                    )

    def _find_coordinator(self) -> Address:
        failure: LogstoreError = Retryable("the registry names no broker; is one running?")
        brokers = self._find_brokers()
        for _ in brokers[:BROKERS_ASKED_MAX]:
            address = brokers[self._asked % len(brokers)]
            try:
                return self._ask_for_coordinator(address)
            except LogstoreError as error:
                failure = error
                self._asked += 1
        raise failure

    def _ask_for_coordinator(self, address: Address) -> Address:
        with Connection.open(*address, self._timeout_s) as connection:
            request = FindCoordinatorRequest(self._group, GROUP, [self._group])
            (coordinator,) = connection.call(FIND_COORDINATOR, request).coordinators
        if coordinator.error_code:
            raise Retryable(
                f"no coordinator: group={self._group} error={error_name(coordinator.error_code)}"
            )
        return coordinator.host, coordinator.port


def registered_brokers(url: str, storage: Mapping[str, str]) -> list[Address]:
    """Those of the registry, asked in the calling thread. Raises as a registry does."""
    log = open_readable(url, storage)
    try:
        return LogReader(log).brokers()
    finally:
        log.close()


def addresses_of(bootstrap: str) -> list[Address]:
    """Of `kafka.bootstrap.servers`. Raises `Invalid`."""
    addresses = []
    for item in filter(None, (part.strip() for part in bootstrap.split(","))):
        host, colon, port = item.rpartition(":")
        if not colon or not host or not port.isdecimal():
            raise Invalid(f"option kafka.bootstrap.servers is not HOST:PORT,…: {bootstrap}")
        addresses.append((host.rpartition("//")[2].strip("[]"), int(port)))
    return addresses


def error_name(code: int) -> str:
    return ErrorCode(code).name if code in set(ErrorCode) else str(code)


def _request(group: str, position: Position) -> OffsetCommitRequest:
    """As a consumer commits that is no member of the group: it has no generation."""
    topics = [
        OffsetCommitRequestTopic(
            name,
            partitions=[
                OffsetCommitRequestPartition(number, offset, -1, "")
                for number, offset in sorted(topic.next.items())
            ],
        )
        for name, topic in sorted(position.items())
    ]
    return OffsetCommitRequest(group, -1, "", -1, None, topics)
