"""Produce, versions 3 to 13 (0 to 2 are advertised and refused, see ApiVersions).

Every partition has its own outcome; one bad batch does not fail the request. Offsets are given at
once, and the answer leaves when all batches of the request are committed: acks 1 and all mean the
same here, since the object store is the replica set. One callback per request and commit, no task.

A repeat of an idempotent producer's batch gets the offset of the first copy, and waits for the same
commit as that one. A request that is not committed within its `timeout_ms` is answered
REQUEST_TIMED_OUT; its batches may still be committed, which the producer's sequences make safe.

acks=0 is never answered; an error closes the connection, as in Kafka.

Not done: transactions (INVALID_TXN_STATE), recompression (`compression.type` other than producer).
"""

from typing import TYPE_CHECKING

from broker.authorizer import Kind, Operation
from broker.batch_checks import NO_BATCH, RefuseRecords, check_produced
from broker.call import NO_ANSWER, Call
from broker.errors import Refuse, code_of
from logstore.errors import LogstoreError
from logstore.log.log import Topic
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from broker.broker import Broker

TOPIC_IDS_FROM = 13
NO_ACKS = 0
ACKS = (-1, 0, 1)


def handle(broker: "Broker", call: Call, request: ProduceRequest) -> None:
    responses: list[TopicProduceResponse] = []
    seq_max = -1
    for asked in request.topic_data:
        answers: list[PartitionProduceResponse] = []
        responses.append(TopicProduceResponse(asked.name, asked.topic_id, answers))
        topic, code = _find_topic(broker, call, request, asked)
        if topic is None:
            answers += [_failed(data.index, code) for data in asked.partition_data]
        else:
            for data in asked.partition_data:
                seq = _append(broker, call.version, topic, data, answers)
                if seq > seq_max:
                    seq_max = seq
    response = ProduceResponse(responses, 0)
    if request.acks == NO_ACKS:
        _end_unanswered(call, response)
    elif seq_max < 0:
        call.answer(response)
    else:
        waiting = _Waiting(broker, call, response)
        broker.log.when_committed(seq_max, waiting.committed)
        if not call.is_answered:
            call.held = waiting
            broker.timers.set(waiting, request.timeout_ms / 1000)
    if broker.log.writer.is_full:
        broker.hold_producers()


class _Waiting:
    """A request whose batches are appended and not committed yet."""

    __slots__ = ("_broker", "_call", "_response", "timer_bucket")

    def __init__(self, broker: "Broker", call: Call, response: ProduceResponse) -> None:
        self._broker = broker
        self._call = call
        self._response = response
        self.timer_bucket = 0

    def committed(self, error: LogstoreError | None) -> None:
        if self._call.is_answered:
            return
        if self.timer_bucket:
            self._broker.timers.unset(self)
        if error is not None:
            self._fail(code_of(error))
        self._call.answer(self._response)

    def time_out(self) -> None:
        self._fail(ErrorCode.REQUEST_TIMED_OUT)
        self._call.answer(self._response)

    def finish(self) -> None:
        """The broker stops: what was appended is still being committed, so the answer will come."""

    def drop(self) -> None:
        self._broker.timers.unset(self)

    def _fail(self, code: ErrorCode) -> None:
        for topic in self._response.responses:
            topic.partition_responses = [
                one if one.error_code else _failed(one.index, code)
                for one in topic.partition_responses
            ]


def _find_topic(
    broker: "Broker", call: Call, request: ProduceRequest, asked: TopicProduceData
) -> tuple[Topic | None, ErrorCode]:
    """The topic, or why its partitions are refused."""
    if request.acks not in ACKS:
        return None, ErrorCode.INVALID_REQUIRED_ACKS
    transaction = request.transactional_id
    if transaction is not None and not broker.allows(
        call, Operation.WRITE, Kind.TRANSACTIONAL_ID, transaction
    ):
        return None, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if call.version >= TOPIC_IDS_FROM:
        topic = broker.log.topics_by_id.get(asked.topic_id)
        name, unknown = topic.name if topic else "", ErrorCode.UNKNOWN_TOPIC_ID
    else:
        topic = broker.log.topics.get(asked.name)
        name, unknown = asked.name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if name and not broker.allows(call, Operation.WRITE, Kind.TOPIC, name):
        return None, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return topic, unknown


def _append(
    broker: "Broker",
    version: int,
    topic: Topic,
    data: PartitionProduceData,
    answers: list[PartitionProduceResponse],
) -> int:
    """Append one partition's batch and note its outcome; the seq to wait for, or -1."""
    index = data.index
    if not 0 <= index < len(topic.leaders):
        answers.append(_failed(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        return -1
    leader, rules = topic.leaders[index], broker.rules(topic)
    records, now_ms = data.records, broker.clock.now_ms()
    try:
        if not isinstance(records, memoryview):
            raise Refuse(ErrorCode.INVALID_RECORD, NO_BATCH)
        header = check_produced(records, rules, version=version, now_ms=now_ms)
        appended = leader.append(records, header, now_ms if rules.stamps_append_time else None)
    except LogstoreError as error:
        answers.append(_refused(index, error))
        return -1
    answers.append(
        PartitionProduceResponse(
            index, 0, appended.base_offset, appended.timestamp, leader.log_start
        )
    )
    return appended.seq


def _refused(index: int, error: LogstoreError) -> PartitionProduceResponse:
    answer = _failed(index, code_of(error))
    answer.error_message = str(error)
    if isinstance(error, RefuseRecords):
        answer.record_errors = [BatchIndexAndErrorMessage(at, str(error)) for at in error.indexes]
    return answer


def _failed(index: int, code: ErrorCode) -> PartitionProduceResponse:
    return PartitionProduceResponse(index, code, -1, -1, -1)


def _end_unanswered(call: Call, response: ProduceResponse) -> None:
    errors = [
        one.error_code
        for topic in response.responses
        for one in topic.partition_responses
        if one.error_code
    ]
    if errors:
        call.fail(f"a batch sent with acks=0 was refused: error_code={int(errors[0])}")
    else:
        call.answer_bytes(NO_ANSWER)
