"""ListOffsets, versions 1 to 11: where a partition begins and ends, and offsets by time.

    -1  latest: the high watermark, for read_committed the last stable offset
    -2  earliest, in whatever tier
    -3  the record with the largest timestamp (7), the first where no record has one
    -4  earliest local (8): the first offset that lies in segments
    -5  latest tiered (9): the last offset that the topic's table is known to hold, -1 without one
    -6  earliest pending upload (11): the first offset that the table does not hold, -1 without one
    >=0 the first record at or after that time, found inside its batch

Kafka's tiers are brokers' disks and remote storage; ours are segments and the table, both in the
store. Nothing found is offset -1 and no error. The leader epoch is that of the record (KIP-320), -1
where only the table knows it. All but -1 and -2 read store or registry and run in a task, several
partitions side by side. Only the leader answers, when it is sure that it is one.
"""

from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol

from broker.answers.broker import Broker
from broker.answers.error_codes import code_of
from broker.answers.partitions import check_epoch, epoch_at, find_leader, has_unknown_epoch
from broker.answers.side_by_side import look_up_side_by_side
from broker.network.authorizer import Operation, ResourceKind
from broker.network.call import Call
from broker.requests.fencing import enter_task, fence_code
from logstore.epoch.leader import Leader
from logstore.epoch.log import Topic
from logstore.errors import LogstoreError, Retryable
from logstore.reading.brokers.read import FoundRecord
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, PENDING = -1, -2, -3, -4, -5, -6
KNOWN_FROM = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    PENDING: 11,
}
READ_COMMITTED = 1
NO_TIME = NOT_FOUND = -1
READS_MAX = 5
"""Log start goes up once a minute or by request: it does not overtake five look-ups in a row."""
STORE_READ_TIMEOUT_S = 30.0
LOOK_UPS_AT_ONCE = 16
"""Of one request: 1,000 partitions in a bucket, of two reads of 50 ms each, take some 6 s."""

_ByTime = tuple[Leader, ListOffsetsPartition, ListOffsetsPartitionResponse]


class _Listing(NamedTuple):
    topics: list[ListOffsetsTopicResponse]
    by_time: list[_ByTime]
    """Partitions whose answers wait for the store."""


async def list_offsets(
    broker: Broker, call: Call, request: ListOffsetsRequest
) -> ListOffsetsResponse:
    listing = _Listing([], [])
    is_sure = broker.log.has_read_lease
    if is_sure:
        listing = await _list(broker, call, request, ErrorCode.NONE)
        is_doubtful = await call.finish(has_unknown_epoch(listing.topics))
        is_sure = not is_doubtful and broker.log.has_read_lease
    if not is_sure:
        listing = await _list(broker, call, request, await fence_code(broker))
    if listing.by_time:
        await enter_task(broker)
        async with broker.store_reads:
            await _look_up(broker, listing.by_time, request.isolation_level == READ_COMMITTED)
    return ListOffsetsResponse(0, listing.topics)


async def _list(
    broker: Broker, call: Call, request: ListOffsetsRequest, refusal: ErrorCode
) -> _Listing:
    listing = _Listing([], [])
    async for asked in call.each(request.topics):
        topic = await _list_topic(broker, call, request, asked, listing.by_time, refusal)
        listing.topics.append(topic)
    return listing


async def _list_topic(
    broker: Broker,
    call: Call,
    request: ListOffsetsRequest,
    asked: ListOffsetsTopic,
    by_time: list[_ByTime],
    refusal: ErrorCode,
) -> ListOffsetsTopicResponse:
    topic = broker.log.topics.get(asked.name)
    if topic is None:
        refusal = refusal or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not broker.allows(call, Operation.DESCRIBE, ResourceKind.TOPIC, asked.name):
        refusal = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    answers: list[ListOffsetsPartitionResponse] = []
    async for wanted in call.each(asked.partitions):
        answer = ListOffsetsPartitionResponse(wanted.partition_index, refusal)
        answers.append(answer)
        if topic is not None and not refusal:
            _list_partition(broker, call, request, topic, wanted, answer, by_time)
    return ListOffsetsTopicResponse(asked.name, answers)


def _list_partition(
    broker: Broker,
    call: Call,
    request: ListOffsetsRequest,
    topic: Topic,
    wanted: ListOffsetsPartition,
    answer: ListOffsetsPartitionResponse,
    by_time: list[_ByTime],
) -> None:
    leader, answer.error_code = find_leader(broker, topic, wanted.partition_index)
    if leader is None:
        return
    answer.error_code = _check(call.version, leader, wanted)
    if answer.error_code:
        return
    if wanted.timestamp not in (LATEST, EARLIEST):
        by_time.append((leader, wanted, answer))
    else:
        _answer_end(leader, wanted.timestamp, request.isolation_level, answer)


