"""Requests of `logstore produce`: those of an idempotent producer, so retries add no duplicates."""

from collections.abc import Sequence

from logstore.cli.brokers.cluster_calls import Cluster, check, error_of
from logstore.cli.decisions.record_lines import RecordLine
from logstore.errors import Invalid
from logstore.records.batch import SEQUENCE_MAX, Codec
from logstore.records.encode import encode_batch
from logstore.records.murmur2 import partition_for_key
from logstore.records.record import Record
from logstore.wire.messages.init_producer_id import InitProducerIdRequest
from logstore.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

PRODUCE, INIT_PRODUCER_ID = 0, 22
BY_NAME = 11
"""The last version that names topics and knows no implicit transactions."""

ALL = -1
TIMEOUT_MS = 30_000
NO_TRANSACTION_TIMEOUT_MS = 2**31 - 1


class Sender:
    """Sends lines to one topic, in order per partition."""

    def __init__(self, cluster: Cluster, topic: str, *, compression: Codec) -> None:
        self.record_count = 0
        self._cluster = cluster
        self._topic = topic
        self._compression = compression
        self._partition_count = 1 + max(cluster.insist(self._leaders))
        self._producer_id, self._producer_epoch = cluster.insist(self._init)
        self._sequences: dict[int, int] = {}
        self._turn = 0

    def send(self, lines: Sequence[RecordLine], now_ms: int) -> None:
        """Returns when all are committed. Keyless lines that come together stay together."""
        by_partition: dict[int, list[RecordLine]] = {}
        for line in lines:
            by_partition.setdefault(self._partition(line), []).append(line)
        self._turn += 1
        for partition, some in by_partition.items():
            self._send(partition, some, now_ms)

    def _partition(self, line: RecordLine) -> int:
        if line.partition is not None:
            if line.partition >= self._partition_count:
                raise Invalid(f"no such partition: topic={self._topic} partition={line.partition}")
            return line.partition
        if line.key is not None:
            return partition_for_key(line.key, self._partition_count)
        return self._turn % self._partition_count

    def _send(self, partition: int, lines: Sequence[RecordLine], now_ms: int) -> None:
        records = [
            Record(
                number,
                now_ms if line.timestamp is None else line.timestamp,
                line.key,
                line.value,
                line.headers,
            )
            for number, line in enumerate(lines)
        ]
        sequence = self._sequences.get(partition, 0)
        batch = encode_batch(
            records,
            compression=self._compression,
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            base_sequence=sequence,
        )
        data = TopicProduceData(self._topic, bytes(16), [PartitionProduceData(partition, batch)])
        request = ProduceRequest(None, ALL, TIMEOUT_MS, [data])

        def ask() -> None:
            leader = self._leaders()[partition]
            response = self._cluster.broker(leader).call(PRODUCE, request, BY_NAME)
            answer = response.responses[0].partition_responses[0]
            if answer.error_code:
                raise error_of(
                    answer.error_code,
                    f"write to {self._topic}-{partition}",
                    answer.error_message,
                    is_led=True,
                )

        self._cluster.insist(ask)
        self._sequences[partition] = (sequence + len(records)) & SEQUENCE_MAX
        self.record_count += len(records)

    def _leaders(self) -> dict[int, int]:
        return self._cluster.leaders(self._topic)

    def _init(self) -> tuple[int, int]:
        request = InitProducerIdRequest(None, NO_TRANSACTION_TIMEOUT_MS)
        response = self._cluster.any_broker().call(INIT_PRODUCER_ID, request)
        check(response.error_code, "get a producer id")
        return response.producer_id, response.producer_epoch
