"""One fetch session (KIP-227): its partitions, and those that the next fetch has to look at. Pure.

    request ──update──▶ due ──take_due──▶ a look ──answered──▶ settled, or due again
                         ▲                                        │
                         └──────── the partition changed ─────────┘

A partition is settled once it was answered at its end without error: its leader, or follower, calls
it at the next change, and until then no fetch looks at it. All others stay due: with records that
were not sent or not consumed, with an error, sent to a follower. So an idle fetch costs nothing per
partition. Partitions whose records were sent go behind the others, so that none starves where an
answer has no room for all (`FetchSession.PartitionIterator` of Kafka).

A session belongs to the connection that opened it, unlike Kafka's: it ends with it, and no other
client can use it. Clients begin a new session after an error of their connection anyway.
"""

from collections.abc import Callable
from typing import Protocol

from logstore.reading.brokers.readable import Readable
from logstore.slices import Slices
from logstore.wire.messages.fetch import FetchPartition, FetchRequest, PartitionData

FIRST_EPOCH = 0
"""Of a request that asks for a session."""
NO_EPOCH = -1
"""Of a request without a session, or one that ends it."""
EPOCH_MAX = 2**31 - 1
UNKNOWN = -1

TopicKey = str | bytes
"""Topic name, or topic id from version 13 on."""

Terms = tuple[int, int, str, int]
"""Version, isolation level, rack and version of the rights, by which partitions were looked at."""


def next_epoch(epoch: int) -> int:
    return 1 if epoch == EPOCH_MAX else epoch + 1


class SessionPartition:
    """One partition as the client asks for it, and the offsets of its last answer.

    It is the watcher of its partition: a call says that it changed.
    """

    __slots__ = (
        "asked",
        "high_watermark",
        "last_stable_offset",
        "log_start",
        "place",
        "readable",
        "session",
        "topic",
    )

    def __init__(
        self, session: "FetchSession", topic: "SessionTopic", asked: FetchPartition
    ) -> None:
        self.session = session
        self.topic = topic
        self.asked = asked
        self.readable: Readable | None = None
        """The leader or follower that calls at changes."""
        self.place: tuple[int, int] | None = None
        """Position in the fetch that is under way."""
        self.high_watermark = self.last_stable_offset = self.log_start = UNKNOWN

    def __call__(self) -> None:
        self.session.changed(self)

    def watch(self, readable: Readable) -> None:
        if self.readable is readable or self.session.is_closed:
            return
        self.unwatch()
        self.readable = readable
        readable.watch(self)

    def unwatch(self) -> None:
        if self.readable is not None:
            self.readable.unwatch(self)
            self.readable = None

    def remember(self, data: PartitionData) -> bool:
        """Note an answer; whether it differs from the last one, so that it must be sent."""
        if data.error_code:
            self.high_watermark = UNKNOWN  # sent again once the error is gone
            return True
        offsets = (data.high_watermark, data.last_stable_offset, data.log_start_offset)
        is_new = offsets != (self.high_watermark, self.last_stable_offset, self.log_start)
        self.high_watermark, self.last_stable_offset, self.log_start = offsets
        return is_new or bool(data.records) or data.preferred_read_replica >= 0


class SessionTopic:
    __slots__ = ("name", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: bytes) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions: dict[int, SessionPartition] = {}


class Owner(Protocol):
    """The cache of the session."""

    def close(self, session: "FetchSession", /) -> None: ...


