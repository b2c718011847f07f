"""Partitions, a client and its fetch session, without a broker: every change between two steps.

`Client` knows what its session's answers said, as Kafka's clients keep it.
"""

from collections.abc import Callable, Sequence
from typing import Any, cast

from broker.answers.decisions.fetch_session import FetchSession
from broker.answers.decisions.fetch_sessions import FetchSessions
from broker.answers.fetch_interest import SessionInterest
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)

NO_ROOM = 0
TERMS = (12, 0, "", 0)


def request_of(
    *numbers: int,
    session: tuple[int, int] = (0, 0),
    topic: str = "t",
    forgotten: Sequence[int] = (),
) -> FetchRequest:
    request = FetchRequest(-1, 0, 1, topics=[])
    if numbers:
        wanted = [FetchPartition(number) for number in numbers]
        request.topics = [FetchTopic(topic, partitions=wanted)]
    if forgotten:
        request.forgotten_topics_data = [ForgottenTopic(topic, partitions=list(forgotten))]
    request.session_id, request.session_epoch = session
    return request


class Partition:
    """Offsets of one that is led here, or of one that is not (`is_led`)."""

    def __init__(self) -> None:
        self.log_start = self.high_watermark = 0
        self.is_led = True
        self.watchers: dict[Callable[[], None], None] = {}

    def watch(self, watcher: Callable[[], None]) -> None:
        self.watchers[watcher] = None

    def unwatch(self, watcher: Callable[[], None]) -> None:
        self.watchers.pop(watcher, None)

    def commit(self) -> None:
        self.high_watermark += 1
        self.wake()

    def raise_log_start(self) -> None:
        if self.log_start < self.high_watermark:
            self.log_start += 1
            self.wake()

    def retire(self) -> None:
        self.is_led = False
        self.wake()

    def wake(self) -> None:
        for watcher in tuple(self.watchers):
            watcher()


class Attempt:
    """A look at the partitions of a request, like `FetchAttempt`; `room` is in records."""

    def __init__(self, world: "World", request: FetchRequest, room: int) -> None:
        self.topics: list[FetchableTopicResponse] = []
        self.waited_for: list[Any] = []
        self.left = room
        self._world = world
        self._request = request

    def look_at_all(self) -> Any:
        for place, topic in enumerate(self._request.topics):
            answers: list[PartitionData] = []
            self.topics.append(FetchableTopicResponse(topic.topic, topic.topic_id, answers))
            for number, asked in enumerate(topic.partitions):
                answers.append(self.answer((place, number), asked))
                yield

    def answer(self, key: tuple[int, int], asked: FetchPartition) -> PartitionData:
        partition = self._world.partitions[asked.partition]
        self._world.looks.append(asked.partition)
        if not partition.is_led:
            return PartitionData(asked.partition, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
        end, start = partition.high_watermark, partition.log_start
        data = PartitionData(asked.partition, 0, end, end, start)
        if asked.fetch_offset < start:
            data.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        elif asked.fetch_offset >= end:
            self.waited_for.append((key, partition))
        elif self.left > 0:
            taken = min(self.left, end - asked.fetch_offset)
            self.left -= taken
            data.records = b"r" * taken
            if asked.fetch_offset + taken == end:
                self.waited_for.append((key, partition))
        return data


class World:
    def __init__(self, count: int, sessions: FetchSessions | None = None) -> None:
        self.partitions = [Partition() for _ in range(count)]
        self.looks: list[int] = []
        """Every look at a partition, in order."""
        self.sessions = sessions or FetchSessions(slots_max=10, partitions_max=1000)
        self.session: FetchSession | None = None

    def fetch(
        self, request: FetchRequest, *, room: int = 1000, between: Callable[[], None] | None = None
    ) -> tuple[int, list[PartitionData]]:
        """The error and the answers of one fetch; `between` its steps partitions change."""
        session = self.sessions.begin(self.session, request, by_id=False, now_s=0.0)
        if isinstance(session, ErrorCode):
            return session, []
        assert session is not None, "it was granted none"
        self.session = session
        interest = SessionInterest(self.sessions, session, request, TERMS, lambda: None)
        step = between or (lambda: None)
        attempt = Attempt(self, interest.request, room)
        for _ in interest.begin_look():
            step()
        count = 0
        for _ in attempt.look_at_all():
            for key, partition in attempt.waited_for[count:]:
                interest.watch(key, partition)
            count = len(attempt.waited_for)
            step()
        slices = interest.answers(cast("Any", attempt))
        while True:
            try:
                next(slices)
            except StopIteration as end:
                answered: list[FetchableTopicResponse] = end.value
                return 0, [one for topic in answered for one in topic.partitions]
            step()


class Client:
    """Keeps offsets and the last answer of each partition of its session."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.epoch = 0
        self.offsets: dict[int, int] = {}
        self.view: dict[int, tuple[int, int, int]] = {}
        """Error, high watermark and log start."""
        self._sent: dict[int, int] = {}
        """Offsets as the session has them."""

    def poll(self, *, room: int = 1000, between: Callable[[], None] | None = None) -> None:
        changed = [n for n, offset in self.offsets.items() if self._sent.get(n) != offset]
        forgotten = [n for n in self._sent if n not in self.offsets]
        for number in forgotten:
            self.view.pop(number, None)
        session = self.world.session
        named = (0 if session is None else session.id, self.epoch)
        request = request_of(*changed, session=named, forgotten=forgotten)
        for topic in request.topics:
            for asked in topic.partitions:
                asked.fetch_offset = self.offsets[asked.partition]
        error, answers = self.world.fetch(request, room=room, between=between)
        assert not error
        self.epoch += 1
        self._sent = dict(self.offsets)
        for data in answers:
            self._take(data)

    def _take(self, data: PartitionData) -> None:
        number = data.partition_index
        assert number in self.offsets, "it was forgotten"
        if data.error_code:
            self.view[number] = (data.error_code, -1, -1)
            if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                self.offsets[number] = data.log_start_offset
            return
        self.view[number] = (0, data.high_watermark, data.log_start_offset)
        records = data.records
        assert isinstance(records, bytes)
        self.offsets[number] += len(records)
