"""What one partition's next leader must know: producers, sinks, transactions. Encoded in take,
release and state entries and in checkpoints, so that a chain alone rebuilds a leader.

    size  field (big-endian)
       2  version           1
       4  producer count
          each: producer id 8, epoch 2, last ms 8, batch count 1,
                batches oldest first: base sequence 4, last sequence 4, base offset 8,
                last offset 8, timestamp 8
       4  sink count        each: hash of the sink's id 16, last batch id 8
       4  open transactions each: producer id 8, first offset 8
       4  aborted ones      each: producer id 8, first offset 8, last offset 8

State changes only in `apply_batch`, live and at replay alike: deciding whether a batch may be
appended (`chains.producers`) changes nothing. Pure.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from logstore.errors import Corrupt, Refused

STATE_VERSION = 1
PRODUCER_EXPIRATION_MS = 86_400_000
"""One day of chain time, Kafka's producer.id.expiration.ms. Stored bytes depend on it."""
BATCHES_KEPT = 5
"""Kafka's ProducerStateEntry.NUM_BATCHES_TO_RETAIN: what max.in.flight of five can repeat."""

_HEAD = struct.Struct(">HI")
_COUNT = struct.Struct(">I")
_PRODUCER = struct.Struct(">qhqB")
_BATCH = struct.Struct(">iiqqq")
_SINK = struct.Struct(">16sq")
_OPEN = struct.Struct(">qq")
_ABORTED = struct.Struct(">qqq")


class ProducedBatch(NamedTuple):
    """One of the last batches of a producer: enough to answer its repeat."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int


@dataclass(slots=True)
class Producer:
    """An idempotent producer as one partition knows it; `last_ms` is chain time."""

    epoch: int
    last_ms: int
    batches: list[ProducedBatch] = field(default_factory=list)


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int


@dataclass(slots=True)
class PartitionState:
    producers: dict[int, Producer] = field(default_factory=dict)
    sinks: dict[bytes, int] = field(default_factory=dict)
    open_transactions: dict[int, int] = field(default_factory=dict)
    aborted: list[AbortedTransaction] = field(default_factory=list)

    def apply_batch(
        self,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        base_offset: int,
        last_offset: int,
        max_timestamp: int,
        created_ms: int,
    ) -> None:
        """A batch of an idempotent producer was appended; `created_ms` is its segment's."""
        producer = self.producers.get(producer_id)
        if (
            producer is None
            or producer.epoch != producer_epoch
            or self._is_expired(producer_id, producer, created_ms)
        ):
            producer = self.producers[producer_id] = Producer(producer_epoch, created_ms)
        last_sequence = (base_sequence + last_offset - base_offset) & 0x7FFFFFFF
        producer.last_ms = created_ms
        producer.batches.append(
            ProducedBatch(base_sequence, last_sequence, base_offset, last_offset, max_timestamp)
        )
        if len(producer.batches) > BATCHES_KEPT:
            del producer.batches[0]

    def expire(self, created_ms: int) -> None:
        """Forget producers idle for a day of chain time, but for open transactions.

        `apply_batch` takes them for forgotten already, so that states do not depend on when this
        was called: a leader does with every checkpoint, a replay of its chain once, at the end.
        """
        expired = [
            producer_id
            for producer_id, producer in self.producers.items()
            if self._is_expired(producer_id, producer, created_ms)
        ]
        for producer_id in expired:
            del self.producers[producer_id]

    def _is_expired(self, producer_id: int, producer: Producer, created_ms: int) -> bool:
        is_idle = producer.last_ms + PRODUCER_EXPIRATION_MS <= created_ms
        return is_idle and producer_id not in self.open_transactions


def encode_state(state: PartitionState) -> bytes:
    """Deterministic: equal states give equal bytes."""
    out = bytearray(_HEAD.pack(STATE_VERSION, len(state.producers)))
    for producer_id, producer in sorted(state.producers.items()):
        out += _PRODUCER.pack(producer_id, producer.epoch, producer.last_ms, len(producer.batches))
        for batch in producer.batches:
            out += _BATCH.pack(*batch)
    out += _COUNT.pack(len(state.sinks))
    for sink in sorted(state.sinks.items()):
        out += _SINK.pack(*sink)
    out += _COUNT.pack(len(state.open_transactions))
    for opened in sorted(state.open_transactions.items()):
        out += _OPEN.pack(*opened)
    out += _COUNT.pack(len(state.aborted))
    for aborted in state.aborted:
        out += _ABORTED.pack(*aborted)
    return bytes(out)


def decode_state(data: bytes | memoryview) -> PartitionState:
    """Raises `Corrupt`, or `Refused` for a version this code does not know."""
    try:
        return _decode(memoryview(data))
    except struct.error as error:
        raise Corrupt(f"partition state cut short: bytes={len(data)}") from error


def _decode(view: memoryview) -> PartitionState:
    version, producer_count = _HEAD.unpack_from(view)
    if version != STATE_VERSION:
        raise Refused(f"partition state of an unknown version: version={version}; upgrade")
    at = _HEAD.size
    state = PartitionState()
    for _ in range(producer_count):
        producer_id, epoch, last_ms, batch_count = _PRODUCER.unpack_from(view, at)
        at += _PRODUCER.size
        end = at + batch_count * _BATCH.size
        batches = [ProducedBatch(*f) for f in _BATCH.iter_unpack(_slice(view, at, end))]
        state.producers[producer_id] = Producer(epoch, last_ms, batches)
        at = end
    sinks, at = _items(view, at, _SINK)
    state.sinks = dict(sinks)
    opened, at = _items(view, at, _OPEN)
    state.open_transactions = dict(opened)
    aborted, at = _items(view, at, _ABORTED)
    state.aborted = [AbortedTransaction(*fields) for fields in aborted]
    if at != len(view):
        raise Corrupt(f"bytes left over in partition state: bytes={len(view)} end={at}")
    return state


def _items(view: memoryview, at: int, layout: struct.Struct) -> tuple[Iterator[Any], int]:
    """A counted run of fixed-size items, and where it ends."""
    (count,) = _COUNT.unpack_from(view, at)
    start = at + _COUNT.size
    end = start + count * layout.size
    return layout.iter_unpack(_slice(view, start, end)), end


def _slice(view: memoryview, start: int, end: int) -> memoryview:
    if end > len(view):
        raise struct.error
    return view[start:end]
