"""State of one partition that its next leader needs: producers, sinks, transactions. Encoded in
leadership-begin, leadership-end and state entries and in checkpoints: a chain rebuilds a leader.

    size  field (big-endian)
       2  version           1, or 2 if it has a sink with a time
       4  producer count
          each: producer id 8, epoch 2, last ms 8, batch count 1,
                batches oldest first: base sequence 4, last sequence 4, base offset 8,
                last offset 8, timestamp 8
       4  sink count        each: hash of the sink's id 16, last batch id 8
                            version 2 goes on: batches done 4, batches in all 4, last ms 8,
                            first offset 8, end offset 8
       4  open transactions each: producer id 8, first offset 8
       4  aborted ones      each: producer id 8, first offset 8, last offset 8

State changes only in `apply_batch` and `apply_adopted`, live and at replay alike: deciding whether
a batch may be appended (`protocol.partitions.producers`, `protocol.sinks.verdicts`) changes
nothing. Pure.

A partition may have many producers: a client that starts takes a new id, and ids stay for a
day. So producers stay packed in memory, as they are stored (a fifth of the memory of objects, and
nothing to encode); work on all of them is done in slices (`logstore.slices`) of a few milliseconds;
and a snapshot shares them with the state it was made of, until one of the two is changed.

A leader may forget idle producers sooner (`expiration_ms`), and leave them out of its checkpoints.
A replay that began before such a checkpoint still has them, or older batches of theirs; its leader
judges by its own setting, and takes what goes on from the last sequence.

A partition keeps `PRODUCERS_MAX` producers: one more, and the least recently active one without an
open transaction is forgotten, as if it had expired. Its client does not notice: Kafka's rule for an
unknown producer id (KIP-360) accepts its next batch whatever the sequence. A repeat of one of its
batches is not recognized any more, and stored again.

A sink is forgotten `SINK_EXPIRATION_MS` of chain time after its last batch, by the same rules; one
whose batch is the last that there can be, of a single batch write, after `ONE_SHOT_EXPIRATION_MS`.
Manifests that are older are refused (`protocol.sinks.verdicts`), so no batch of a forgotten sink is
copied twice.
"""

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush, merge
from itertools import islice, pairwise
from typing import Any, NamedTuple

from logstore.errors import Corrupt, Refused
from logstore.formats.segment import AdoptEnd
from logstore.formats.staging_keys import BATCH_MAX
from logstore.slices import Slices, finish

STATE_VERSION, STATE_VERSION_SINKS = 1, 2
SINK_EXPIRATION_MS = 30 * 86_400_000
"""30 days of chain time. Stored bytes depend on it, and so does the age at which manifests are
refused and deleted."""
ONE_SHOT_EXPIRATION_MS = 3 * 86_400_000
"""The same for a sink that is not used again: a partition has room for 333 batch writes a day."""
PRODUCER_EXPIRATION_MS = 86_400_000
"""One day of chain time, the default of Kafka's producer.id.expiration.ms and the longest here."""
PRODUCERS_MAX = 50_000
"""Some 25 MB of memory, and 3 to 9 MB of a checkpoint. Stored bytes depend on it."""
BATCHES_KEPT = 5
"""Kafka's ProducerStateEntry.NUM_BATCHES_TO_RETAIN: what max.in.flight of five can repeat."""

_HEAD = struct.Struct(">HI")
_COUNT = struct.Struct(">I")
_PRODUCER = struct.Struct(">qhqB")
_EPOCH = struct.Struct(">h")
_EPOCH_AT = 8
_LAST_MS = struct.Struct(">q")
_LAST_MS_AT = 10
_COUNT_AT = 18
_BATCH = struct.Struct(">iiqqq")
_BASE_OFFSET_AT = 8
_SINK_1 = struct.Struct(">16sq")
_SINK = struct.Struct(">16sqIIqqq")
_OPEN = struct.Struct(">qq")
_ABORTED = struct.Struct(">qqq")


