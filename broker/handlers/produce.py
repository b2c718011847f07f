"""Produce, versions 3 to 13 (0 to 2 are advertised and refused, see ApiVersions).

Every partition has its own outcome; one bad batch does not fail the request. Offsets are given at
once, and the answer leaves when all batches of the request are committed: acks 1 and all mean the
same here, since the object store is the replica set (`broker.answers.pending_produces`).

A repeat of an idempotent producer's batch gets the offset of the first copy, and waits for the same
commit as that one. A request that is not committed within its `timeout_ms` is answered
REQUEST_TIMED_OUT; its batches may still be committed, which the producer's sequences make safe.
While the store's disk is full it is answered KAFKA_STORAGE_ERROR after half a second, likewise.

acks=0 is never answered; an error closes the connection, as in Kafka.

A partition that another broker leads is answered NOT_LEADER_OR_FOLLOWER with its leader (KIP-951).
A batch that breaks its producer's sequence is refused only after a fencing check
(`broker.answers.fence_check`): a broker that was replaced knows the sequence only as it was then.
While it may only have overtaken another because of a change of leaders, it gets
NOT_LEADER_OR_FOLLOWER (`Leader.append`).

Not done: transactions (INVALID_TXN_STATE).
"""

from collections.abc import Iterator, Sequence
from functools import partial

from broker.answers.broker import Broker
from broker.answers.decisions.batch_checks import NO_BATCH, check_base, check_produced
from broker.answers.decisions.record_checks import (
    PLAIN_BYTES_MAX,
    PlainChecks,
    RecordChecks,
    RefuseRecords,
    is_plain,
)
from broker.answers.decisions.refuse import Refuse
from broker.answers.error_codes import code_of
from broker.answers.fence_check import check_not_sealed
from broker.answers.leaders import hint_of, own_hint
from broker.answers.pending_produces import failed
from broker.answers.produce_bytes import PartitionOutcome, TopicOutcome
from broker.answers.thread_work import run_for_client
from broker.network.authorizer import Operation, ResourceKind
from broker.network.call import NO_ANSWER, Call
from broker.requests.runtime import begin_in_order
from logstore.epoch.leader import NotLeading, ProducerRefused
from logstore.epoch.log import Topic
from logstore.errors import LogstoreError
from logstore.slices import Slices
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

TOPIC_IDS_FROM = 13
NO_ACKS = 0
ACKS = (-1, 0, 1)
NOTHING_TO_WAIT_FOR = -1
AT_ONCE, AT_ONCE_BYTES = 200, 8 << 20
"""Batches that are appended without a turn for others, and their bytes."""
LOOKED_AT_ONCE = 500
"""Batches that are noted for the thread without a turn for others: 1 to 2 ms."""
PLAIN = PlainChecks()

_Doubt = tuple[list[PartitionOutcome], int]
"""The place of an outcome that may be wrong by now."""

new = tuple.__new__


def produce(broker: Broker, call: Call, request: ProduceRequest) -> None:
    """A small request is appended before this returns, unless a thread has to look at its records.

    Any other takes turns; requests behind it wait, so that batches of a producer stay in order.
    """
    if broker.clients.quotas.is_active:
        _throttle(broker, call, request)
    checks: RecordChecks | None = None
    if not _is_much(request):
        checks = _look_at_records(broker, call, request)
        if not checks.needs_thread():
            _append_all(broker, call, request, checks)
            return
    begin_in_order(broker, call, partial(_append_in_turns, broker, call, request, checks))


def _throttle(broker: Broker, call: Call, request: ProduceRequest) -> None:
    """Count the bytes now: requests behind this one wait if they are too many."""
    size = 0
    for asked in request.topic_data:
        size += sum([len(data.records or b"") for data in asked.partition_data])
    now_s = broker.loop.time()
    quotas = broker.clients.quotas
    throttle_ms = quotas.produced_ms(call.principal, call.client_id, size, now_s)
    if request.acks != NO_ACKS:  # as in Kafka
        throttle_ms = max(throttle_ms, call.connection.time_throttle_ms(call))
    call.throttle_ms = throttle_ms
    if throttle_ms:
        call.connection.hold_back_throttled()