class FetchSession:
    def __init__(self, owner: Owner, session_id: int, *, by_id: bool, created_s: float) -> None:
        self.id = session_id
        self.epoch = next_epoch(FIRST_EPOCH)
        """Of the next request."""
        self.by_id = by_id
        self.created_s = self.used_s = created_s
        self.partition_count = 0
        self.counted_size = 0
        """Partitions that the cache counts for it."""
        self.on_change: Callable[[], None] | None = None
        """Of the fetch that waits."""
        self.is_closed = False
        self._owner = owner
        self._terms: Terms | None = None
        self._topics: dict[TopicKey, SessionTopic] = {}
        self._due: dict[SessionPartition, None] = {}
        self._served: list[SessionPartition] = []

    # Partitions that come and go

    def growth(self, request: FetchRequest) -> int:
        """Partitions of `request` that the session does not have; those named twice count twice."""
        total = 0
        for topic in request.topics:
            known = self._topics.get(topic.topic_id if self.by_id else topic.topic)
            numbers = () if known is None else known.partitions
            total += sum(one.partition not in numbers for one in topic.partitions)
        return total

    def update(self, request: FetchRequest) -> Slices[None]:
        """Take the partitions that `request` adds, asks for otherwise, or forgets."""
        for topic in request.topics:
            key = topic.topic_id if self.by_id else topic.topic
            known = self._topics.get(key)
            if known is None:
                known = self._topics[key] = SessionTopic(topic.topic, topic.topic_id)
            for asked in topic.partitions:
                partition = known.partitions.get(asked.partition)
                if partition is None:
                    partition = SessionPartition(self, known, asked)
                    known.partitions[asked.partition] = partition
                    self.partition_count += 1
                partition.asked = asked
                self._due[partition] = None
                yield
        for forgotten in request.forgotten_topics_data:
            key = forgotten.topic_id if self.by_id else forgotten.topic
            for number in forgotten.partitions:
                self._forget(key, number)
                yield

    def _forget(self, key: TopicKey, number: int) -> None:
        topic = self._topics.get(key)
        partition = None if topic is None else topic.partitions.pop(number, None)
        if topic is None or partition is None:
            return
        partition.unwatch()
        self._due.pop(partition, None)
        self.partition_count -= 1
        if not topic.partitions:
            del self._topics[key]

    # Partitions to look at

    @property
    def has_due(self) -> bool:
        return bool(self._due)

    def take_due(self) -> list[SessionPartition]:
        """Those to look at now; a change from here on makes one due again."""
        due, self._due = self._due, {}
        return list(due)

    def changed(self, partition: SessionPartition) -> None:
        self._due[partition] = None
        if self.on_change is not None:
            self.on_change()

    def look_by(self, terms: Terms) -> None:
        """Look at all partitions again if `terms` are other ones than at the last fetch."""
        if self._terms != terms:
            self._terms = terms
            self.doubt_all()

    def doubt_all(self) -> None:
        """Look at all partitions again."""
        for topic in self._topics.values():
            self._due.update(dict.fromkeys(topic.partitions.values()))

    # Answers

    def answered(self, partition: SessionPartition, data: PartitionData, *, is_end: bool) -> bool:
        """Whether `data` has to be in an incremental answer.

        `is_end`: nothing more was there when `partition` was looked at, and it was watched then.
        """
        partition.place = None
        must_send = partition.remember(data)
        if data.records:
            self._served.append(partition)
        elif data.error_code or not is_end:
            self._due[partition] = None
        return must_send

    def put_back(self, partition: SessionPartition) -> None:
        """It was looked at, and is not answered."""
        partition.place = None
        if not self.is_closed:
            self._due[partition] = None

    def finish_answer(self) -> None:
        """All partitions were `answered`: those with records are due behind the others."""
        for partition in self._served:
            self._due.pop(partition, None)
            self._due[partition] = None
        self._served = []

    # Ending

    def end(self) -> None:
        """Leave the cache: the connection is lost, or no partition is left."""
        self._owner.close(self)

    def close(self) -> None:
        """Forget everything; a fetch that waits is called."""
        self.is_closed = True
        for topic in self._topics.values():
            for partition in topic.partitions.values():
                partition.unwatch()
            topic.partitions.clear()  # each of them refers to its topic
        self._topics.clear()
        self._due.clear()
        on_change, self.on_change = self.on_change, None
        if on_change is not None:
            on_change()