class ProducedBatch(NamedTuple):
    """One of the last batches of a producer: enough to answer its repeat."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int


class Producer(NamedTuple):
    """An idempotent producer as one partition knows it; `last_ms` is chain time."""

    epoch: int
    last_ms: int
    batches: tuple[ProducedBatch, ...] = ()


def pack_producer(producer_id: int, producer: Producer) -> bytes:
    epoch, last_ms, batches = producer
    head = _PRODUCER.pack(producer_id, epoch, last_ms, len(batches))
    return head + b"".join(_BATCH.pack(*batch) for batch in batches)


def unpack_producer(packed: bytes) -> Producer:
    _, epoch, last_ms, _ = _PRODUCER.unpack_from(packed)
    batches = _BATCH.iter_unpack(memoryview(packed)[_PRODUCER.size :])
    return Producer(epoch, last_ms, tuple(ProducedBatch(*fields) for fields in batches))


def epoch_of(packed: bytes) -> int:
    """The epoch of a packed producer."""
    (epoch,) = _EPOCH.unpack_from(packed, _EPOCH_AT)
    return int(epoch)


def last_batch_of(packed: bytes) -> ProducedBatch | None:
    """The newest batch of a packed producer."""
    if not packed[_COUNT_AT]:
        return None
    return ProducedBatch(*_BATCH.unpack_from(packed, len(packed) - _BATCH.size))


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int


class Sink(NamedTuple):
    """The last batch of a Spark sink that was copied into one partition, or is being copied."""

    batch: int
    batches_done: int = 0
    """Record batches of it that the partition has."""
    batches_total: int = 0
    """Record batches that it has for this partition in all."""
    last_ms: int = -1
    """Chain time; -1 of a state of version 1, which had none: such a sink does not expire."""
    first_offset: int = -1
    end_offset: int = -1
    """Offsets [first, end) hold its records; others' may lie between them."""

    @property
    def is_done(self) -> bool:
        return self.batches_done >= self.batches_total

    def is_expired(self, created_ms: int) -> bool:
        return self.last_ms >= 0 and self.last_ms + sink_expiration_ms(self.batch) <= created_ms


def sink_expiration_ms(batch: int) -> int:
    """How long a sink is remembered whose last batch is `batch`."""
    return ONE_SHOT_EXPIRATION_MS if batch == BATCH_MAX else SINK_EXPIRATION_MS


class Expired(NamedTuple):
    """A producer that was found idle for a day of chain time, as it was then."""

    producer_id: int
    packed: bytes


class ExpiredSink(NamedTuple):
    """A sink that was found idle for its expiration, as it was then."""

    sink_hash: bytes
    sink: Sink


_Activity = tuple[bytes, int]
"""`_activity` of a producer, and its id."""


SLICE_PRODUCERS = 8_192
"""Some two milliseconds of work."""