def _is_much(request: ProduceRequest) -> bool:
    """Whether its topics and batches are more than are handled at once."""
    topics = request.topic_data
    count, size = len(topics), 0
    for asked in topics:
        count += len(asked.partition_data)
        for data in asked.partition_data:
            if data.records is not None:
                size += len(data.records)
        if count > AT_ONCE or size > AT_ONCE_BYTES:
            return True
    return False


def _look_at_records(broker: Broker, call: Call, request: ProduceRequest) -> RecordChecks:
    if _needs_no_check(broker, call, request):
        return PLAIN
    checks = RecordChecks()
    for _ in _add_records(broker, call, request, checks):
        pass
    return checks


def _needs_no_check(broker: Broker, call: Call, request: ProduceRequest) -> bool:
    """Whether the records are read as they are appended."""
    by_id = call.version >= TOPIC_IDS_FROM
    return _is_plain(request) and not _is_compressed_here(broker, request, by_id)


def _add_records(
    broker: Broker, call: Call, request: ProduceRequest, checks: RecordChecks
) -> Slices[None]:
    by_id, log = call.version >= TOPIC_IDS_FROM, broker.log
    now_ms = broker.clock.now_ms()
    count = 0
    for asked in request.topic_data:
        topic = log.topics_by_id.get(asked.topic_id) if by_id else log.topics.get(asked.name)
        if topic is None or (rules := broker.rules(topic)).is_internal:
            continue
        if not broker.allows_on(call, Operation.WRITE, topic):
            continue
        for data in asked.partition_data:
            records = data.records
            if isinstance(records, memoryview) and 0 < len(records) <= rules.batch_bytes_max:
                checks.add(records, rules, now_ms)
            count += 1
            if count % LOOKED_AT_ONCE == 0:
                yield


def _is_plain(request: ProduceRequest) -> bool:
    """Whether all batches are uncompressed and, together, small."""
    size = 0
    for asked in request.topic_data:
        for data in asked.partition_data:
            records = data.records
            if isinstance(records, memoryview):
                size += len(records)
                if not is_plain(records):
                    return False
    return size <= PLAIN_BYTES_MAX


def _is_compressed_here(broker: Broker, request: ProduceRequest, by_id: bool) -> bool:
    """Whether a topic of the request stores uncompressed batches in another form."""
    log = broker.log
    for asked in request.topic_data:
        topic = log.topics_by_id.get(asked.topic_id) if by_id else log.topics.get(asked.name)
        if topic is not None and broker.rules(topic).compresses_plain:
            return True
    return False


async def _append_in_turns(
    broker: Broker, call: Call, request: ProduceRequest, checks: RecordChecks | None
) -> None:
    """`checks`: None if the records were not looked at; all of them go to the thread then."""
    if checks is None and _needs_no_check(broker, call, request):
        await call.finish(_append_in_slices(broker, call, request, PLAIN))
        return
    waits_for_answer = request.acks != NO_ACKS
    async with broker.record_checks:
        if checks is None:
            checks = RecordChecks(at_once_bytes_max=0)
            await call.finish(_add_records(broker, call, request, checks))
        # Once the connection is closed, its buffer may hold bytes of another one.
        if await run_for_client(broker, call, checks.run, waits_for_answer=waits_for_answer):
            await call.finish(_append_in_slices(broker, call, request, checks))


def _append_all(broker: Broker, call: Call, request: ProduceRequest, checks: RecordChecks) -> None:
    topics: list[TopicOutcome] = []
    doubts: list[_Doubt] = []
    seq = NOTHING_TO_WAIT_FOR
    for asked in request.topic_data:
        outcomes: list[PartitionOutcome] = []
        topics.append(TopicOutcome(asked.name, asked.topic_id, outcomes))
        last_seq = _append_topic(broker, call, request, asked, checks, outcomes, doubts)
        if last_seq > seq:
            seq = last_seq
    _answer(broker, call, request, topics, seq, doubts)


