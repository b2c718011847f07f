"""A sink's batches by Produce, as Kafka's sink sends them: at least once.

Each attempt of a task is an idempotent producer of its own, so its own retries add nothing; an
attempt that is repeated is another producer, and its rows come again. Batches of a task are sent
when they have gathered `SENT_BYTES`, one request to each leader, side by side.
"""

import random
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from logstore.errors import Invalid, LogstoreError, Retryable, Unavailable
from logstore.formats.topic_partition import TopicPartition
from logstore.ports.clock import Clock, blocking_sleep_s
from logstore.records.batch import CRC_FROM, HEADER, SEQUENCE_MAX, read_header
from logstore.records.crc32c import Buffer, crc32c
from logstore.retry import RetryDelays, pause_s, retry
from logstore.staging.brokers import Brokers
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from logstore.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

PRODUCE, INIT_PRODUCER_ID = 0, 22
BY_NAME = 11
"""The last version that names topics and knows no implicit transactions."""

ALL = -1
PRODUCE_TIMEOUT_MS = 30_000
NO_TRANSACTION_TIMEOUT_MS = 2**31 - 1
DELIVERY_TIMEOUT_S = 120.0
"""Kafka's delivery.timeout.ms."""

SENT_BYTES = 8 << 20
LEADERS_TOGETHER = 32
_DONE = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
_NOT_LED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class _Sent(NamedTuple):
    """Batches of one partition; one request holds one of each partition."""

    name: str
    batches: list[bytearray]


