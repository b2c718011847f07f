"""Watches a group from outside: what offsets it is said to have, and what its records say.

Two threads. One asks for the committed offsets of all partitions again and again. The other reads
along the group's partition of `__consumer_offsets`, where each generation and commit is recorded.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType

from confluent_kafka import Consumer, KafkaException, TopicPartition

from broker.groups.decisions.fields import FieldReader
from broker.groups.decisions.formats import (
    GroupKey,
    OffsetKey,
    decode_group,
    decode_key,
    decode_offset,
)
from broker.groups.decisions.group_partition import OFFSETS_TOPIC

ANSWER_S = 5.0
PAUSE_S = 0.3
NONE = -1001
"""librdkafka's word for no committed offset."""


@dataclass(frozen=True, slots=True)
class Fetched:
    asked_s: float
    answered_s: float
    offsets: Mapping[int, int]
    """Of partitions that have one."""


@dataclass(frozen=True, slots=True)
class Generation:
    """One record of the group; `shares` by member once its leader has assigned."""

    number: int
    shares: Mapping[str, Sequence[int]] | None


@dataclass(frozen=True, slots=True)
class Recorded:
    """One record of a committed offset; None: it was deleted."""

    partition: int
    offset: int | None


@dataclass(slots=True)
class GroupWatch:
    bootstrap: str
    group: str
    topic: str
    partitions: int
    records_partition: int
    fetched: list[Fetched] = field(default_factory=list)
    records: list[Generation | Recorded] = field(default_factory=list)
    _is_over: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def __enter__(self) -> "GroupWatch":
        for work in (self._fetch, self._read):
            self._threads.append(threading.Thread(target=work, daemon=True))
            self._threads[-1].start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(10 * ANSWER_S)

    def _consumer(self, group: str) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )

    def _fetch(self) -> None:
        consumer = self._consumer(self.group)
        asked = [TopicPartition(self.topic, number) for number in range(self.partitions)]
        while not self._is_over.is_set():
            asked_s = time.monotonic()
            try:
                answers = consumer.committed(asked, timeout=ANSWER_S)
            except KafkaException:
                answers = []
            if answers and not any(one.error for one in answers):
                offsets = {one.partition: one.offset for one in answers if one.offset != NONE}
                self.fetched.append(Fetched(asked_s, time.monotonic(), offsets))
            self._is_over.wait(PAUSE_S)
        consumer.close()

    def _read(self) -> None:
        consumer = self._consumer("watch")
        consumer.assign([TopicPartition(OFFSETS_TOPIC, self.records_partition, 0)])
        while True:
            is_last = self._is_over.is_set()
            messages = consumer.consume(1000, timeout=1.0)
            for message in messages:
                key, value = message.key(), message.value()
                if message.error() is None and key is not None:
                    self._note(_bytes(key), None if value is None else _bytes(value))
            if is_last and not messages:
                break
        consumer.close()

    def _note(self, key_data: bytes, value: bytes | None) -> None:
        key = decode_key(key_data)
        if key is None or key.group != self.group:
            return
        if isinstance(key, OffsetKey):
            offset = None if value is None else decode_offset(value).offset
            self.records.append(Recorded(key.partition, offset))
        elif isinstance(key, GroupKey) and value is not None:
            recorded = decode_group(value)
            shares = {one.member_id: _share(one.assignment) for one in recorded.members}
            is_assigned = recorded.state_ms >= 0
            self.records.append(Generation(recorded.generation, shares if is_assigned else None))


def _bytes(data: bytes | str) -> bytes:
    return data.encode() if isinstance(data, str) else data


def _share(assignment: bytes) -> list[int]:
    """Partitions, of whatever topics: int16 version, then topics with their partitions."""
    if not assignment:
        return []
    fields = FieldReader(assignment)
    fields.int16()
    share: list[int] = []
    for _ in range(fields.count()):
        fields.string()
        share += [fields.int32() for _ in range(fields.count())]
    return share
