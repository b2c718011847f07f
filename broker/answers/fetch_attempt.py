"""One attempt to answer a Fetch: the data in memory, and the segments to read from the store.

Calls no I/O. A fetch that waits makes an attempt after each commit; one that needs the store makes
one, loads the segments that it names, and makes another.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from broker.answers.broker import Broker
from broker.answers.fence_check import FenceCheck
from broker.answers.leader_hint import Hint
from broker.answers.leaders import hint_of, own_hint, preferred_replica
from broker.answers.partitions import check_epoch
from broker.answers.traffic import Served
from broker.network.authorizer import Operation, ResourceKind
from broker.network.call import Call
from logstore.epoch.log import Topic
from logstore.formats.topic_partition import TopicPartition
from logstore.reading.brokers.read import Chunk
from logstore.reading.brokers.readable import Readable
from logstore.reading.planning.table_batches import Compression
from logstore.records.batch import read_header
from logstore.slices import Slices
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    LeaderIdAndEpoch,
    PartitionData,
)

TOPIC_IDS_FROM = 13
ZSTD_FROM = 10
FOLLOWERS_FROM = 11
ENDPOINTS_FROM = 16
CONSUMER = -1
READ_COMMITTED = 1
UNKNOWN_OFFSET = -1


PartitionKey = tuple[int, int]
"""Which topic and partition of the request, by position."""


class StoreRead(NamedTuple):
    """A read that memory cannot serve."""

    key: PartitionKey
    partition: Readable
    offset: int
    up_to: int
    bytes_max: int
    compression: Compression
    """For batches that have to be made from the topic's table."""


Loaded = Mapping[PartitionKey, Chunk | ErrorCode]


