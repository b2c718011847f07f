"""Staged objects and manifests in the store of a running broker, and adopt requests about them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from logstore.epoch.log import Topic
from logstore.formats.manifest import ManifestHead, ManifestTopic, encode_manifest
from logstore.formats.staged_object import StagedBuilder, StagedRef
from logstore.formats.staging_keys import SinkBatch, StagedName, sink_hash
from logstore.formats.topic_partition import TopicPartition
from logstore.objects.memory import MemoryObjects
from logstore.records.batch import split_batches
from logstore.records.decode import decode_records
from logstore.records.encode import encode_batch, records_of
from logstore.wire.adopt import (
    ADOPT_KEY,
    AdoptOutcome,
    AdoptPartition,
    AdoptPartitionResult,
    AdoptRequest,
    AdoptResponse,
    AdoptTopic,
)
from logstore.wire.framing.client import Connection
from tests.broker.running import DEADLINE_S, NOW_MS, Running, fetch

Rows = Mapping[int, Sequence[Sequence[str]]]
"""By partition: batches of values."""

RECORDS_BYTES_MAX = 1 << 20


@dataclass
class Staging:
    """What one task after the other staged for a batch of the sink `sink_id`, in one topic."""

    cluster_id: bytes
    topic: Topic
    sink_id: str
    batch: int = 0
    created_ms: int = NOW_MS
    query_id: str = "query"
    objects: dict[StagedRef, bytes] = field(default_factory=dict)
    rows: dict[TopicPartition, int] = field(default_factory=dict)
    inline: StagedBuilder = field(default_factory=StagedBuilder)
    nonce: bytes = b"m" * 16

    @property
    def sink_batch(self) -> SinkBatch:
        return SinkBatch(sink_hash(self.sink_id), self.batch)

    def task(self, rows: Rows, **fields: str) -> StagedRef:
        """A task that puts one object."""
        builder = StagedBuilder()
        self._add(builder, rows, **fields)
        nonce = (len(self.objects) + 1).to_bytes(16, "big")
        parts = builder.freeze(
            self.sink_batch, cluster_id=self.cluster_id, nonce=nonce, created_ms=self.created_ms
        )
        data = b"".join(parts)
        ref = StagedRef(StagedName(len(self.objects), 7, 0), nonce, len(data))
        self.objects[ref] = data
        return ref

    def small_task(self, rows: Rows) -> None:
        """A task whose batches travel in the manifest."""
        self._add(self.inline, rows)

    def _add(self, builder: StagedBuilder, rows: Rows, **fields: str) -> None:
        for number, batches in rows.items():
            partition = TopicPartition(self.topic.topic_id, number)
            for values in batches:
                records = records_of([(b"k", value.encode()) for value in values], timestamp=NOW_MS)
                builder.add(partition, encode_batch(records, **fields))  # type: ignore[arg-type]
                self.rows[partition] = self.rows.get(partition, 0) + len(values)

    def head(self) -> ManifestHead:
        topic = ManifestTopic(self.topic.name, self.topic.topic_id, self.topic.partition_count)
        return ManifestHead(
            query_id=self.query_id,
            run_id="run",
            topics=[topic],
            rows=self.rows,
            objects=list(self.objects),
        )

    def manifest(self, head: ManifestHead | None = None) -> bytes:
        parts = encode_manifest(
            self.sink_batch,
            head or self.head(),
            self.inline,
            cluster_id=self.cluster_id,
            nonce=self.nonce,
            created_ms=self.created_ms,
        )
        return b"".join(parts)

    def void(self) -> bytes:
        return replace(self, inline=StagedBuilder()).manifest(
            ManifestHead(query_id="", run_id="", rows={}, is_void=True)
        )

    def put(self, objects: MemoryObjects, manifest: bytes | None = None) -> "Staging":
        for ref, data in self.objects.items():
            objects.create(ref.name.key(self.sink_batch), [data])
        objects.create(self.sink_batch.manifest_key, [manifest or self.manifest()])
        return self

    def request(
        self, *partitions: int, leader_epoch: int = -1, timeout_ms: int = 5_000
    ) -> AdoptRequest:
        asked = [AdoptPartition(one, leader_epoch) for one in partitions or (0,)]
        topics = [AdoptTopic(self.topic.topic_id, asked)]
        return AdoptRequest(self.sink_batch.manifest_key, self.nonce, timeout_ms, topics)


def staging(running: Running, topic: Topic, sink_id: str, batch: int = 0) -> Staging:
    return Staging(running.log.cluster_id, topic, sink_id, batch)


def connect(running: Running) -> Connection:
    """A connection that knows our own requests."""
    return Connection.open("127.0.0.1", running.listener.port, DEADLINE_S)


def adopt(running: Running, request: AdoptRequest) -> list[AdoptPartitionResult]:
    """The results of the request's only topic."""
    with connect(running) as client:
        response: AdoptResponse = client.call(ADOPT_KEY, request, version=0)
    (topic,) = response.topics
    return topic.partitions


def outcome(running: Running, request: AdoptRequest) -> tuple[AdoptOutcome, int, int]:
    """Outcome and offsets of the request's only partition."""
    (result,) = adopt(running, request)
    return AdoptOutcome(result.outcome), result.first_offset, result.end_offset


def refusal(running: Running, request: AdoptRequest, expected: AdoptOutcome) -> str:
    """Why the request's only partition is refused."""
    (result,) = adopt(running, request)
    assert result.outcome == expected, result
    return result.message or ""


def values(running: Running, name: str, partition: int = 0) -> list[str]:
    """All that is stored, in order; offsets are checked to be dense from 0 on."""
    found: list[str] = []
    with running.connect() as client:
        end = fetch(client, name, partition=partition).high_watermark
        while len(found) < end:
            found += _values_from(client, name, partition, len(found))
    return found


def _values_from(client: Connection, name: str, partition: int, offset: int) -> list[str]:
    data = fetch(client, name, offset=offset, partition=partition).records
    raw = b"".join(data) if isinstance(data, list) else bytes(data or b"")
    found: list[str] = []
    for at, header in split_batches(raw):
        assert header.base_offset == offset + len(found)
        records = decode_records(raw[at : at + header.size_bytes], max_bytes=RECORDS_BYTES_MAX)
        found += [bytes(one.value or b"").decode() for one in records]
    assert found
    return found
