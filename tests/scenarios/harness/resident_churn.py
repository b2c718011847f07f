"""Clients that come and go, at a steady pace, for as long as brokers are looked at.

By the minute, at pace 1:

    30 new producers     idempotent, one value each, then gone
    1 topic              created, filled, read by a group of its own, and a minute later deleted
    10 slow consumers    each asks for 16 MB and reads none of it; 20 of them are there at a time
    1 member             of a group that reads everything, in place of the one before
    300 KB a second      by a producer that stays

What fails while `is_registry_away` is not repeated: it is counted, as is what fails at other times.
"""

import random
import socket
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from logstore.wire.framing.apis import encode_request_frame
from logstore.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tools.full_wire import APIS

STEADY, PARTITIONS, COMING_PARTITIONS = "steady", 10, 6
GROUP = "readers"
CONFIGS = {"retention.bytes": str(8 << 20), "logstore.table.enable": "false"}
VALUE_BYTES, VALUES_A_SECOND = 1_000, 300
SLOW_AT_ONCE, ANSWERS_ASKED, ANSWER_BYTES = 20, 16, 1 << 20
FETCH, FETCH_VERSION = 1, 12
CALL_S = 10.0
LOOK_S = 0.05
PRODUCERS_AT_ONCE = 8
SECONDS_BETWEEN = {"producer": 2.0, "topic": 60.0, "slow consumer": 6.0, "member": 60.0}
"""At pace 1."""