class FetchAttempt:
    """The result of one attempt. `bytes_max` bounds the whole answer, softly."""

    def __init__(
        self,
        broker: Broker,
        call: Call,
        request: FetchRequest,
        loaded: Loaded,
        fence_check: FenceCheck = None,
    ) -> None:
        self.topics: list[FetchableTopicResponse] = []
        self.byte_count = 0
        self.is_final = False
        """Whether there is an error, or another broker to ask: waiting would not help."""
        self.is_doubtful = False
        """Whether something is said that a successor of this broker might say otherwise."""
        self.is_unnamed = False
        """Whether the consumer is sent away from a partition and no leader is named."""
        self.hints: dict[int, Hint] = {}
        """Other leaders that are named, by broker."""
        self.sent_away: list[TopicPartition] = []
        """Partitions that the consumer is to read at a follower."""
        self.store_reads: list[StoreRead] = []
        self.waited_for: list[tuple[PartitionKey, Readable]] = []
        """Partitions that were read up to their end: more may come there."""
        self.served: list[Served] = []
        """Batches that are in the answer."""
        self.bytes_by_partition: dict[PartitionKey, int] = {}
        """Of partitions that have any."""
        self.is_full = False
        """Whether batches were left out that had no room: nothing more can come."""
        self._broker = broker
        self._call = call
        self._loaded = loaded
        self._fence_check = fence_check
        self._is_fenced = broker.clients.is_fenced
        self._is_committed_only = request.isolation_level == READ_COMMITTED
        self._may_follow = call.version >= FOLLOWERS_FROM and request.replica_id == CONSUMER
        self._rack = request.rack_id if self._may_follow else ""
        self._request = request
        share_bytes = broker.clients.slow_readers.share_bytes(call.connection.unsent_bytes)
        self._left = min(request.max_bytes, broker.fetch_bytes_max, share_bytes)

    def look_at_all(self) -> Slices[None]:
        """Yields after each of them; what is committed after that is not in the answer."""
        for place, asked in enumerate(self._request.topics):
            topic, code = self._find_readable(asked)
            answers: list[PartitionData] = []
            self.topics.append(FetchableTopicResponse(asked.topic, asked.topic_id, answers))
            yield
            for number, wanted in enumerate(asked.partitions):
                if topic is None:
                    answers.append(self._error(wanted, code))
                else:
                    answers.append(self._answer_partition(topic, wanted, (place, number)))
                yield

    def look_at_some(self, keys: Iterable[PartitionKey]) -> None:
        """Look at these alone; `topics` stays empty."""
        for place, number in keys:
            asked = self._request.topics[place]
            topic, code = self._find_readable(asked)
            wanted = asked.partitions[number]
            if topic is None:
                self._error(wanted, code)
            else:
                self._answer_partition(topic, wanted, (place, number))

    def _find_readable(self, asked: FetchTopic) -> tuple[Topic | None, ErrorCode]:
        if self._is_fenced or self._fence_check:
            return None, self._fence_check or ErrorCode.NOT_LEADER_OR_FOLLOWER
        return self._find(asked)

    def _answer_partition(
        self, topic: Topic, wanted: FetchPartition, key: PartitionKey
    ) -> PartitionData:
        number = wanted.partition
        leader = topic.leaders.get(number)
        if leader is not None and not leader.is_released:
            code = check_epoch(leader, wanted.current_leader_epoch)
            if code:
                hint = own_hint(self._broker, self._call, leader.leader_epoch)
                return self._error(wanted, code, hint)
            return self._read(leader, topic, wanted, key)
        if not 0 <= number < topic.partition_count:
            return self._error(wanted, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        followed = topic.followers.get(number) if self._may_follow else None
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        if followed is not None and followed.error is not None:
            self._broker.alarms.cannot_serve(followed, followed.high_watermark, followed.error)
        elif followed is not None and followed.is_ready:
            code = check_epoch(followed, wanted.current_leader_epoch)
            answer = None if code else self._read(followed, None, wanted, key)
            if answer is not None and answer.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
                return answer
            code = code or ErrorCode.NOT_LEADER_OR_FOLLOWER
        elsewhere = hint_of(self._broker, self._call, topic, number)
        if elsewhere is None:
            self._broker.leader_settling.moving(topic, number)
            self.is_unnamed = True
        return self._error(wanted, code, elsewhere)

    def _error(
        self, wanted: FetchPartition, code: ErrorCode, hint: Hint | None = None
    ) -> PartitionData:
        self.is_final = True
        if code == ErrorCode.UNKNOWN_LEADER_EPOCH and self._fence_check is None:
            self.is_doubtful = True
        answer = PartitionData(wanted.partition, code, -1)
        # As Kafka: from the version on that has the leader's address as well. A client that hears
        # of a broker it does not know may wait for it for ever (kafka-python 3.0.12).
        if hint is not None and self._call.version >= ENDPOINTS_FROM:
            answer.current_leader = LeaderIdAndEpoch(hint.broker, hint.leader_epoch)
            self.hints[hint.broker] = hint
        return answer

    def _find(self, asked: FetchTopic) -> tuple[Topic | None, ErrorCode]:
        """The topic, or why none of its partitions can be read."""
        log, version = self._broker.log, self._call.version
        by_id = version >= TOPIC_IDS_FROM
        topic = log.topics_by_id.get(asked.topic_id) if by_id else log.topics.get(asked.topic)
        if topic is not None:
            if not self._broker.allows_on(self._call, Operation.READ, topic):
                return None, ErrorCode.TOPIC_AUTHORIZATION_FAILED
            if version < ZSTD_FROM and self._broker.rules(topic).is_zstd:
                return None, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
            return topic, ErrorCode.NONE
        if by_id:
            return None, ErrorCode.UNKNOWN_TOPIC_ID
        if not self._broker.allows(self._call, Operation.READ, ResourceKind.TOPIC, asked.topic):
            return None, ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _read(
        self, partition: Readable, led: Topic | None, wanted: FetchPartition, key: PartitionKey
    ) -> PartitionData:
        """Read a partition: of the topic `led` as its leader, else as one of its followers."""
        stable = partition.last_stable_offset
        answer = PartitionData(
            wanted.partition,
            0,
            partition.high_watermark,
            stable,
            partition.log_start,
            [] if self._is_committed_only else None,
        )
        offset = wanted.fetch_offset
        # A follower does not know where the log ends: a fetch above its own end waits.
        is_beyond = led is not None and offset > partition.log_end
        if offset < partition.log_start or is_beyond:
            answer.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
            self.is_final = True
            self.is_doubtful = self.is_doubtful or (is_beyond and self._fence_check is None)
            return answer
        if led is not None and self._rack:
            near = preferred_replica(self._broker, self._call, led, wanted.partition, self._rack)
            if near >= 0:
                answer.preferred_read_replica = near
                self.sent_away.append(TopicPartition(led.topic_id, wanted.partition))
                self.is_final = True
                return answer
        up_to = stable if self._is_committed_only else partition.high_watermark
        if offset >= up_to:
            self.waited_for.append((key, partition))
        elif self._left > 0 or not self.byte_count:
            self._take(partition, wanted, key, up_to, answer)
        else:
            self.is_full = True
        return answer

    def _take(
        self,
        partition: Readable,
        wanted: FetchPartition,
        key: PartitionKey,
        up_to: int,
        answer: PartitionData,
    ) -> None:
        """Put batches into `answer`, or note that they have to be loaded."""
        bytes_max = min(wanted.partition_max_bytes, self._left)
        chunk = self._loaded.get(key)
        if isinstance(chunk, ErrorCode):
            answer.error_code = chunk
            self.is_final = True
            return
        offset = wanted.fetch_offset
        log = self._broker.log
        if chunk is None:
            consumer = self._call.connection.peer
            chunk = log.read_in_memory(partition, offset, up_to, bytes_max, consumer)
        if chunk is None:
            topic = log.topics_by_id.get(partition.topic_id)
            codec: Compression = "producer"
            if topic is not None:
                codec = self._broker.rules(topic).table_codec
            self.store_reads.append(StoreRead(key, partition, offset, up_to, bytes_max, codec))
            return
        if chunk.byte_count > self._left and self.byte_count:
            chunk = _first_batches(chunk, self._left)
        if chunk.end_offset >= up_to:
            self.waited_for.append((key, partition))
        elif bytes_max < wanted.partition_max_bytes:
            self.is_full = True
        self._left -= chunk.byte_count
        self.byte_count += chunk.byte_count
        self.bytes_by_partition[key] = chunk.byte_count
        record_count = max(0, chunk.end_offset - offset)
        self.served.append(Served(partition.topic_id, chunk.byte_count, record_count))
        answer.records = list(chunk.buffers)


def _first_batches(chunk: Chunk, bytes_max: int) -> Chunk:
    """As many whole batches as fit: it was loaded when there was more room, or one is too large."""
    kept: list[memoryview] = []
    left, end_offset = bytes_max, UNKNOWN_OFFSET
    for buffer in chunk.buffers:
        at = 0
        while at < len(buffer):
            header = read_header(buffer, at, len(buffer) - at)
            if header.size_bytes > left:
                kept.append(buffer[:at])
                return Chunk(kept, bytes_max - left, end_offset)
            at += header.size_bytes
            left -= header.size_bytes
            end_offset = header.next_offset
        kept.append(buffer)
    return Chunk(kept, bytes_max - left, end_offset)
