"""Brokers that take Produce, in memory: idempotent producers and leaders, as small as they go."""

from collections.abc import Callable
from typing import Any

from logstore.errors import OutcomeUnknown, Retryable
from logstore.formats.topic_partition import TopicPartition
from logstore.records.batch import check_batch
from logstore.records.decode import decode_records
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.init_producer_id import InitProducerIdResponse
from logstore.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from logstore.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

METADATA, INIT_PRODUCER_ID = 3, 22
PARTITIONS = 4


class ProducedCluster:
    """Brokers 0 and 1. `trouble` is asked before and after each request, and may raise."""

    def __init__(self, topics: dict[str, bytes]) -> None:
        self.logs: dict[TopicPartition, list[bytes]] = {}
        self.trouble: Callable[[], None] = lambda: None
        self.errors: list[ErrorCode] = []
        """Answered in place of the truth, one per partition, until none is left."""
        self.moved = 0
        self.requests = 0
        self._topics = topics
        self._sequences: dict[TopicPartition, int] = {}

    def open(self, host: str, port: int, timeout_s: float) -> "ProducedLink":
        return ProducedLink(self, port)

    def answer(self, broker: int, key: int, request: Any) -> Any:
        self.trouble()
        if key == METADATA:
            response: Any = self._metadata(request)
        elif key == INIT_PRODUCER_ID:
            response = InitProducerIdResponse(0, 0, 7, 0)
        else:
            self.requests += 1
            response = self._produce(broker, request)
        self.trouble()
        return response

    def _metadata(self, request: MetadataRequest) -> MetadataResponse:
        partitions = [
            MetadataResponsePartition(0, one, (one + self.moved) % 2, 0)
            for one in range(PARTITIONS)
        ]
        topics = [
            MetadataResponseTopic(0, one.name, self._topics[one.name or ""], False, partitions)
            for one in request.topics or []
        ]
        brokers = [MetadataResponseBroker(one, "here", one) for one in range(2)]
        return MetadataResponse(brokers=brokers, topics=topics)

    def _produce(self, broker: int, request: ProduceRequest) -> ProduceResponse:
        topics = []
        for topic in request.topic_data:
            answers = [
                PartitionProduceResponse(
                    one.index,
                    self._append(broker, TopicPartition(self._topics[topic.name], one.index), one),
                )
                for one in topic.partition_data
            ]
            topics.append(TopicProduceResponse(topic.name, bytes(16), answers))
        return ProduceResponse(topics)

    def _append(self, broker: int, key: TopicPartition, data: Any) -> int:
        if self.errors:
            return self.errors.pop(0)
        if (key.partition + self.moved) % 2 != broker:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        header = check_batch(memoryview(data.records), 0, len(data.records))
        assert (header.producer_id, header.producer_epoch) == (7, 0)
        wanted = self._sequences.get(key, 0)
        if header.base_sequence < wanted:
            return ErrorCode.DUPLICATE_SEQUENCE_NUMBER
        assert header.base_sequence == wanted
        self._sequences[key] = wanted + header.record_count
        records = decode_records(data.records, max_bytes=1 << 20)
        self.logs.setdefault(key, []).extend(bytes(one.value or b"") for one in records)
        return ErrorCode.NONE


class ProducedLink:
    """A connection to one broker of the cluster."""

    def __init__(self, cluster: ProducedCluster, broker: int) -> None:
        self._cluster = cluster
        self._broker = broker
        self.is_closed = False

    def call(self, key: int, request: Any, version: int | None = None, /) -> Any:
        try:
            return self._cluster.answer(self._broker, key, request)
        except (Retryable, OutcomeUnknown):
            self.is_closed = True
            raise

    def close(self) -> None:
        self.is_closed = True
