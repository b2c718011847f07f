"""Which sessions are granted, found, refused and evicted: Kafka's rules, and bounds."""

import pytest

from broker.answers.decisions.fetch_session import EPOCH_MAX, FetchSession, next_epoch
from broker.answers.decisions.fetch_sessions import EVICTABLE_S, FetchSessions
from logstore.slices import finish
from logstore.wire.errors import ErrorCode
from tests.broker.answers.session_world import request_of

LATER_S = EVICTABLE_S + 1


def opened(
    sessions: FetchSessions, size: int = 1, *, now_s: float = 0.0, old: FetchSession | None = None
) -> FetchSession | None:
    request = request_of(*range(size))
    session = sessions.begin(old, request, by_id=False, now_s=now_s)
    assert not isinstance(session, ErrorCode)
    if session is not None:
        finish(session.update(request))
        sessions.updated(session)
    return session


def granted(sessions: FetchSessions, size: int = 1, *, now_s: float = 0.0) -> FetchSession:
    session = opened(sessions, size, now_s=now_s)
    assert session is not None
    return session


def use(sessions: FetchSessions, session: FetchSession, now_s: float) -> None:
    request = request_of(session=(session.id, session.epoch))
    assert sessions.begin(session, request, by_id=False, now_s=now_s) is session


def cache(slots: int = 2, partitions: int = 100) -> FetchSessions:
    return FetchSessions(slots_max=slots, partitions_max=partitions)


@pytest.mark.parametrize(
    ("id_offset", "epoch", "by_id", "code"),
    [
        (0, 1, False, None),
        (1, 1, False, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (0, 2, False, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (0, EPOCH_MAX, False, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (0, -2, False, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (0, 1, True, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR),
    ],
)
def test_an_incremental_fetch_names_its_session_and_epoch(
    id_offset: int, epoch: int, by_id: bool, code: ErrorCode | None
) -> None:
    sessions = cache()
    session = granted(sessions)
    request = request_of(session=(session.id + id_offset, epoch))

    assert sessions.begin(session, request, by_id=by_id, now_s=0.0) == (code or session)
    assert session.epoch == (1 if code else 2)


def test_a_fetch_is_refused_again_after_its_epoch_was_used() -> None:
    sessions = cache()
    session = granted(sessions)
    use(sessions, session, 0.0)
    late = request_of(session=(session.id, 1))

    code = sessions.begin(session, late, by_id=False, now_s=0.0)
    assert code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_a_connection_without_a_session_finds_none() -> None:
    sessions = cache()
    others = granted(sessions)
    request = request_of(session=(others.id, others.epoch))

    code = sessions.begin(None, request, by_id=False, now_s=0.0)
    assert code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_epochs_begin_again_at_1() -> None:
    assert [next_epoch(epoch) for epoch in (0, 1, EPOCH_MAX)] == [1, 2, 1]
    sessions = cache()
    session = granted(sessions)
    session.epoch = EPOCH_MAX
    use(sessions, session, 0.0)
    use(sessions, session, 0.0)
    assert session.epoch == 2


@pytest.mark.parametrize(("session_id", "ends"), [(1, True), (0, False), (2, False)])
def test_a_fetch_with_the_last_epoch_ends_the_session_that_it_names(
    session_id: int, ends: bool
) -> None:
    sessions = cache()
    session = granted(sessions)
    request = request_of(0, session=(session_id, -1))

    assert sessions.begin(session, request, by_id=False, now_s=0.0) is None
    assert session.is_closed is ends
    assert len(sessions) == (0 if ends else 1)


def test_a_connection_has_one_session_however_often_it_asks() -> None:
    sessions = cache(slots=1)
    session = granted(sessions, 3)
    for _ in range(5):
        second = opened(sessions, 2, old=session)
        assert second is not None and session.is_closed
        session = second

    assert (len(sessions), sessions.partition_count, sessions.eviction_count) == (1, 2, 0)


def test_none_is_granted_without_a_slot_or_without_partitions_or_for_names_too_long() -> None:
    long_name = request_of(0, topic="x" * 250)

    assert opened(cache(slots=0)) is None
    assert opened(cache(partitions=2), 3) is None
    assert opened(cache(), 0) is None
    assert cache().begin(None, long_name, by_id=False, now_s=0.0) is None


def test_a_session_that_was_not_used_for_two_minutes_makes_room() -> None:
    sessions = cache()
    stale, used = granted(sessions, 9), granted(sessions, 9)
    use(sessions, used, EVICTABLE_S)
    assert opened(sessions, 1, now_s=EVICTABLE_S) is None, "not before"

    assert opened(sessions, 1, now_s=LATER_S) is not None
    assert (stale.is_closed, used.is_closed, sessions.eviction_count) == (True, False, 1)


def test_the_smallest_old_session_makes_room_for_a_larger_one_alone() -> None:
    sessions = cache(slots=3)
    large, small, new = granted(sessions, 7), granted(sessions, 5), None
    use(sessions, large, LATER_S)
    use(sessions, small, LATER_S)
    new = granted(sessions, 1, now_s=LATER_S)
    now_s = LATER_S + 1

    assert opened(sessions, 5, now_s=now_s) is None, "not for one of its size"
    assert opened(sessions, 6, now_s=now_s) is not None
    assert (large.is_closed, small.is_closed, new.is_closed) == (False, True, False)
    assert opened(sessions, 9, now_s=now_s) is not None
    assert (large.is_closed, new.is_closed) == (True, False), "a new one stays, however small"


def test_partitions_are_bounded_like_sessions() -> None:
    sessions = cache(slots=10, partitions=10)
    old = granted(sessions, 4)
    use(sessions, old, LATER_S)
    granted(sessions, 4, now_s=LATER_S)
    assert sessions.partition_count == 8

    assert opened(sessions, 3, now_s=LATER_S) is None
    assert opened(sessions, 5, now_s=LATER_S) is not None
    assert (old.is_closed, sessions.partition_count) == (True, 9)


def test_a_session_that_outgrows_the_bound_is_not_found_any_more() -> None:
    sessions = cache(partitions=5)
    session = granted(sessions, 3)
    named = (session.id, session.epoch)

    code = sessions.begin(session, request_of(1, 3, 4, 5, session=named), by_id=False, now_s=0.0)
    assert code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (session.is_closed, len(sessions), sessions.partition_count) == (True, 0, 0)


def test_partitions_named_twice_count_once() -> None:
    sessions = cache()
    request = request_of(0, 0, 1)
    session = sessions.begin(None, request, by_id=False, now_s=0.0)
    assert isinstance(session, FetchSession)
    finish(session.update(request))
    sessions.updated(session)

    assert (session.partition_count, sessions.partition_count) == (2, 2)
    sessions.close(session)
    assert sessions.partition_count == 0


def test_an_evicted_session_calls_the_fetch_that_waits() -> None:
    sessions = cache()
    session, calls = granted(sessions), [0]
    session.on_change = lambda: calls.append(1)

    session.end()
    session.end()
    assert calls == [0, 1]
