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

Sessions (KIP-227) are declined: session id 0 and a full answer are always legal.
Not done: transactions, so the list of aborted ones is empty; throttling.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from broker.answers.error_codes import code_of
from broker.answers.fence_check import FenceCheck, fence_check_of
from broker.answers.fetch_attempt import FetchAttempt, PartitionKey, StoreRead
from broker.answers.services import Services, Work
from broker.network.call import Call, guard
from logstore.epoch.leader import Leader
from logstore.errors import LogstoreError
from logstore.protocol.records_deletion import OffsetOutOfRange
from logstore.reading.read import Chunk, compact
from logstore.reading.readable import Readable
from logstore.runners.step_runner import outcome_of
from logstore.slices import Slices, finish
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.fetch import FetchRequest, FetchResponse, NodeEndpoint

ENDPOINTS_FROM = 16
LOADS_AT_ONCE = 8
AT_ONCE_MAX = 100
"""Partitions that are looked at without a turn for others."""
STORE_READ_TIMEOUT_S = 30.0


def handle(broker: Services, call: Call, request: FetchRequest) -> None:
    if request.session_epoch > 0:
        call.answer(FetchResponse(0, ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
        return
    readers = broker.clients.slow_readers
    bytes_max = min(request.max_bytes, readers.share_bytes(call.connection.unsent_bytes))
    request.min_bytes = min(request.min_bytes, max(1, bytes_max))  # as Kafka: no more can come
    _Fetch(broker, call, request).attempt()


class _Watch:
    """Says of one partition of a waiting fetch that more is committed, or that its topic went."""

    __slots__ = ("_fetch", "_key")

    def __init__(self, fetch: "_Fetch", key: PartitionKey) -> None:
        self._fetch = fetch
        self._key = key

    def __call__(self) -> None:
        self._fetch.wake(self._key)


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
        "_changed",
        "_is_due",
        "_is_large",
        "_is_looking",
        "_is_over",
        "_request",
        "_unwatch",
        "_watched",
        "timer_bucket",
    )

    def __init__(self, broker: Services, call: Call, request: FetchRequest) -> None:
        self._broker = broker
        self._call = call
        self._request = request
        self._is_over = request.max_wait_ms <= 0
        """Whether the time to wait is."""
        self._is_due = False
        self._is_looking = False
        """Whether a look in slices is under way: partitions that change are noted."""
        self._is_large = sum(len(topic.partitions) for topic in request.topics) > AT_ONCE_MAX
        self._changed: dict[PartitionKey, None] = {}
        """Partitions to look at again."""
        self._bytes: dict[PartitionKey, int] = {}
        self._byte_count = 0
        """Of `_bytes`: those that the last looks found, by partition."""
        self._watched: set[PartitionKey] = set()
        self._unwatch: list[Callable[[], None]] = []
        self.timer_bucket = 0

    def attempt(self) -> None:
        if not self._broker.log.has_read_lease:
            self._begin(self._attempt_after_fence_check)
        elif self._is_large:
            self._is_looking = True
            self._broker.turns.begin(self._call, self._look_in_slices())
        else:
            attempt = self._new_attempt({})
            finish(attempt.look_at_all())
            self._decide(attempt)

    def _look_in_slices(self) -> Slices[None]:
        """Partitions are watched from the moment they are looked at: commits go on in between."""
        self._changed.clear()
        attempt = self._new_attempt({})
        watched_count, is_whole = 0, False
        try:
            for _ in attempt.look_at_all():
                if not self._is_over:
                    for key, partition in attempt.waited_for[watched_count:]:
                        self._watch(key, partition)
                    watched_count = len(attempt.waited_for)
                yield
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
        if self._changed and self._call.held is self:
            self._come_back()

    def _look_at_changed(self) -> None:
        """Of a large request that waits: whether there is enough for an answer now."""
        if not self._broker.log.has_read_lease or len(self._changed) > AT_ONCE_MAX:
            self.attempt()
            return
        changed, self._changed = self._changed, {}
        attempt = self._new_attempt({})
        attempt.look_at_some(changed)
        for key in changed:
            size = attempt.bytes_by_partition.get(key, 0)
            self._byte_count += size - self._bytes.get(key, 0)
            self._bytes[key] = size
        is_enough = self._byte_count >= self._request.min_bytes or attempt.is_full
        if is_enough or attempt.is_final or attempt.is_doubtful or attempt.store_reads:
            self.attempt()

    def _decide(self, attempt: FetchAttempt) -> None:
        if attempt.is_doubtful:
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
            or attempt.byte_count >= self._request.min_bytes
            or not attempt.waited_for  # nothing more can come
        ):
            self.drop()
            self._answer(attempt)
        else:
            self._wait(attempt)

    def _begin(self, work: Work) -> None:
        """Start `work`; requests behind this one wait, so one answer at a time is loaded."""
        self.drop()
        self._call.connection.begin_read()
        self._broker.start(self._call, partial(self._alone, work), self._broker.store_reads)

    async def _alone(self, work: Work) -> None:
        try:
            await work()
        finally:
            self._call.connection.end_read()

    async def _attempt_after_fence_check(self) -> None:
        """Make a fencing check first; an attempt after it may be answered.

        A commit between two slices of that look is noticed at the next one to the same partition,
        or when the time is over.
        """
        fence_check = await fence_check_of(self._broker.log)
        attempt = await self._attempt_with({}, fence_check)
        if attempt.store_reads:
            await self._load(fence_check)
        else:
            self._settle(attempt)

    def _wait(self, attempt: FetchAttempt) -> None:
        if self._call.held is None:
            self._call.held = self
            self._broker.timers.set(self, self._request.max_wait_ms / 1000)
        for key, partition in attempt.waited_for:
            self._watch(key, partition)

    def _watch(self, key: PartitionKey, partition: Readable) -> None:
        if key not in self._watched:
            self._watched.add(key)
            self._unwatch.append(partition.watch(_Watch(self, key)))

    def wake(self, key: PartitionKey) -> None:
        """Something was committed, or a topic went: look, once all of this commit is known."""
        if self._is_large:
            self._changed[key] = None
        if not self._is_due and not self._is_looking:
            self._come_back()

    def _come_back(self) -> None:
        self._is_due = True
        self._broker.loop.call_soon(self._attempt_again)

    def _attempt_again(self) -> None:
        self._is_due = False
        if self._call.held is self and not self._is_looking:
            is_over = self._is_over or not self._is_large
            guard(self._call, self.attempt if is_over else self._look_at_changed)

    def time_out(self) -> None:
        self._is_over = True
        self._attempt_again()

    def finish(self) -> None:
        self.time_out()

    def drop(self) -> None:
        """Wait no longer."""
        self._broker.timers.unset(self)
        for unwatch in self._unwatch:
            unwatch()
        self._unwatch.clear()
        self._watched.clear()
        self._changed.clear()
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
        return FetchAttempt(self._broker, self._call, self._request, loaded, fence_check)

    async def _attempt_with(
        self, loaded: dict[PartitionKey, Chunk | ErrorCode], fence_check: FenceCheck = None
    ) -> FetchAttempt:
        attempt = self._new_attempt(loaded, fence_check)
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
        for partition in attempt.sent_away:
            self._call.connection.referrals.note_sent(partition, self._broker.loop.time())
        response = FetchResponse(0, 0, 0, attempt.topics)
        if attempt.hints and self._call.version >= ENDPOINTS_FROM:
            response.node_endpoints = [
                NodeEndpoint(one.broker, one.host, one.port, one.rack)
                for one in attempt.hints.values()
            ]
        self._call.answer(response)
