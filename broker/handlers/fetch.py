"""Fetch, versions 4 to 18: whole batches from the wanted offset on, or a wait for them.

Answered at once when `min_bytes` are there, any partition has an error, or the consumer will not
wait; else when enough is committed, a topic goes away, or `max_wait_ms` is over (DelayedFetch). The
first batch of the first partition that has any comes whole, however large; after it, `max_bytes`
(and `fetch.max.bytes`) bounds the whole answer in the order of the request, and
`partition_max_bytes` each partition, but for its first batch (KIP-74). Only whole batches are
served, beginning with the one that holds the offset.

Data in memory is answered by plain calls. The rest is read in a task, a bounded number at once:
segments, and where these are gone batches made from the topic's table, which look the same.

A follower serves consumers too (KIP-392), up to the end that it knows to be committed; a fetch
above that waits. A leader names a follower in the consumer's rack. While this broker has no read
lease, and before it answers that there is no such offset or leader epoch, it makes a fencing check
(`broker.answers.fence_check`).

A fetch of many partitions looks at them in slices, and watches each from then on; while it waits, a
commit makes it look at the partitions that changed, and at all once there is enough to answer.

In a session (KIP-227) a fetch looks at the partitions alone that changed since the last answer, or
that it names, and is woken by all others (`broker.answers.decisions.fetch_session`); where none is
granted, the answer has session id 0.
A client beyond a quota gets an empty answer, and the same partitions at its next fetch.
Not done: transactions, so the list of aborted ones is empty.
"""

import asyncio

from broker.answers.broker import Broker, Work
from broker.answers.decisions.fetch_session import FetchSession
from broker.answers.error_codes import code_of
from broker.answers.fence_check import FenceCheck, fence_check_of
from broker.answers.fetch_attempt import TOPIC_IDS_FROM, FetchAttempt, PartitionKey, StoreRead
from broker.answers.fetch_interest import (
    AT_ONCE_MAX,
    Interest,
    RequestInterest,
    SessionInterest,
)
from broker.answers.long_answers import answer_long
from broker.network.call import Call, guard
from logstore.epoch.leader import Leader
from logstore.errors import LogstoreError
from logstore.protocol.deletion.records_deletion import OffsetOutOfRange
from logstore.reading.brokers.read import Chunk, compact
from logstore.reading.brokers.readable import Readable
from logstore.runners.step_runner import outcome_of
from logstore.slices import Slices, finish
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    NodeEndpoint,
)

LOADS_AT_ONCE = 8
COPIED_BYTES_MAX = 1024 * 1024
"""Records that are copied, twice, so that an answer about many partitions is encoded in slices."""
STORE_READ_TIMEOUT_S = 30.0


def fetch(broker: Broker, call: Call, request: FetchRequest) -> None:
    known = call.connection.fetch_session
    session = broker.fetch_sessions.begin(
        known if isinstance(known, FetchSession) else None,
        request,
        by_id=call.version >= TOPIC_IDS_FROM,
        now_s=broker.loop.time(),
    )
    if isinstance(session, ErrorCode):
        response = FetchResponse(0, session)
        call.connection.note_errors(call.api.name, response)
        call.answer(response)
        return
    if session is not None:
        call.connection.fetch_session = session
    readers = broker.clients.slow_readers
    bytes_max = min(request.max_bytes, readers.share_bytes(call.connection.unsent_bytes))
    quotas = broker.clients.quotas
    if quotas.is_active:
        bytes_max = quotas.fetch_bytes_max(call.principal, call.client_id, bytes_max)
        request.max_bytes = min(request.max_bytes, bytes_max)
    request.min_bytes = min(request.min_bytes, max(1, bytes_max))  # as Kafka: no more can come
    _Fetch(broker, call, request, session).attempt()


