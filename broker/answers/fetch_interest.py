"""The partitions that one Fetch is about, and which of them changed since they were looked at.

`RequestInterest` is that of a request without a session: all its partitions, watched while it
waits. `SessionInterest` is that of a request in a session: the partitions that are due by now. They
are found by place, and keep their place while the request lasts; others come after them.
"""

from collections.abc import Callable
from typing import Protocol

from broker.answers.decisions.fetch_session import (
    FetchSession,
    SessionPartition,
    SessionTopic,
    Terms,
)
from broker.answers.decisions.fetch_sessions import FetchSessions
from broker.answers.fetch_attempt import FetchAttempt, PartitionKey
from logstore.reading.brokers.readable import Readable
from logstore.slices import Slices
from logstore.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchTopic

AT_ONCE_MAX = 100
"""Partitions that are looked at without a turn for others."""

Topics = list[FetchableTopicResponse]


class Interest(Protocol):
    request: FetchRequest
    """Its partitions are those to look at."""
    session_id: int
    """Of the answer; 0: there is no session."""
    is_large: bool
    """Whether partitions are looked at in slices, and again where they changed."""
    is_kept: bool
    """Whether partitions stay watched after the answer."""

    @property
    def is_over(self) -> bool:
        """Whether to wait no longer."""
        ...

    @property
    def has_changes(self) -> bool: ...

    def begin_look(self) -> Slices[None]:
        """All partitions of `request` are about to be looked at."""
        ...

    def take_changes(self) -> list[PartitionKey]:
        """Partitions to look at again."""
        ...

    def watch(self, key: PartitionKey, partition: Readable) -> None:
        """It was looked at just now: note changes from here on."""
        ...

    def end_wait(self) -> None: ...

    def end(self) -> None:
        """The fetch is answered, or will not be: call it no more, so that it is freed at once."""
        ...

    def doubt_all(self) -> None:
        """Nothing that was answered before is certain."""
        ...

    def answers(self, attempt: FetchAttempt) -> Slices[Topics]:
        """Those of `attempt` to be sent."""
        ...

    def put_back(self) -> Slices[None]:
        """Nothing is sent: the next fetch looks at the same partitions."""
        ...


class _Watch:
    """Says of one partition of a waiting fetch that it changed."""

    __slots__ = ("_interest", "_key")

    def __init__(self, interest: "RequestInterest", key: PartitionKey) -> None:
        self._interest = interest
        self._key = key

    def __call__(self) -> None:
        self._interest.changed(self._key)


class RequestInterest:
    """As `Interest`, for one request; `on_change` is called while it waits."""

    __slots__ = (
        "_changed",
        "_on_change",
        "_unwatch",
        "_watched",
        "is_kept",
        "is_large",
        "is_over",
        "request",
        "session_id",
    )

    def __init__(self, request: FetchRequest, on_change: Callable[[], None]) -> None:
        self.request = request
        self.session_id = 0
        partition_count = sum([len(topic.partitions) for topic in request.topics])
        self.is_large = max(partition_count, len(request.topics)) > AT_ONCE_MAX
        self.is_kept = self.is_over = False
        self._on_change: Callable[[], None] | None = on_change
        self._changed: dict[PartitionKey, None] = {}
        self._watched: set[PartitionKey] = set()
        self._unwatch: list[Callable[[], None]] = []

    @property
    def has_changes(self) -> bool:
        return bool(self._changed)

    def begin_look(self) -> Slices[None]:
        self._changed.clear()
        yield from ()

    def take_changes(self) -> list[PartitionKey]:
        changed, self._changed = self._changed, {}
        return list(changed)

    def watch(self, key: PartitionKey, partition: Readable) -> None:
        if key not in self._watched:
            self._watched.add(key)
            self._unwatch.append(partition.watch(_Watch(self, key)))

    def changed(self, key: PartitionKey) -> None:
        if self.is_large:
            self._changed[key] = None
        if self._on_change is not None:
            self._on_change()

    def end_wait(self) -> None:
        for unwatch in self._unwatch:
            unwatch()
        self._unwatch.clear()
        self._watched.clear()
        self._changed.clear()

    def end(self) -> None:
        self._on_change = None

    def doubt_all(self) -> None:
        """All are looked at anyway."""

    def answers(self, attempt: FetchAttempt) -> Slices[Topics]:
        yield from ()
        return attempt.topics

    def put_back(self) -> Slices[None]:
        yield from ()