def _append_in_slices(
    broker: Broker, call: Call, request: ProduceRequest, checks: RecordChecks
) -> Slices[None]:
    """Ends when the connection is closed: its buffer may hold bytes of another one then."""
    topics: list[TopicOutcome] = []
    doubts: list[_Doubt] = []
    seq = NOTHING_TO_WAIT_FOR
    with broker.pending_produces.held(topics):
        for asked in request.topic_data:
            outcomes: list[PartitionOutcome] = []
            topics.append(TopicOutcome(asked.name, asked.topic_id, outcomes))
            for part in _parts(asked.partition_data):
                if call.connection.is_closed:
                    return
                some = TopicProduceData(asked.name, asked.topic_id, part)
                last = _append_topic(broker, call, request, some, checks, outcomes, doubts)
                seq = max(seq, last)
                yield
    _answer(broker, call, request, topics, seq, doubts)


def _parts(items: list[PartitionProduceData]) -> Iterator[list[PartitionProduceData]]:
    """All of them, in parts that are appended without a turn for others; at least one part."""
    part: list[PartitionProduceData] = []
    size = 0
    for data in items:
        part.append(data)
        size += len(data.records or b"")
        if len(part) >= AT_ONCE or size >= AT_ONCE_BYTES:
            yield part
            part, size = [], 0
    if part or not items:
        yield part


def _append_topic(
    broker: Broker,
    call: Call,
    request: ProduceRequest,
    asked: TopicProduceData,
    checks: RecordChecks,
    outcomes: list[PartitionOutcome],
    doubts: "list[_Doubt]",
) -> int:
    """As `_append`, of a topic that may not be there."""
    topic, code = _find_topic(broker, call, request, asked)
    if topic is None:
        outcomes += [failed(data.index, code) for data in asked.partition_data]
        return NOTHING_TO_WAIT_FOR
    return _append(broker, call, topic, asked, checks, outcomes, doubts)


def _answer(
    broker: Broker,
    call: Call,
    request: ProduceRequest,
    topics: list[TopicOutcome],
    seq: int,
    doubts: "list[_Doubt]",
) -> None:
    if request.acks == NO_ACKS:
        _end_unanswered(call, topics)
    elif doubts or (broker.leader_settling.has_moves and any(_unnamed(topics))):
        # Without the request: its bytes need not wait for other leaders.
        work = partial(_answer_later, broker, call, topics, seq, request.timeout_ms, doubts)
        broker.start(call, work, None)
    elif seq < broker.log.writer.committed_end:
        broker.pending_produces.answer(call, topics)
    else:
        broker.pending_produces.wait(call, topics, seq, request.timeout_ms)


def _unnamed(topics: Sequence[TopicOutcome]) -> Iterator[tuple[TopicOutcome, int]]:
    """Outcomes that send the client away and name no leader, with their places."""
    for topic in topics:
        for number, one in enumerate(topic.partitions):
            if one.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER and one.hint is None:
                yield topic, number


async def _answer_later(
    broker: Broker,
    call: Call,
    topics: list[TopicOutcome],
    seq: int,
    timeout_ms: int,
    doubts: "list[_Doubt]",
) -> None:
    """Name the next leaders of partitions that are just handed over (`leader_settling`).

    Refuse batches of idempotent producers only if no other broker had become the leader.
    """
    with broker.pending_produces.held(topics):
        if broker.leader_settling.has_moves and any(_unnamed(topics)):
            await broker.leader_settling.wait()
            async for outcomes, number in broker.turns.share(list(_unnamed(topics))):
                topic = _topic_of(broker, call, outcomes)
                if topic is not None:
                    index = outcomes.partitions[number].partition
                    outcomes.partitions[number] = _not_led_then(broker, call, topic, index)
        if doubts:
            async with broker.store_reads:
                error = await check_not_sealed(broker.log)
            if error is not None:
                async for places, number in broker.turns.share(doubts):
                    places[number] = _refused(places[number].partition, error)
    broker.pending_produces.wait(call, topics, seq, timeout_ms)


def _not_led_then(broker: Broker, call: Call, topic: Topic, index: int) -> PartitionOutcome:
    """Of a partition that may be led here by now; its batch is to be sent again all the same."""
    leader = topic.leaders.get(index)
    if leader is None or leader.is_released:
        return _not_led(broker, call, topic, index)
    hint = own_hint(broker, call, leader.leader_epoch)
    return failed(index, ErrorCode.NOT_LEADER_OR_FOLLOWER)._replace(hint=hint)


