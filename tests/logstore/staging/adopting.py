"""Leaders that adopt, in memory: the rules of a sink's commit once more, as small as they go.

Each reads manifest and objects from the store, appends the batches of its partitions, and remembers
the last batch of each sink. `before` and `after` are asked at each request, and may raise in place
of an answer: what raises after it has been carried out is an answer that got lost.
"""

from collections.abc import Callable
from typing import Any

from logstore.errors import OutcomeUnknown, Retryable
from logstore.formats.manifest import Manifest, decode_manifest
from logstore.formats.staged_object import StagedRange, batches_of, decode_staged
from logstore.formats.staging_keys import place_of
from logstore.formats.topic_partition import TopicPartition
from logstore.objects.memory import MemoryObjects
from logstore.records.decode import decode_records
from logstore.slices import finish
from logstore.wire.adopt import (
    ADOPT_KEY,
    AdoptOutcome,
    AdoptPartitionResult,
    AdoptRequest,
    AdoptResponse,
    AdoptTopicResult,
)
from logstore.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

Hook = Callable[[str], None]


def nothing(_: str) -> None:
    """Lets the request be."""


class AdoptingCluster:
    """Brokers 0 and 1; a partition is led by the one that `leader_of` says."""

    def __init__(self, objects: MemoryObjects, cluster_id: bytes, topics: dict[str, bytes]) -> None:
        self.logs: dict[TopicPartition, list[bytes]] = {}
        self.topics = topics
        self.before: Hook = nothing
        self.after: Hook = nothing
        self.outcomes: list[AdoptOutcome] = []
        """Answered in place of the truth, one per partition asked for, until none is left."""
        self.progress: list[int] = []
        """Said with these outcomes, as long as there is any."""
        self.requests: list[str] = []
        self.leader_of: Callable[[TopicPartition], int] = lambda one: one.partition % 2
        self.partitions = 4
        self._objects = objects
        self._cluster_id = cluster_id
        self._sinks: dict[tuple[TopicPartition, bytes], int] = {}

    def row_count(self) -> int:
        return sum(map(len, self.logs.values()))

    def open(self, host: str, port: int, timeout_s: float) -> "Link":
        return Link(self, port)

    def answer(self, broker: int, key: int, request: Any) -> Any:
        kind = "adopt" if key == ADOPT_KEY else "metadata"
        self.requests.append(f"{kind} {broker}")
        self.before(self.requests[-1])
        response = self._adopt(broker, request) if key == ADOPT_KEY else self._metadata(request)
        self.after(self.requests[-1])
        return response

    def _metadata(self, request: MetadataRequest) -> MetadataResponse:
        topics = []
        for asked in request.topics or []:
            name = asked.name or ""
            if name not in self.topics:
                topics.append(MetadataResponseTopic(3, name))
                continue
            topic_id = self.topics[name]
            partitions = [
                MetadataResponsePartition(0, one, self.leader_of(TopicPartition(topic_id, one)), 0)
                for one in range(self.partitions)
            ]
            topics.append(MetadataResponseTopic(0, name, topic_id, False, partitions))
        brokers = [MetadataResponseBroker(one, "here", one) for one in range(2)]
        return MetadataResponse(brokers=brokers, topics=topics)

    def _adopt(self, broker: int, request: AdoptRequest) -> AdoptResponse:
        batch, _ = place_of(request.manifest_key) or (None, None)
        assert batch is not None
        data = self._objects.get(request.manifest_key)
        manifest = decode_manifest(data, batch, cluster_id=self._cluster_id)
        assert manifest.nonce == request.manifest_nonce
        topics = []
        for topic in request.topics:
            results = [
                self._adopt_one(broker, TopicPartition(topic.topic_id, one.partition), manifest)
                for one in topic.partitions
            ]
            topics.append(AdoptTopicResult(topic.topic_id, results))
        return AdoptResponse(topics)

    def _adopt_one(
        self, broker: int, key: TopicPartition, manifest: Manifest
    ) -> AdoptPartitionResult:
        if self.outcomes:
            progress = self.progress.pop(0) if self.progress else -1
            return AdoptPartitionResult(
                key.partition, self.outcomes.pop(0), message="as scripted", progress=progress
            )
        if key.topic_id not in self.topics.values():
            return AdoptPartitionResult(key.partition, AdoptOutcome.UNKNOWN_TOPIC_ID)
        if self.leader_of(key) != broker:
            return AdoptPartitionResult(key.partition, AdoptOutcome.NOT_LEADER)
        sink = key, manifest.header.previous_nonce
        if manifest.header.seq <= self._sinks.get(sink, -1):
            return AdoptPartitionResult(key.partition, AdoptOutcome.ALREADY, -1, -1)
        values = self._values(key, manifest)
        assert len(values) == manifest.head.rows[key]
        log = self.logs.setdefault(key, [])
        first = len(log)
        log += values
        self._sinks[sink] = manifest.header.seq
        return AdoptPartitionResult(key.partition, AdoptOutcome.ADOPTED, first, len(log))

    def _values(self, key: TopicPartition, manifest: Manifest) -> list[bytes]:
        batch, _ = place_of(manifest.key) or (None, None)
        assert batch is not None
        values: list[bytes] = []
        for ref in manifest.head.objects:
            data = self._objects.get(ref.name.key(batch))
            index = finish(decode_staged(data, batch, ref, cluster_id=self._cluster_id))
            body = memoryview(data)[index.header.body_at :]
            values += _values_of(key, index.ranges, body)
        body = memoryview(self._objects.get(manifest.key))[manifest.header.body_at :]
        return values + _values_of(key, manifest.inline, body)


class Link:
    """A connection to one broker of the cluster."""

    def __init__(self, cluster: AdoptingCluster, broker: int) -> None:
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


def _values_of(key: TopicPartition, ranges: Any, body: memoryview) -> list[bytes]:
    values: list[bytes] = []
    found: StagedRange
    for found in ranges:
        if found.partition != key:
            continue
        data = body[found.start : found.end]
        for entry, _ in batches_of(found, data, "key"):
            at = entry.position - found.start
            records = decode_records(data[at : at + entry.length], max_bytes=1 << 20)
            values += [bytes(record.value or b"") for record in records]
    return values
