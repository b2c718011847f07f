"""Produce requests that wait for a commit: one callback, and one timer, per segment and not each.

At 70,000 small requests a second a task or a future each would cost more than everything else about
them, and even a callback and a timer each are a tenth. All requests whose last batch went into one
segment are answered together; a request whose own time is over before is answered then. Answers
about many partitions are encoded in slices, after others had their turn.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from broker.answers.error_codes import code_of
from broker.answers.long_answers import answer_long
from broker.answers.produce_bytes import (
    PartitionOutcome,
    TopicOutcome,
    encode_produce_frame,
    produce_response_in_slices,
)
from broker.network.call import Call
from broker.network.timers import Timers
from broker.network.turns import Turns
from logstore.epoch.full_disk import FullDisk
from logstore.errors import LogstoreError
from logstore.slices import Slices
from logstore.wire.errors import ErrorCode
from logstore.wire.primitives import ZERO_UUID

Waiting = tuple[Call, Sequence[TopicOutcome], float]
"""A request, what became of it if it is committed, and when its time is over."""

AT_ONCE = 500
"""Partitions of an answer that is encoded at once."""


NO_ROOM_S = 0.5
"""How long a request waits for room on a full disk; its batch may still be committed after that."""


class Writer(Protocol):
    full_disk: FullDisk

    def when_committed(self, seq: int, waiter: Callable[[LogstoreError | None], None]) -> None: ...


class PendingProduces:
    def __init__(
        self, loop: asyncio.AbstractEventLoop, writer: Writer, timers: Timers, turns: Turns
    ) -> None:
        self._now_s = loop.time
        self._turns = turns
        self._writer = writer
        self._timers = timers
        self._groups: dict[int, _SegmentRequests] = {}
        self._held: dict[int, Sequence[TopicOutcome]] = {}
        writer.full_disk.on_full = self._no_room

    def wait(self, call: Call, topics: Sequence[TopicOutcome], seq: int, timeout_ms: int) -> None:
        """Answer `call` when segment `seq` is committed, or in `timeout_ms`."""
        group = self._groups.get(seq)
        is_new = group is None
        if group is None:
            group = self._groups[seq] = _SegmentRequests(self, seq)
        left_s = timeout_ms / 1000
        if self._writer.full_disk.is_full:
            left_s = min(left_s, NO_ROOM_S)
        due_s = self._now_s() + left_s
        group.waiting.append((call, topics, due_s))
        if due_s < group.due_s:
            self._set_due(group, due_s)
        if is_new:  # at the end, since it may answer at once
            self._writer.when_committed(seq, group.committed)

    @contextmanager
    def held(self, topics: Sequence[TopicOutcome]) -> Iterator[None]:
        """`topics` belong to a request that is not waiting yet: `topic_deleted` is for it, too."""
        self._held[id(topics)] = topics
        try:
            yield
        finally:
            del self._held[id(topics)]

    def topic_deleted(self, name: str, topic_id: bytes) -> None:
        """Acknowledge no batch of the topic any more, also of those that were appended.

        When this returns other brokers may be notified, and the name used again: a client that
        heard of the one must not take a later acknowledgement for the other.
        """
        waiting = [topics for group in self._groups.values() for _, topics, _ in group.waiting]
        for topics in (*waiting, *self._held.values()):
            for topic in topics:
                if topic.topic_id == topic_id:
                    _refuse(topic, ErrorCode.UNKNOWN_TOPIC_ID)
                elif topic.name == name and topic.topic_id == ZERO_UUID:
                    _refuse(topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def _set_due(self, group: "_SegmentRequests", due_s: float) -> None:
        group.due_s = due_s
        self._timers.unset(group)
        self._timers.set(group, max(0.0, due_s - self._now_s()))

    def _no_room(self) -> None:
        """The disk is full: all that wait are answered soon, and not when their time is over."""
        latest_s = self._now_s() + NO_ROOM_S
        for group in self._groups.values():
            group.waiting = [
                (call, topics, min(due, latest_s)) for call, topics, due in group.waiting
            ]
            if group.waiting and group.due_s > latest_s:
                self._set_due(group, latest_s)

    def end(self, group: "_SegmentRequests", code: ErrorCode) -> None:
        """All of the group's requests are over."""
        del self._groups[group.seq]
        self._timers.unset(group)
        for call, topics, _ in group.waiting:
            if call.buffers is None:
                self.answer(call, topics, code)

    def end_late(self, group: "_SegmentRequests") -> None:
        """Answer those whose time is over; the others go on waiting."""
        now_s = self._now_s()
        late = [one for one in group.waiting if one[2] <= now_s]
        group.waiting = [one for one in group.waiting if one[2] > now_s]
        group.due_s = min((due_s for _, _, due_s in group.waiting), default=NEVER)
        if group.waiting:
            self._timers.set(group, group.due_s - now_s)
        is_full = self._writer.full_disk.is_full
        code = ErrorCode.KAFKA_STORAGE_ERROR if is_full else ErrorCode.REQUEST_TIMED_OUT
        for call, topics, _ in late:
            self.answer(call, topics, code)

    def answer(
        self, call: Call, topics: Sequence[TopicOutcome], code: ErrorCode = ErrorCode.NONE
    ) -> None:
        """Answer with the outcomes; with a `code`, what succeeded failed with that."""
        if len(topics) == 1:
            is_many = len(topics[0].partitions) > AT_ONCE
        else:
            is_many = len(topics) + sum([len(one.partitions) for one in topics]) > AT_ONCE
        if is_many:
            self._turns.put(call, _answer_in_slices(call, topics, code))
            return
        if code:
            topics = [_failed_topic(topic, code) for topic in topics]
        note = call.connection.note_errors
        throttle_ms = call.throttle_ms or 0
        frame = encode_produce_frame(call.correlation_id, call.version, topics, note, throttle_ms)
        call.answer_bytes(frame)


NEVER = float("inf")


class _SegmentRequests:
    """Requests that wait for one segment."""

    __slots__ = ("_pending", "due_s", "seq", "timer_bucket", "waiting")

    def __init__(self, pending: PendingProduces, seq: int) -> None:
        self._pending = pending
        self.seq = seq
        self.waiting: list[Waiting] = []
        self.due_s = NEVER
        """When the first of them is over."""
        self.timer_bucket = 0

    def committed(self, error: LogstoreError | None) -> None:
        self._pending.end(self, ErrorCode.NONE if error is None else code_of(error))

    def time_out(self) -> None:
        self._pending.end_late(self)


def _answer_in_slices(call: Call, topics: Sequence[TopicOutcome], code: ErrorCode) -> Slices[None]:
    if code:
        late: list[TopicOutcome] = []
        for topic in topics:
            late.append(_failed_topic(topic, code))
            yield
        topics = late
    response = yield from produce_response_in_slices(topics)
    response.throttle_time_ms = call.throttle_ms or 0
    yield from answer_long(call, response)


def _failed_topic(topic: TopicOutcome, code: ErrorCode) -> TopicOutcome:
    """The topic with `code` for each partition that had no error."""
    partitions = [
        one if one.error_code else failed(one.partition, code) for one in topic.partitions
    ]
    return TopicOutcome(topic.name, topic.topic_id, partitions)


def _refuse(topic: TopicOutcome, code: ErrorCode) -> None:
    """Change the outcomes in place: a request that goes on in slices holds the list."""
    topic.partitions[:] = [
        one if one.error_code else failed(one.partition, code) for one in topic.partitions
    ]


def failed(partition: int, code: ErrorCode) -> PartitionOutcome:
    return PartitionOutcome(partition, code, -1, -1, -1)