def _topic_of(broker: Broker, call: Call, outcomes: TopicOutcome) -> Topic | None:
    log = broker.log
    if call.version >= TOPIC_IDS_FROM:
        return log.topics_by_id.get(outcomes.topic_id)
    return log.topics.get(outcomes.name)


def _find_topic(
    broker: Broker, call: Call, request: ProduceRequest, asked: TopicProduceData
) -> tuple[Topic | None, ErrorCode]:
    """The topic, or why its partitions are refused."""
    if request.acks not in ACKS:
        return None, ErrorCode.INVALID_REQUIRED_ACKS
    transaction = request.transactional_id
    if transaction is not None and not broker.allows(
        call, Operation.WRITE, ResourceKind.TRANSACTIONAL_ID, transaction
    ):
        return None, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    by_id = call.version >= TOPIC_IDS_FROM
    log = broker.log
    topic = log.topics_by_id.get(asked.topic_id) if by_id else log.topics.get(asked.name)
    if topic is not None:
        if broker.allows_on(call, Operation.WRITE, topic):
            return topic, ErrorCode.NONE
        return None, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if by_id:
        return None, ErrorCode.UNKNOWN_TOPIC_ID
    if not broker.allows(call, Operation.WRITE, ResourceKind.TOPIC, asked.name):
        return None, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _append(
    broker: Broker,
    call: Call,
    topic: Topic,
    asked: TopicProduceData,
    checks: RecordChecks,
    outcomes: list[PartitionOutcome],
    doubts: "list[_Doubt]",
) -> int:
    """Append the batches of one topic and note what became of each; the seq to wait for."""
    leaders, rules, version = topic.leaders, broker.rules(topic), call.version
    now_ms = broker.clock.now_ms()
    append_ms = broker.stamps.now_ms() if rules.stamps_append_time else None
    last_seq = NOTHING_TO_WAIT_FOR
    size = count = 0
    if rules.is_internal:
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
        outcomes += [failed(data.index, code) for data in asked.partition_data]
        return last_seq
    for data in asked.partition_data:
        index, records = data.index, data.records
        leader = leaders.get(index)
        if leader is None:
            outcomes.append(_not_led(broker, call, topic, index))
            continue
        try:
            if not isinstance(records, memoryview):
                raise Refuse(ErrorCode.INVALID_RECORD, NO_BATCH)
            records, header = check_produced(records, rules, checks, version=version, now_ms=now_ms)
            check_base(header)
            base, time_ms, seq = leader.append(records, header, append_ms)
        except NotLeading:
            outcomes.append(_not_led(broker, call, topic, index))
            continue
        except LogstoreError as error:
            if isinstance(error, ProducerRefused):
                doubts.append((outcomes, len(outcomes)))
            outcomes.append(_refused(index, error))
            continue
        size += len(records)
        count += header[-1]
        # Outcome(...) by the tuple's own constructor: half the time.
        outcomes.append(
            new(PartitionOutcome, (index, 0, base, time_ms, leader.log_start, None, (), None))
        )
        if seq > last_seq:
            last_seq = seq
    traffic = broker.traffic.of(topic.topic_id, topic.name)
    traffic.bytes_in += size
    traffic.records_in += count
    return last_seq


def _not_led(broker: Broker, call: Call, topic: Topic, index: int) -> PartitionOutcome:
    if not 0 <= index < topic.partition_count:
        return failed(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    hint = hint_of(broker, call, topic, index)
    if hint is None:
        broker.leader_settling.moving(topic, index)
    return failed(index, ErrorCode.NOT_LEADER_OR_FOLLOWER)._replace(hint=hint)


def _refused(index: int, error: LogstoreError) -> PartitionOutcome:
    bad_records = error.indexes if isinstance(error, RefuseRecords) else ()
    return PartitionOutcome(index, code_of(error), -1, -1, -1, str(error), bad_records)


def _end_unanswered(call: Call, topics: list[TopicOutcome]) -> None:
    errors = [one.error_code for topic in topics for one in topic.partitions if one.error_code]
    if errors:
        call.fail(f"a batch sent with acks=0 was refused: error_code={int(errors[0])}")
    else:
        call.answer_bytes(NO_ANSWER)
