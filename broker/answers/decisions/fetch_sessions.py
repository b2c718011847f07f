"""All fetch sessions of a broker, within bounds: which is granted, found, refused, evicted. Pure.

Rules of Kafka's `FetchManager` and `FetchSessionCache`:

    epoch 0     asks for a session; the one that the connection has ends, named or not
    epoch -1    a fetch without a session; one that the request names ends
    others      an incremental fetch: id and epoch must be those of the session, and topics must be
                named as in its first request, all by name or all by id

A new session evicts another one if the cache is full and that one was not used for two minutes, or
is the smallest of those older than two minutes and smaller than the new one. Else none is granted:
the answer has session id 0, and the client goes on with full fetches. Kafka bounds the number of
sessions; here partitions are bounded too. A session that outgrows the bound is not found any more.
"""

from bisect import bisect_left, insort

from broker.answers.decisions.fetch_session import (
    EPOCH_MAX,
    FIRST_EPOCH,
    NO_EPOCH,
    FetchSession,
    next_epoch,
)
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.fetch import FetchRequest

EVICTABLE_S = 120.0
"""Kafka's MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS."""

SESSION_PARTITIONS_MAX = 50_000
"""Partitions of one session: to forget them takes some 10 ms."""

NAME_CHARACTERS_MAX = 249
"""Of a topic. A longer name is answered with an error, and not kept."""


class FetchSessions:
    def __init__(self, *, slots_max: int, partitions_max: int) -> None:
        self.partition_count = 0
        self.eviction_count = 0
        self._slots_max = slots_max
        self._partitions_max = partitions_max
        self._last_id = 0
        self._sessions: dict[int, FetchSession] = {}
        """The longest unused one first."""
        self._evictable: list[tuple[int, int]] = []
        """Size and id of sessions that a larger one may evict, sorted."""

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(
        self, session: FetchSession | None, request: FetchRequest, *, by_id: bool, now_s: float
    ) -> FetchSession | ErrorCode | None:
        """The session of a fetch, or an error for all of it.

        None for a fetch without a session: it asked for none, or none is granted. `session` is that
        of the connection, if it opened one; it is closed where the fetch ends it, else its epoch
        goes on. The caller updates the session's partitions.
        """
        if session is not None and session.is_closed:
            session = None
        is_named = session is not None and session.id == request.session_id
        if request.session_epoch in (FIRST_EPOCH, NO_EPOCH):
            if session is not None and (is_named or request.session_epoch == FIRST_EPOCH):
                self.close(session)
            return self._open(request, by_id, now_s) if not request.session_epoch else None
        if session is None or not is_named:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != request.session_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.by_id is not by_id:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        growth = session.growth(request)
        if growth and not self._may_grow(session, growth, request):
            self.close(session)
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        session.epoch = next_epoch(session.epoch)
        session.used_s = now_s
        self._sessions[session.id] = self._sessions.pop(session.id)
        self._count(session, session.partition_count + growth)
        return session

    def _open(self, request: FetchRequest, by_id: bool, now_s: float) -> FetchSession | None:
        size = sum(len(topic.partitions) for topic in request.topics)
        if not 0 < size <= min(self._partitions_max, SESSION_PARTITIONS_MAX):
            return None
        if not self._slots_max or _has_long_name(request):
            return None
        while (
            len(self._sessions) >= self._slots_max
            or self.partition_count + size > self._partitions_max
        ):
            if not self._evict(size, now_s):
                return None
        session = FetchSession(self, self._new_id(), by_id=by_id, created_s=now_s)
        self._sessions[session.id] = session
        self._count(session, size)
        return session

    def _new_id(self) -> int:
        """It is no secret: a session is used by its own connection alone."""
        while True:
            self._last_id = self._last_id % EPOCH_MAX + 1
            if self._last_id not in self._sessions:
                return self._last_id

    def _may_grow(self, session: FetchSession, growth: int, request: FetchRequest) -> bool:
        is_small = session.partition_count + growth <= SESSION_PARTITIONS_MAX
        has_room = self.partition_count + growth <= self._partitions_max
        return is_small and has_room and not _has_long_name(request)

    def _evict(self, size: int, now_s: float) -> bool:
        """Close the session that is worth the least, if it is less than a new one of `size`."""
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return False
        if now_s - oldest.used_s <= EVICTABLE_S:
            if not self._evictable or (size, 0) < self._evictable[0]:
                return False
            oldest = self._sessions[self._evictable[0][1]]
        self.close(oldest)
        self.eviction_count += 1
        return True

    def updated(self, session: FetchSession) -> None:
        """It has its partitions."""
        if not session.is_closed:
            self._count(session, session.partition_count)

    def _count(self, session: FetchSession, size: int) -> None:
        self._uncount(session)
        session.counted_size = size
        self.partition_count += size
        if session.used_s - session.created_s > EVICTABLE_S:
            insort(self._evictable, (size, session.id))

    def _uncount(self, session: FetchSession) -> None:
        key = (session.counted_size, session.id)
        at = bisect_left(self._evictable, key)
        if self._evictable[at : at + 1] == [key]:
            del self._evictable[at]
        self.partition_count -= session.counted_size
        session.counted_size = 0

    def close(self, session: FetchSession) -> None:
        if self._sessions.pop(session.id, None) is not None:
            self._uncount(session)
            session.close()


def _has_long_name(request: FetchRequest) -> bool:
    return any(len(topic.topic) > NAME_CHARACTERS_MAX for topic in request.topics)