@dataclass(slots=True)
class PartitionState:
    """`producers` are packed, by id: `unpack_producer`. They are changed by methods alone."""

    producers: dict[int, bytes] = field(default_factory=dict)
    sinks: dict[bytes, Sink] = field(default_factory=dict)
    """By the hash of the sink's id, 16 bytes."""
    open_transactions: dict[int, int] = field(default_factory=dict)
    aborted: list[AbortedTransaction] = field(default_factory=list)
    _is_shared: bool = field(default=False, compare=False, repr=False)
    """A snapshot has the same dicts and list: they are copied before they are changed."""
    _by_activity: list[_Activity] | None = field(default=None, compare=False, repr=False)
    """A heap with the newest activity of each producer, and older ones; from `PRODUCERS_MAX` on."""
    expiration_ms: int = field(default=PRODUCER_EXPIRATION_MS, compare=False, repr=False)
    """How long an idle producer is known. Shorter than a day only in the state of a leader: what it
    stores may have the producer, or not, and a reader of that takes both."""

    def producer(self, producer_id: int) -> Producer | None:
        packed = self.producers.get(producer_id)
        return None if packed is None else unpack_producer(packed)

    def live_producer(self, producer_id: int, created_ms: int) -> bytes | None:
        """The packed producer; None where it is unknown or, at `created_ms`, expired."""
        packed = self.producers.get(producer_id)
        if packed is None or self._is_expired(producer_id, packed, created_ms):
            return None
        return packed

    def snapshot(self) -> "PartitionState":
        """The same state, which does not change when this one does, nor this one by it."""
        self._is_shared = True
        return PartitionState(
            self.producers,
            self.sinks,
            self.open_transactions,
            self.aborted,
            _is_shared=True,
            expiration_ms=self.expiration_ms,
        )

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
        if self._is_shared:
            self._own()
        last_sequence = (base_sequence + last_offset - base_offset) & 0x7FFFFFFF
        batch = _BATCH.pack(base_sequence, last_sequence, base_offset, last_offset, max_timestamp)
        packed, count = self.live_producer(producer_id, created_ms), 0
        if packed is not None and epoch_of(packed) == producer_epoch:
            count = packed[_COUNT_AT]
            kept_from = _PRODUCER.size
            if count >= BATCHES_KEPT:
                kept_from += (count + 1 - BATCHES_KEPT) * _BATCH.size
                count = BATCHES_KEPT - 1
            batch = packed[kept_from:] + batch
        head = _PRODUCER.pack(producer_id, producer_epoch, created_ms, count + 1)
        self.producers[producer_id] = packed = head + batch
        if self._by_activity is not None:
            heappush(self._by_activity, (_activity(packed), producer_id))
        if len(self.producers) > PRODUCERS_MAX:
            self._evict()

    def apply_adopted(self, end: AdoptEnd, created_ms: int) -> None:
        """Batches of a sink were copied; `created_ms` is their segment's."""
        if self._is_shared:
            self._own()
        known = self.live_sink(end.sink, created_ms)
        is_same = known is not None and known.batch == end.batch
        self.sinks[end.sink] = Sink(
            end.batch,
            end.batches_done,
            end.batches_total,
            created_ms,
            known.first_offset if known is not None and is_same else end.first_offset,
            end.last_offset + 1,
        )

    def live_sink(self, sink_hash: bytes, created_ms: int) -> Sink | None:
        """The sink, unless it has expired by `created_ms`."""
        sink = self.sinks.get(sink_hash)
        return None if sink is None or sink.is_expired(created_ms) else sink

    def expire(self, created_ms: int) -> None:
        """Forget sinks, and producers idle for a day of chain time, but for open transactions.

        `apply_batch` and `apply_adopted` take them for forgotten already, so that states do not
        depend on when this was called: a leader does with every checkpoint, a replay of its chain
        once, at the end.
        """
        finish(self.expire_in_slices(created_ms))

    def expire_in_slices(self, created_ms: int) -> Slices[None]:
        """The same; the state may be changed between slices."""
        self.drop(self._expired_sinks(created_ms))
        ids = list(self.producers)
        for at in range(0, len(ids), SLICE_PRODUCERS):
            if at:
                yield
            some = ids[at : at + SLICE_PRODUCERS]
            packed = [(one, self.producers.get(one)) for one in some]
            self.drop(
                Expired(one, producer)
                for one, producer in packed
                if producer is not None and self._is_expired(one, producer, created_ms)
            )

    def drop(self, expired: Iterable[Expired | ExpiredSink]) -> None:
        """Drop these producers and sinks, except those that have written since."""
        for one in expired:
            if isinstance(one, ExpiredSink):
                if self.sinks.get(one.sink_hash) == one.sink:
                    if self._is_shared:
                        self._own()
                    del self.sinks[one.sink_hash]
            elif self.producers.get(one.producer_id) is one.packed:
                if self._is_shared:
                    self._own()
                del self.producers[one.producer_id]

    def _expired_sinks(self, created_ms: int) -> list[ExpiredSink]:
        return [
            ExpiredSink(sink_hash, sink)
            for sink_hash, sink in self.sinks.items()
            if sink.is_expired(created_ms)
        ]

    def _evict(self) -> None:
        """Forget the least recently active producers above `PRODUCERS_MAX`.

        The order is that of chain time, so expired producers go first, and the ones that stay do
        not depend on when `expire` was called: a leader and a replay of its chain agree.
        """
        heap, opened = self._by_activity, []
        if heap is None or len(heap) > 2 * len(self.producers):
            heap = [(_activity(packed), one) for one, packed in self.producers.items()]
            heapify(heap)
            self._by_activity = heap
        while heap and len(self.producers) > PRODUCERS_MAX:
            activity, one = heappop(heap)
            packed = self.producers.get(one)
            if packed is None or _activity(packed) != activity:
                continue  # it was dropped, or has written since
            if one in self.open_transactions:
                opened.append((activity, one))
            else:
                del self.producers[one]
        for entry in opened:
            heappush(heap, entry)

    def _own(self) -> None:
        """To be called before anything here is changed."""
        self.producers, self.sinks = dict(self.producers), dict(self.sinks)
        self.open_transactions, self.aborted = dict(self.open_transactions), list(self.aborted)
        self._is_shared = False

    def _is_expired(self, producer_id: int, packed: bytes, created_ms: int) -> bool:
        (last_ms,) = _LAST_MS.unpack_from(packed, _LAST_MS_AT)
        is_idle: bool = last_ms + self.expiration_ms <= created_ms
        return is_idle and producer_id not in self.open_transactions


def _activity(packed: bytes) -> bytes:
    """When a packed producer was last active, in an order: chain time, then offset of its batch."""
    return packed[_LAST_MS_AT:_COUNT_AT] + packed[-_BATCH.size + _BASE_OFFSET_AT :][:8]