class BatchSender:
    """Sends the batches of one attempt of one task; in order per partition."""

    def __init__(
        self,
        brokers: Brokers,
        *,
        clock: Clock,
        rng: random.Random,
        sleep_s: Callable[[float], None] = blocking_sleep_s,
        sent_bytes: int = SENT_BYTES,
    ) -> None:
        self.rows: dict[TopicPartition, int] = {}
        self._brokers = brokers
        self._clock = clock
        self._rng = rng
        self._sleep_s = sleep_s
        self._sent_bytes = sent_bytes
        self._waiting: dict[TopicPartition, _Sent] = {}
        self._waiting_bytes = 0
        self._names: dict[bytes, str] = {}
        self._producer: tuple[int, int] | None = None

    def name_topic(self, topic_id: bytes, name: str) -> None:
        """Of the partitions to come."""
        self._names[topic_id] = name

    def next_offset(self, partition: TopicPartition) -> int:
        """Producers count from 0 in each batch."""
        return 0

    def add(self, partition: TopicPartition, batch: Buffer) -> None:
        """Raises `Invalid` where a broker refuses it, `Retryable` where time runs out."""
        if self._producer is None:
            self._producer = self._init()
        count = read_header(batch, 0, len(batch)).record_count
        sent = self._waiting.setdefault(partition, _Sent(self._names[partition.topic_id], []))
        sequence = self.rows.get(partition, 0) & SEQUENCE_MAX
        sent.batches.append(of_producer(batch, *self._producer, sequence))
        self.rows[partition] = self.rows.get(partition, 0) + count
        self._waiting_bytes += len(batch)
        if self._waiting_bytes >= self._sent_bytes:
            self.finish()

    def finish(self) -> None:
        """Returns when everything that was added is committed."""
        while self._waiting:
            self._send_first_of_each()
        self._waiting_bytes = 0

    def _init(self) -> tuple[int, int]:
        request = InitProducerIdRequest(None, NO_TRANSACTION_TIMEOUT_MS)

        def ask() -> InitProducerIdResponse:
            response: InitProducerIdResponse = self._brokers.call_any(INIT_PRODUCER_ID, request)
            if response.error_code:
                raise _refusal(response.error_code, "get a producer id", None)
            return response

        delays = RetryDelays(deadline_s=DELIVERY_TIMEOUT_S)
        response = retry(
            ask, delays, self._rng, sleep_s=self._sleep_s, monotonic_s=self._clock.monotonic_s
        )
        return response.producer_id, response.producer_epoch

    def _send_first_of_each(self) -> None:
        """The oldest batch of each partition, until all of them are committed."""
        left = {partition: sent.batches[0] for partition, sent in self._waiting.items()}
        deadline_s = self._clock.monotonic_s() + DELIVERY_TIMEOUT_S
        failures, trouble = 0, ""
        while True:
            try:
                trouble = self._attempt(left) or trouble
            except Unavailable as error:
                trouble = str(error)
                self._brokers.forget_leaders()
            if not left:
                break
            failures += 1
            wait_s = pause_s(failures, self._rng)
            if self._clock.monotonic_s() + wait_s > deadline_s:
                raise Retryable(
                    f"batches are not committed in time: timeout_s={DELIVERY_TIMEOUT_S:g} "
                    f"partitions_left={len(left)} last={trouble}"
                )
            self._sleep_s(wait_s)
        for partition in list(self._waiting):
            batches = self._waiting[partition].batches
            batches.pop(0)
            if not batches:
                del self._waiting[partition]

    def _attempt(self, left: dict[TopicPartition, bytearray]) -> str:
        """One request to each leader; what is committed leaves `left`. Returns the last trouble."""
        names = {self._waiting[one].name for one in left}
        leaders = self._brokers.leaders(sorted(names))
        by_broker: dict[int, list[TopicPartition]] = {}
        for partition in left:
            if partition in leaders:
                by_broker.setdefault(leaders[partition].broker, []).append(partition)
        if sum(map(len, by_broker.values())) < len(left):
            self._brokers.forget_leaders()
        trouble = ""
        requests = {
            broker: self._request(partitions, left) for broker, partitions in by_broker.items()
        }
        with ThreadPoolExecutor(max(1, min(len(requests), LEADERS_TOGETHER))) as threads:
            answers = list(threads.map(self._ask, requests, requests.values()))
        for answer in answers:
            if isinstance(answer, LogstoreError):
                trouble = str(answer)
                self._brokers.forget_leaders()
                if not isinstance(answer, Unavailable):
                    raise answer
            else:
                trouble = self._note(answer, left) or trouble
        return trouble

    def _request(
        self, partitions: list[TopicPartition], left: Mapping[TopicPartition, bytearray]
    ) -> ProduceRequest:
        by_topic: dict[bytes, list[PartitionProduceData]] = {}
        for one in partitions:
            data = PartitionProduceData(one.partition, bytes(left[one]))
            by_topic.setdefault(one.topic_id, []).append(data)
        topics = [
            TopicProduceData(self._names[topic_id], bytes(16), datas)
            for topic_id, datas in by_topic.items()
        ]
        return ProduceRequest(None, ALL, PRODUCE_TIMEOUT_MS, topics)

    def _ask(self, broker: int, request: ProduceRequest) -> ProduceResponse | LogstoreError:
        try:
            response: ProduceResponse = self._brokers.call(broker, PRODUCE, request, BY_NAME)
            return response
        except LogstoreError as error:
            return error

    def _note(self, response: ProduceResponse, left: dict[TopicPartition, bytearray]) -> str:
        trouble = ""
        ids = {name: topic_id for topic_id, name in self._names.items()}
        for topic in response.responses:
            for answer in topic.partition_responses:
                partition = TopicPartition(ids[topic.name], answer.index)
                if answer.error_code in _DONE:
                    left.pop(partition, None)
                    continue
                where = f"write to {topic.name}-{answer.index}"
                refusal = _refusal(answer.error_code, where, answer.error_message)
                if isinstance(refusal, Invalid):
                    raise refusal
                trouble = str(refusal)
                if answer.error_code in _NOT_LED:
                    self._brokers.forget_leaders()
        return trouble


def of_producer(batch: Buffer, producer_id: int, epoch: int, sequence: int) -> bytearray:
    """A copy of a whole batch with these producer fields, and the checksum for them."""
    copy = bytearray(batch)
    header = read_header(copy, 0, len(copy))._replace(
        producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
    )
    HEADER.pack_into(copy, 0, *header)
    HEADER.pack_into(copy, 0, *header._replace(crc=crc32c(memoryview(copy)[CRC_FROM:])))
    return copy


def _refusal(code: int, doing: str, message: str | None) -> Invalid | Retryable:
    known = ErrorCode(code) if code in ErrorCode._value2member_map_ else None
    text = f"cannot {doing}: error={known.name if known else code}"
    if message:
        text = f"{text}: {message}"
    return Retryable(text) if known is not None and known.retriable else Invalid(text)