def _check(version: int, leader: Leader, wanted: ListOffsetsPartition) -> ErrorCode:
    if wanted.timestamp < 0 and KNOWN_FROM.get(wanted.timestamp, version + 1) > version:
        return ErrorCode.UNSUPPORTED_VERSION
    return check_epoch(leader, wanted.current_leader_epoch)


def _answer_end(
    leader: Leader, timestamp: int, isolation_level: int, answer: ListOffsetsPartitionResponse
) -> None:
    if timestamp == LATEST:
        stable, committed = leader.last_stable_offset, leader.high_watermark
        answer.offset = stable if isolation_level == READ_COMMITTED else committed
        answer.leader_epoch = leader.leader_epoch
    elif timestamp == EARLIEST:
        answer.offset = leader.log_start
        answer.leader_epoch = epoch_at(leader, leader.log_start)


async def _look_up(broker: Broker, by_time: list[_ByTime], committed_only: bool) -> None:
    async def look_up(one: _ByTime) -> None:
        await _look_up_one(broker, *one, committed_only)

    late = await look_up_side_by_side(
        by_time,
        look_up,
        broker.look_ups,
        at_once=LOOK_UPS_AT_ONCE,
        timeout_s=STORE_READ_TIMEOUT_S,
    )
    for _, _, answer in late:
        answer.error_code = ErrorCode.REQUEST_TIMED_OUT


async def _look_up_one(
    broker: Broker,
    leader: Leader,
    wanted: ListOffsetsPartition,
    answer: ListOffsetsPartitionResponse,
    committed_only: bool,
) -> None:
    up_to = leader.last_stable_offset if committed_only else leader.high_watermark
    try:
        record = await _find(broker, leader, wanted.timestamp, up_to)
    except LogstoreError as error:
        broker.alarms.cannot_serve(leader, leader.log_start, error)
        answer.error_code = code_of(error)
        return
    if record is not None and record[0] >= leader.log_start:
        answer.offset, answer.timestamp, answer.leader_epoch = record


async def _find(broker: Broker, leader: Leader, timestamp: int, up_to: int) -> FoundRecord | None:
    """The question asked by `timestamp`, a time or one of the numbers above."""
    log = broker.log
    if timestamp == MAX_TIMESTAMP:
        return await find_latest(log, leader, up_to) or _first(leader, up_to)
    if timestamp == EARLIEST_LOCAL:
        offset = await log.begin_of_segments(leader)
    elif timestamp == LATEST_TIERED:
        offset = (await log.table_end(leader) or 0) - 1
    elif timestamp == PENDING:
        end = await log.table_end(leader)
        offset = NOT_FOUND if end is None else max(end, leader.log_start)
    else:
        return await find_by_time(log, leader, timestamp, up_to)
    return FoundRecord(offset, NO_TIME, epoch_at(leader, offset))


def _first(leader: Leader, up_to: int) -> FoundRecord | None:
    """The first of records that have no timestamp, as Kafka answers for them; None: no records."""
    offset = leader.log_start
    return FoundRecord(offset, NO_TIME, epoch_at(leader, offset)) if offset < up_to else None


class TimeIndex(Protocol):
    """The calls of a `Log` that are used here."""

    async def offset_for_time(
        self, partition: Leader, timestamp: int, up_to: int
    ) -> FoundRecord | None: ...

    async def offset_of_max_timestamp(
        self, partition: Leader, up_to: int
    ) -> FoundRecord | None: ...


async def find_by_time(
    log: TimeIndex, leader: Leader, timestamp: int, up_to: int
) -> FoundRecord | None:
    """The first record at or after `timestamp` (ms) that is readable, below `up_to`."""
    return await _find_readable(leader, lambda: log.offset_for_time(leader, timestamp, up_to))


async def find_latest(log: TimeIndex, leader: Leader, up_to: int) -> FoundRecord | None:
    """The readable record with the largest timestamp, below `up_to`."""
    return await _find_readable(leader, lambda: log.offset_of_max_timestamp(leader, up_to))


async def _find_readable(
    leader: Leader, look: Callable[[], Awaitable[FoundRecord | None]]
) -> FoundRecord | None:
    """Asked again where log start has gone up since: another record is the one now.

    Raises `Retryable` where answers stay below log start.
    """
    for _ in range(READS_MAX):
        record = await look()
        if record is None or record.offset >= leader.log_start:
            return record
    raise Retryable(
        f"records found by time are below log start: topic={leader.topic_id.hex()} "
        f"partition={leader.partition} log_start={leader.log_start}; run: logstore fsck"
    )