class EncodedState(NamedTuple):
    """A state as bytes, in parts; and the producers and sinks that are not in it, being expired."""

    parts: list[bytes]
    expired: list[Expired | ExpiredSink]


def encode_state(state: PartitionState) -> bytes:
    """Deterministic: equal states give equal bytes."""
    return b"".join(finish(encode_state_in_slices(state)).parts)


def encode_state_in_slices(
    state: PartitionState, created_ms: int | None = None
) -> Slices[EncodedState]:
    """The same, without producers and sinks that are expired at `created_ms`.

    `state` must not change between slices: give a snapshot.
    """
    expired: list[Expired | ExpiredSink] = []
    chunks: list[bytes] = []
    count, producers = 0, state.producers
    for ids in (yield from _sorted_in_slices(producers)):
        live = []
        for one in ids:
            packed = producers[one]
            if created_ms is not None and state._is_expired(one, packed, created_ms):
                expired.append(Expired(one, packed))
            else:
                live.append(packed)
        count += len(live)
        chunks.append(b"".join(live))
        if len(ids) == SLICE_PRODUCERS:
            yield
    sinks = dict(state.sinks)
    if created_ms is not None:
        for old in state._expired_sinks(created_ms):
            expired.append(old)
            del sinks[old.sink_hash]
    version, out = _encode_sinks(sinks)
    out += _COUNT.pack(len(state.open_transactions))
    for opened in sorted(state.open_transactions.items()):
        out += _OPEN.pack(*opened)
    out += _COUNT.pack(len(state.aborted))
    for aborted in state.aborted:
        out += _ABORTED.pack(*aborted)
    return EncodedState([_HEAD.pack(version, count), *chunks, bytes(out)], expired)


def _encode_sinks(sinks: dict[bytes, Sink]) -> tuple[int, bytearray]:
    """The version that the state needs, and its sinks in that."""
    out = bytearray(_COUNT.pack(len(sinks)))
    if all(sink == Sink(sink.batch) for sink in sinks.values()):
        for sink_hash in sorted(sinks):
            out += _SINK_1.pack(sink_hash, sinks[sink_hash].batch)
        return STATE_VERSION, out
    for sink_hash in sorted(sinks):
        out += _SINK.pack(sink_hash, *sinks[sink_hash])
    return STATE_VERSION_SINKS, out


def _sorted_in_slices(producers: dict[int, bytes]) -> Slices[Iterator[list[int]]]:
    """The ids in order, `SLICE_PRODUCERS` at a time. Most were given in order, and came so."""
    if len(producers) <= SLICE_PRODUCERS:
        return iter([sorted(producers)] if producers else [])
    ids = list(producers)
    yield
    runs: list[list[int]] = []
    for at in range(0, len(ids), SLICE_PRODUCERS):
        runs.append(sorted(ids[at : at + SLICE_PRODUCERS]))
        yield
    if all(before[-1] < after[0] for before, after in pairwise(runs)):
        return iter(runs)
    return _merged(runs)


def _merged(runs: list[list[int]]) -> Iterator[list[int]]:
    merged = merge(*runs)
    while some := list(islice(merged, SLICE_PRODUCERS)):
        yield some


def decode_state(data: bytes | memoryview) -> PartitionState:
    """Raises `Corrupt`, or `Refused` for a version this code does not know."""
    return finish(decode_state_in_slices(data))


def decode_state_in_slices(data: bytes | memoryview) -> Slices[PartitionState]:
    """The same."""
    try:
        return (yield from _decode(memoryview(data)))
    except struct.error as error:
        raise Corrupt(f"partition state cut short: bytes={len(data)}") from error


def _decode(view: memoryview) -> Slices[PartitionState]:
    version, producer_count = _HEAD.unpack_from(view)
    if version not in (STATE_VERSION, STATE_VERSION_SINKS):
        raise Refused(f"partition state of an unknown version: version={version}; upgrade")
    at = _HEAD.size
    state = PartitionState()
    for number in range(producer_count):
        if number and number % SLICE_PRODUCERS == 0:
            yield
        producer_id, _, _, batch_count = _PRODUCER.unpack_from(view, at)
        end = at + _PRODUCER.size + batch_count * _BATCH.size
        state.producers[producer_id] = bytes(_slice(view, at, end))
        at = end
    sinks, at = _items(view, at, _SINK_1 if version == STATE_VERSION else _SINK)
    state.sinks = {sink_hash: Sink(*fields) for sink_hash, *fields in sinks}
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