@dataclass(slots=True)
class Churn:
    """`addresses` of all brokers, host and port; `pace` multiplies all of it."""

    addresses: list[tuple[str, int]]
    rng: random.Random
    pace: float = 1.0
    is_registry_away: bool = False
    done: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    failed_while_away: Counter[str] = field(default_factory=Counter)
    errors: dict[str, str] = field(default_factory=dict)
    """The last one by kind, of those while the registry was there."""
    _steady: Producer = field(init=False)
    _admin: AdminClient = field(init=False)
    _reader: Consumer | None = None
    _slow: deque[socket.socket] = field(default_factory=deque)
    _producers: ThreadPoolExecutor = field(init=False)
    _producing: deque["Future[None]"] = field(default_factory=deque)
    _topics: deque[str] = field(default_factory=deque)
    _sent: int = 0

    def __post_init__(self) -> None:
        self._steady = Producer({**self._client(), "enable.idempotence": True})
        self._admin = AdminClient(self._client())
        self._producers = ThreadPoolExecutor(PRODUCERS_AT_ONCE, "producer")

    def begin(self) -> None:
        self._create(STEADY, PARTITIONS, CONFIGS)

    def run(self, seconds: float) -> None:
        kinds = {
            "member": self._replace_member,
            "producer": self._begin_producer,
            "topic": self._change_topics,
            "slow consumer": self._replace_slow_consumer,
        }
        due_s = dict.fromkeys(kinds, 0.0)
        began_s = time.monotonic()
        while (now_s := time.monotonic() - began_s) < seconds:
            self._produce_steadily(now_s)
            for kind, act in kinds.items():
                if now_s >= due_s[kind]:
                    due_s[kind] += SECONDS_BETWEEN[kind] / self.pace
                    self._try(f"{kind} begun" if kind == "producer" else kind, act)
            self._settle_producers()
            self._read()
            time.sleep(LOOK_S)

    def end(self) -> None:
        self._producers.shutdown()
        self._settle_producers()
        while self._slow:
            self._slow.popleft().close()
        if self._reader is not None:
            self._reader.close()
        self._steady.flush(CALL_S)

    def _client(self) -> dict[str, str | int | float | bool]:
        bootstrap = ",".join(f"{host}:{port}" for host, port in self.addresses)
        return {"bootstrap.servers": bootstrap, "log_level": 0}

    def _try(self, kind: str, act: Callable[[], object]) -> None:
        try:
            act()
        except (KafkaException, OSError, TimeoutError) as error:
            if self.is_registry_away:
                self.failed_while_away[kind] += 1
            else:
                self.failed[kind] += 1
                self.errors[kind] = repr(error)
        else:
            self.done[kind] += 1

    def _produce_steadily(self, now_s: float) -> None:
        while self._sent < now_s * self.pace * VALUES_A_SECOND:
            with suppress(BufferError):  # brokers that stand still: the rate is that of what fits
                value = self.rng.randbytes(VALUE_BYTES)
                self._steady.produce(STEADY, value, partition=self._sent % PARTITIONS)
            self._sent += 1
        self._steady.poll(0)

    def _begin_producer(self) -> None:
        """In a thread: librdkafka takes half a second until the first value of a producer."""
        number = self.done["producer begun"] % PARTITIONS
        self._producing.append(
            self._producers.submit(self._produce, STEADY, [number], self.rng.randbytes(100))
        )

    def _settle_producers(self) -> None:
        for _ in range(len(self._producing)):
            producer = self._producing.popleft()
            if producer.done():
                self._try("producer", producer.result)
            else:
                self._producing.append(producer)

    def _produce(self, topic: str, partitions: list[int], value: bytes) -> None:
        """By a producer of its own. Raises `KafkaException`."""
        errors: list[KafkaError] = []
        producer = Producer({**self._client(), "enable.idempotence": True, "linger.ms": 0})

        def note(error: KafkaError | None, _: object) -> None:
            if error is not None:
                errors.append(error)

        for number in partitions:
            producer.produce(topic, value, partition=number, on_delivery=note)
        if producer.flush(CALL_S):
            raise TimeoutError("no acknowledgement")
        if errors:
            raise KafkaException(errors[0])

    def _change_topics(self) -> None:
        if self._topics:
            gone = self._topics.popleft()
            group = _group_of(gone)  # first: with the topic its offsets go, and so does the group
            self._admin.delete_consumer_groups([group])[group].result(CALL_S)
            self._admin.delete_topics([gone], operation_timeout=CALL_S)[gone].result(CALL_S)
        name = f"comes-and-goes-{self.rng.getrandbits(64):016x}"
        self._create(name, COMING_PARTITIONS, {})
        self._topics.append(name)
        self._produce(name, list(range(COMING_PARTITIONS)), self.rng.randbytes(100))
        self._read_all(name)

    def _create(self, name: str, partitions: int, configs: Mapping[str, str]) -> None:
        new = NewTopic(name, partitions, len(self.addresses), config=dict(configs))
        self._admin.create_topics([new], operation_timeout=CALL_S)[name].result(CALL_S)

    def _read_all(self, topic: str) -> None:
        """In a group of its own, which commits."""
        group = {"group.id": _group_of(topic), "enable.auto.commit": False}
        consumer = Consumer({**self._client(), **group, "auto.offset.reset": "earliest"})
        try:
            consumer.assign([TopicPartition(topic, n, 0) for n in range(COMING_PARTITIONS)])
            give_up_s = time.monotonic() + CALL_S
            read = 0
            while read < COMING_PARTITIONS:
                read += len(consumer.consume(COMING_PARTITIONS, LOOK_S))
                if time.monotonic() > give_up_s:
                    raise TimeoutError(f"read {read} of {COMING_PARTITIONS}")
            consumer.commit(asynchronous=False)
        finally:
            consumer.close()

    def _replace_slow_consumer(self) -> None:
        if len(self._slow) >= SLOW_AT_ONCE:
            self._slow.popleft().close()
        assert self._reader is not None
        partition = self.rng.randrange(PARTITIONS)
        place = TopicPartition(STEADY, partition)
        low, high = self._reader.get_watermark_offsets(place, timeout=CALL_S)
        offset = self.rng.randint(low, high)
        wanted = FetchPartition(partition, fetch_offset=offset, partition_max_bytes=ANSWER_BYTES)
        topics = [FetchTopic(STEADY, partitions=[wanted])]
        request = FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=ANSWER_BYTES, topics=topics)
        frame = encode_request_frame(1, APIS[FETCH], FETCH_VERSION, "slow", request)
        consumer = socket.socket()
        consumer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        consumer.settimeout(CALL_S)
        consumer.connect(self.rng.choice(self.addresses))
        consumer.sendall(b"".join(frame) * ANSWERS_ASKED)
        self._slow.append(consumer)

    def _replace_member(self) -> None:
        if self._reader is not None:
            self._reader.close()
        self._reader = Consumer({**self._client(), "group.id": GROUP})
        self._reader.subscribe([STEADY])

    def _read(self) -> None:
        if self._reader is not None:
            values = self._reader.consume(1_000, 0)
            self.done["values read"] += sum(value.error() is None for value in values)


def _group_of(topic: str) -> str:
    return f"of-{topic}"