class _Fetch:
    """One request until it is answered.

    One of many partitions looks at them in slices; while it waits, a commit makes it look at the
    partitions that changed, and at all of them once there is enough to answer.
    """

    __slots__ = (
        "_broker",
        "_byte_count",
        "_bytes",
        "_call",
        "_has_waited_for_moves",
        "_interest",
        "_is_due",
        "_is_looking",
        "_is_over",
        "timer_bucket",
    )

    def __init__(
        self, broker: Broker, call: Call, request: FetchRequest, session: FetchSession | None
    ) -> None:
        self._broker = broker
        self._call = call
        self._interest = self._interest_of(request, session)
        self._is_over = request.max_wait_ms <= 0
        """Whether the time to wait is over."""
        self._has_waited_for_moves = False
        self._is_due = False
        self._is_looking = False
        """Whether a look in slices is under way: partitions that change are noted."""
        self._bytes: dict[PartitionKey, int] = {}
        """Bytes that the last looks found, by partition."""
        self._byte_count = 0
        """The sum of `_bytes`."""
        self.timer_bucket = 0

    def _interest_of(self, request: FetchRequest, session: FetchSession | None) -> Interest:
        if session is None:
            return RequestInterest(request, self.wake)
        rights = self._broker.rights_version
        terms = (self._call.version, request.isolation_level, request.rack_id, rights)
        return SessionInterest(self._broker.fetch_sessions, session, request, terms, self.wake)

    def attempt(self) -> None:
        if not self._broker.log.has_read_lease:
            self._begin(self._attempt_after_fence_check)
        elif self._interest.is_large:
            self._is_looking = True
            self._broker.turns.begin(self._call, self._look_in_slices())
        else:
            attempt = self._new_attempt({})
            finish(attempt.look_at_all())
            self._decide(attempt)

    def _look_in_slices(self) -> Slices[None]:
        """Partitions are watched from the moment they are looked at: commits go on in between."""
        attempt = self._new_attempt({})
        is_whole = False
        try:
            yield from self._look(attempt)
            is_whole = True
        finally:
            self._is_looking = False
            if not is_whole:
                self.drop()
        self._bytes = attempt.bytes_by_partition
        self._byte_count = attempt.byte_count
        if self._broker.log.has_read_lease:
            self._decide(attempt)
        else:
            self._begin(self._attempt_after_fence_check)
        if self._interest.has_changes and self._call.held is self:
            self._come_back()

    def _look(self, attempt: FetchAttempt) -> Slices[None]:
        """Look at all partitions, and watch them from then on where the fetch may wait."""
        yield from self._interest.begin_look()
        watched_count, is_watched = 0, self._interest.is_kept or not self._is_over
        for _ in attempt.look_at_all():
            if is_watched:
                for key, partition in attempt.waited_for[watched_count:]:
                    self._interest.watch(key, partition)
                watched_count = len(attempt.waited_for)
            yield

    def _look_at_changed(self) -> None:
        """Of a large request that waits: whether there is enough for an answer now."""
        changed = self._interest.take_changes()
        if not self._broker.log.has_read_lease or len(changed) > AT_ONCE_MAX:
            self.attempt()
            return
        attempt = self._new_attempt({})
        attempt.look_at_some(changed)
        for key, partition in attempt.waited_for:
            self._interest.watch(key, partition)
        for key in changed:
            size = attempt.bytes_by_partition.get(key, 0)
            self._byte_count += size - self._bytes.get(key, 0)
            self._bytes[key] = size
        is_enough = self._byte_count >= self._interest.request.min_bytes or attempt.is_full
        if is_enough or attempt.is_final or attempt.is_doubtful or attempt.store_reads:
            self.attempt()

    def _decide(self, attempt: FetchAttempt) -> None:
        if attempt.is_unnamed and self._waits_for_moves():
            self._stop_waiting()
            self._broker.start(self._call, self._attempt_after_moves, None)
        elif attempt.is_doubtful:
            self._begin(self._attempt_after_fence_check)
        elif attempt.store_reads:
            self._begin(self._load)
        else:
            self._settle(attempt)

    def _settle(self, attempt: FetchAttempt) -> None:
        """Answer with the data found, or wait for more."""
        if (
            self._is_over
            or attempt.is_final
            or attempt.is_full
            or attempt.byte_count >= self._interest.request.min_bytes
            or self._interest.is_over
            or not (attempt.waited_for or self._interest.is_kept)  # nothing more can come
        ):
            self._stop_waiting()
            self._answer(attempt)
        else:
            self._wait(attempt)

    def _begin(self, work: Work) -> None:
        """Start `work`; fetches behind this one wait, so one answer at a time is loaded."""
        self._stop_waiting()
        self._broker.start(self._call, work, self._broker.store_reads)

    def _waits_for_moves(self) -> bool:
        """Once for each request (`broker.answers.leader_settling`)."""
        waits = not self._has_waited_for_moves and self._broker.leader_settling.has_moves
        self._has_waited_for_moves = self._has_waited_for_moves or waits
        return waits

    async def _attempt_after_moves(self) -> None:
        await self._broker.leader_settling.wait()
        async with self._broker.store_reads:
            await self._attempt_after_fence_check()

    async def _attempt_after_fence_check(self) -> None:
        """Make a fencing check first; an attempt after it may be answered.

        A commit between two slices of that look is noticed at the next one to the same partition,
        or when the time is over.
        """
        fence_check = await fence_check_of(self._broker.log)
        if fence_check:
            self._interest.doubt_all()
        attempt = await self._attempt_with({}, fence_check)
        if attempt.store_reads:
            await self._load(fence_check)
        else:
            self._settle(attempt)

    def _wait(self, attempt: FetchAttempt) -> None:
        if self._call.held is None:
            self._call.held = self
            self._broker.timers.set(self, self._interest.request.max_wait_ms / 1000)
            self._broker.waiting_fetches.add(self)
        for key, partition in attempt.waited_for:
            self._interest.watch(key, partition)

    def wake(self) -> None:
        """Something was committed, or a topic went: look, once all of this commit is known."""
        if not self._is_due and not self._is_looking:
            self._come_back()

    def _come_back(self) -> None:
        self._is_due = True
        self._broker.loop.call_soon(self._attempt_again)

    def _attempt_again(self) -> None:
        self._is_due = False
        if self._call.held is self and not self._is_looking:
            is_over = self._is_over or self._interest.is_over or not self._interest.is_large
            guard(self._call, self.attempt if is_over else self._look_at_changed)

    def time_out(self) -> None:
        self._is_over = True
        self._attempt_again()

    def finish(self) -> None:
        self.time_out()

    def drop(self) -> None:
        self._stop_waiting()
        self._interest.end()

    def _stop_waiting(self) -> None:
        self._broker.timers.unset(self)
        self._broker.waiting_fetches.discard(self)
        self._interest.end_wait()
        self._call.held = None

    async def _load(self, fence_check: FenceCheck = None) -> None:
        """Load what memory does not hold, partition by partition as long as there is room."""
        loaded: dict[PartitionKey, Chunk | ErrorCode] = {}
        try:
            async with asyncio.timeout(STORE_READ_TIMEOUT_S):
                while store_reads := (
                    attempt := await self._attempt_with(loaded, fence_check)
                ).store_reads:
                    await self._load_some(store_reads[:LOADS_AT_ONCE], loaded)
        except TimeoutError:
            attempt = await self._attempt_with(
                loaded, fence_check
            )  # what there is; consumers ask again
        if attempt.is_doubtful or (fence_check is None and not self._broker.log.has_read_lease):
            attempt = await self._attempt_with(loaded, await fence_check_of(self._broker.log))
        self._answer(attempt)

    def _new_attempt(
        self, loaded: dict[PartitionKey, Chunk | ErrorCode], fence_check: FenceCheck = None
    ) -> FetchAttempt:
        request = self._interest.request
        return FetchAttempt(self._broker, self._call, request, loaded, fence_check)

    async def _attempt_with(
        self, loaded: dict[PartitionKey, Chunk | ErrorCode], fence_check: FenceCheck = None
    ) -> FetchAttempt:
        attempt = self._new_attempt(loaded, fence_check)
        if self._interest.is_kept:
            await self._broker.turns.finish(self._look(attempt))
        else:
            await self._broker.turns.finish(attempt.look_at_all())
        return attempt

    async def _load_some(
        self, store_reads: list[StoreRead], loaded: dict[PartitionKey, Chunk | ErrorCode]
    ) -> None:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._outcome(one)) for one in store_reads]
        for one, task in zip(store_reads, tasks, strict=True):
            outcome = task.result()
            if isinstance(outcome, LogstoreError):
                self._broker.alarms.cannot_serve(one.partition, one.offset, outcome)
                loaded[one.key] = self._code_of(one.partition, outcome)
            else:
                loaded[one.key] = compact(outcome)

    def _code_of(self, partition: Readable, error: LogstoreError) -> ErrorCode:
        """A follower that cannot read sends its consumer back: the leader may be able to."""
        if isinstance(partition, Leader) or isinstance(error, OffsetOutOfRange):
            return code_of(error)
        self._broker.log.doubt(partition)
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    async def _outcome(self, one: StoreRead) -> Chunk | LogstoreError:
        consumer = self._call.connection.peer
        read = self._broker.log.read(
            one.partition, one.offset, one.up_to, one.bytes_max, one.compression, consumer
        )
        return await outcome_of(read)

    def _answer(self, attempt: FetchAttempt) -> None:
        self._interest.end()
        broker = self._broker
        if broker.clients.quotas.is_active and self._is_throttled(attempt):
            broker.turns.begin(self._call, self._answer_throttled())
            return
        broker.traffic.answered(attempt.served, broker.log.topics_by_id)
        if attempt.is_final:
            self._call.connection.note_errors(self._call.api.name, attempt.topics)
        for partition in attempt.sent_away:
            self._call.connection.referrals.note_sent(partition, self._broker.loop.time())
        if self._interest.is_large:
            self._broker.turns.begin(self._call, self._answer_in_slices(attempt))
        else:
            self._call.answer(self._response(attempt, attempt.topics))

    def _is_throttled(self, attempt: FetchAttempt) -> bool:
        """Whether the client gets nothing, since it has used up a quota; what it gets counts."""
        broker, call = self._broker, self._call
        time_ms = call.connection.time_throttle_ms(call)
        bytes_ms, is_served = 0, False
        if not time_ms:
            bytes_ms, is_served = broker.clients.quotas.fetched_ms(
                call.principal, call.client_id, attempt.byte_count, broker.loop.time()
            )
        call.throttle_ms = time_ms or bytes_ms
        return not is_served

    def _answer_throttled(self) -> Slices[None]:
        yield from self._interest.put_back()
        self._call.answer(FetchResponse(0, 0, self._interest.session_id, []))

    def _answer_in_slices(self, attempt: FetchAttempt) -> Slices[None]:
        topics = yield from self._interest.answers(attempt)
        response = self._response(attempt, topics)
        if attempt.byte_count <= COPIED_BYTES_MAX:
            yield from answer_long(self._call, response)
        else:
            self._call.answer(response)

    def _response(
        self, attempt: FetchAttempt, topics: list[FetchableTopicResponse]
    ) -> FetchResponse:
        response = FetchResponse(0, 0, self._interest.session_id, topics)
        response.node_endpoints = [
            NodeEndpoint(one.broker, one.host, one.port, one.rack) for one in attempt.hints.values()
        ]
        return response