class SessionInterest:
    """As `Interest`, for a request in `session`: its partitions are looked at when they are due."""

    is_kept = is_large = True

    def __init__(
        self,
        sessions: FetchSessions,
        session: FetchSession,
        request: FetchRequest,
        terms: Terms,
        on_change: Callable[[], None],
    ) -> None:
        self.session_id = session.id
        self.request = FetchRequest(
            request.replica_id,
            request.max_wait_ms,
            request.min_bytes,
            request.max_bytes,
            request.isolation_level,
            rack_id=request.rack_id,
            replica_state=request.replica_state,
        )
        self._update: FetchRequest | None = request
        self._is_first = request.session_epoch == 0
        self._sessions = sessions
        self._session = session
        self._terms = terms
        self._places: list[list[SessionPartition]] = []
        """By the places of `request`."""
        self._last_topic: SessionTopic | None = None
        session.on_change = on_change

    @property
    def is_over(self) -> bool:
        return self._session.is_closed

    @property
    def has_changes(self) -> bool:
        return self._session.has_due

    def begin_look(self) -> Slices[None]:
        session = self._session
        if self._update is not None:
            yield from session.update(self._update)
            self._update = None
            self._sessions.updated(session)
            session.look_by(self._terms)
        if not session.partition_count:  # all were forgotten: as in Kafka it ends by that
            session.end()
            self.session_id = 0
        for partition in session.take_due():
            self._place_of(partition)
            yield

    def take_changes(self) -> list[PartitionKey]:
        return [self._place_of(partition) for partition in self._session.take_due()]

    def _place_of(self, partition: SessionPartition) -> PartitionKey:
        if partition.place is not None:
            return partition.place
        topic = partition.topic
        if topic is not self._last_topic:
            self._last_topic = topic
            self.request.topics.append(FetchTopic(topic.name, topic.topic_id))
            self._places.append([])
        self.request.topics[-1].partitions.append(partition.asked)
        self._places[-1].append(partition)
        partition.place = (len(self._places) - 1, len(self._places[-1]) - 1)
        return partition.place

    def watch(self, key: PartitionKey, partition: Readable) -> None:
        place, number = key
        self._places[place][number].watch(partition)

    def end_wait(self) -> None:
        """Changes are noted all the same."""

    def end(self) -> None:
        """`answers` does it; without an answer the session ends with its connection."""

    def doubt_all(self) -> None:
        self._session.doubt_all()

    def answers(self, attempt: FetchAttempt) -> Slices[Topics]:
        session = self._session
        session.on_change = None
        ends = {key for key, _ in attempt.waited_for}
        topics: Topics = []
        for place, topic in enumerate(attempt.topics):
            kept = []
            for number, data in enumerate(topic.partitions):
                partition = self._places[place][number]
                is_new = session.answered(partition, data, is_end=(place, number) in ends)
                if is_new or self._is_first:
                    kept.append(data)
                yield
            if kept:
                topics.append(FetchableTopicResponse(topic.topic, topic.topic_id, kept))
        session.finish_answer()
        return topics

    def put_back(self) -> Slices[None]:
        session = self._session
        session.on_change = None
        if self._is_first:  # as in Kafka: an empty answer begins no session
            session.end()
            self.session_id = 0
        for partitions in self._places:
            for partition in partitions:
                session.put_back(partition)
                yield
