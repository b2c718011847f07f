"""One look at the log for a Fetch: what can be answered now, and what has to be read first.

Calls no I/O. A fetch that waits takes a look whenever something was committed; one that needs the
store takes a look, loads what the look names, and looks again.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from broker.authorizer import Kind, Operation
from broker.call import Call
from broker.partitions import check_epoch
from logstore.log.leader import Leader
from logstore.log.log import Topic
from logstore.log.read import Chunk
from logstore.records.batch import read_header
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    LeaderIdAndEpoch,
    PartitionData,
)

if TYPE_CHECKING:
    from broker.broker import Broker

TOPIC_IDS_FROM = 13
ZSTD_FROM = 10
LEADER_TOLD_FROM = 12
READ_COMMITTED = 1
UNKNOWN_OFFSET = -1


class Cold(NamedTuple):
    """A read that memory cannot serve."""

    key: tuple[int, int]
    """Which topic and partition of the request, by position."""
    leader: Leader
    offset: int
    up_to: int
    bytes_max: int


Loaded = Mapping[tuple[int, int], Chunk | ErrorCode]


class Look:
    """What one look found. `bytes_max` bounds the whole answer, softly."""

    def __init__(self, broker: "Broker", call: Call, request: FetchRequest, loaded: Loaded) -> None:
        self.topics: list[FetchableTopicResponse] = []
        self.byte_count = 0
        self.has_error = False
        self.tells_leader = False
        self.cold: list[Cold] = []
        self.waited_for: list[Leader] = []
        """Partitions of which everything there is was taken: more may come."""
        self._broker = broker
        self._call = call
        self._loaded = loaded
        self._is_fenced = broker.clients.is_fenced
        self._is_committed_only = request.isolation_level == READ_COMMITTED
        self._left = min(request.max_bytes, broker.fetch_bytes_max)
        for place, asked in enumerate(request.topics):
            self._look_at_topic(place, asked)

    def _look_at_topic(self, place: int, asked: FetchTopic) -> None:
        topic, code = None, ErrorCode.NOT_LEADER_OR_FOLLOWER
        if not self._is_fenced:
            topic, code = self._find(asked)
        answers: list[PartitionData] = []
        self.topics.append(FetchableTopicResponse(asked.topic, asked.topic_id, answers))
        for number, wanted in enumerate(asked.partitions):
            leader = None
            if topic is not None:
                leader, code = self._leader(topic, wanted)
            if leader is None:
                self.has_error = True
                answers.append(PartitionData(wanted.partition, code, -1))
            elif code:
                self.has_error = True
                answers.append(self._wrong_epoch(leader, wanted, code))
            else:
                answers.append(self._read(leader, wanted, (place, number)))

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
        if not self._broker.allows(self._call, Operation.READ, Kind.TOPIC, asked.topic):
            return None, ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _leader(self, topic: Topic, wanted: FetchPartition) -> tuple[Leader | None, ErrorCode]:
        if not 0 <= wanted.partition < len(topic.leaders):
            return None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        leader = topic.leaders[wanted.partition]
        return leader, check_epoch(leader, wanted.current_leader_epoch)

    def _wrong_epoch(
        self, leader: Leader, wanted: FetchPartition, code: ErrorCode
    ) -> PartitionData:
        answer = PartitionData(wanted.partition, code, -1)
        if self._call.version >= LEADER_TOLD_FROM:
            answer.current_leader = LeaderIdAndEpoch(self._broker.node_id, leader.leader_epoch)
            self.tells_leader = True
        return answer

    def _read(self, leader: Leader, wanted: FetchPartition, key: tuple[int, int]) -> PartitionData:
        stable = leader.last_stable_offset
        answer = PartitionData(
            wanted.partition,
            0,
            leader.high_watermark,
            stable,
            leader.log_start,
            [] if self._is_committed_only else None,
        )
        offset = wanted.fetch_offset
        if not leader.log_start <= offset <= leader.log_end:
            answer.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
            self.has_error = True
            return answer
        up_to = stable if self._is_committed_only else leader.high_watermark
        if offset >= up_to:
            self.waited_for.append(leader)
        elif self._left > 0 or not self.byte_count:
            self._take(leader, wanted, key, up_to, answer)
        return answer

    def _take(
        self,
        leader: Leader,
        wanted: FetchPartition,
        key: tuple[int, int],
        up_to: int,
        answer: PartitionData,
    ) -> None:
        """Put batches into `answer`, or note that they have to be loaded."""
        bytes_max = min(wanted.partition_max_bytes, self._left)
        found = self._loaded.get(key)
        if isinstance(found, ErrorCode):
            answer.error_code = found
            self.has_error = True
            return
        offset = wanted.fetch_offset
        if found is None:
            log = self._broker.log
            found = log.read_in_memory(leader, offset, up_to, bytes_max)
        if found is None:
            self.cold.append(Cold(key, leader, offset, up_to, bytes_max))
            return
        if found.byte_count > self._left and self.byte_count:
            found = _first_batches(found, self._left)
        self._left -= found.byte_count
        self.byte_count += found.byte_count
        answer.records = list(found.buffers)
        if found.end_offset >= up_to:
            self.waited_for.append(leader)


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
