"""A staged object: batches that a task of a Spark sink wrote, for leaders to adopt. Pure.

It is a segment (`formats.segment`) of its own kind and of no chain:

    kind 3, epoch 0, broker -1
    seq               the batch of the sink
    previous nonce    hash of the sink's id
    entries           batches alone, in the order of the body, which they fill without a gap
    body              clustered by the leader known at planning, then by topic and partition

So the identity binds an object to its sink and batch. In each partition the offsets of an object
begin at 0, are dense, and stand in the batches as in the entries; leader epoch and producer are -1.
A leader stamps its own. A partition's batches are one range of the body, and the partitions of one
leader are mostly one range too.
"""

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, overload

from logstore.errors import Corrupt, Invalid, LogstoreError, Refused
from logstore.formats.packed_entries import PackedEntries
from logstore.formats.segment import (
    ENTRY,
    ENTRY_BYTES,
    KNOWN_KINDS,
    NO_NONCE,
    Entry,
    EntryKind,
    Header,
    SegmentKind,
    checked_index,
    decode_header,
    encode_front,
)
from logstore.formats.segment_builder import bare_header
from logstore.formats.staging_keys import SinkBatch, StagedName
from logstore.formats.topic_partition import TopicPartition
from logstore.records.batch import BatchHeader, check_batch, read_header, stamp
from logstore.records.crc32c import Buffer, crc32c
from logstore.slices import Slices

EPOCH, BROKER = 0, -1
_NO_LEADER_EPOCH = -1
_SLICE_ENTRIES = 2_048
"""Some four milliseconds of work."""


class StagedRef(NamedTuple):
    """A staged object as a manifest names it."""

    name: StagedName
    nonce: bytes
    size_bytes: int


class StagedRange(NamedTuple):
    """The batches of one partition in one object."""

    partition: TopicPartition
    entries: PackedEntries
    """In the order of their offsets, which begin at 0."""

    @property
    def start(self) -> int:
        """Position in the body, as is `end`."""
        return self.entries[0].position

    @property
    def end(self) -> int:
        return self.entries[-1].position + self.entries[-1].length

    @property
    def row_count(self) -> int:
        return self.entries[-1].last_offset + 1


class StagedRanges(Sequence[StagedRange]):
    """The ranges of a body, in its order; each partition once. Made when they are looked at: a
    thousand objects in memory for each index are a burden on the garbage collector."""

    __slots__ = ("_ends", "_entries", "_rows")

    def __init__(self, entries: PackedEntries) -> None:
        self._entries = entries
        self._ends = array("I")
        self._rows = array("Q")

    def add(self, end: int, row_count: int) -> None:
        """The next range, of the entries up to number `end`."""
        self._ends.append(end)
        self._rows.append(row_count)

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, at: int) -> StagedRange: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[StagedRange]: ...

    def __getitem__(self, at: int | slice) -> StagedRange | Sequence[StagedRange]:
        if isinstance(at, slice):
            return [self[number] for number in range(*at.indices(len(self)))]
        number = at if at >= 0 else len(self) + at
        if not 0 <= number < len(self):
            raise IndexError(at)
        start = self._start_of(number)
        entries = self._entries[start : self._ends[number]]
        return StagedRange(self._entries.partition_of(start), entries)

    def counts(self, start: int, end: int) -> Iterator[tuple[TopicPartition, int, int]]:
        """Partition, rows and batches of ranges [start, end), or of those that there are."""
        begin = self._start_of(start)
        for last, rows in zip(self._ends[start:end], self._rows[start:end], strict=True):
            yield self._entries.partition_of(begin), rows, last - begin
            begin = last

    def _start_of(self, number: int) -> int:
        return self._ends[number - 1] if number else 0


class StagedIndex(NamedTuple):
    header: Header
    ranges: StagedRanges


@dataclass(slots=True)
class _Gathered:
    next_offset: int = 0
    entries: list[Entry] = field(default_factory=list)
    batches: list[Buffer] = field(default_factory=list)


LeaderOf = Callable[[TopicPartition], int]


def one_leader(_: TopicPartition) -> int:
    """Body order where leaders are not known."""
    return 0


class StagedBuilder:
    """Gathers the batches of one staged object, or those in the body of a manifest."""

    def __init__(self) -> None:
        self._gathered: dict[TopicPartition, _Gathered] = {}
        self.size_bytes = 0
        """Of its batches."""

    def next_offset(self, partition: TopicPartition) -> int:
        """The base offset of the next batch of `partition`."""
        gathered = self._gathered.get(partition)
        return 0 if gathered is None else gathered.next_offset

    def rows(self) -> dict[TopicPartition, int]:
        return {partition: found.next_offset for partition, found in self._gathered.items()}

    def add(self, partition: TopicPartition, batch: Buffer) -> None:
        """A whole batch with dense offsets; it is stamped, in a copy, if its offsets are others.

        Raises `Invalid` for a batch of a producer, with control records or in a transaction.
        """
        header = read_header(batch, 0, len(batch))
        _check_plain(header, len(batch))
        gathered = self._gathered.setdefault(partition, _Gathered())
        base_offset = gathered.next_offset
        if (header.base_offset, header.leader_epoch) != (base_offset, _NO_LEADER_EPOCH):
            batch = bytearray(batch)
            stamp(batch, 0, base_offset, _NO_LEADER_EPOCH)
        gathered.next_offset += header.record_count
        gathered.batches.append(batch)
        gathered.entries.append(_entry(partition, header, base_offset))
        self.size_bytes += header.size_bytes

    def body(self, leader_of: LeaderOf, start: int = 0) -> tuple[bytes, list[Buffer]]:
        """Packed index entries, and the body in parts that begin at position `start`."""
        order = sorted(self._gathered, key=lambda one: (leader_of(one), one))
        packed, parts, position = [], [], start
        for partition in order:
            gathered = self._gathered[partition]
            parts += gathered.batches
            for entry in gathered.entries:
                packed.append(ENTRY.pack(*entry._replace(position=position)))
                position += entry.length
        return b"".join(packed), parts

    def freeze(
        self,
        batch: SinkBatch,
        *,
        cluster_id: bytes,
        nonce: bytes,
        created_ms: int,
        leader_of: LeaderOf = one_leader,
    ) -> list[Buffer]:
        """The bytes of a staged object, in parts."""
        entries, parts = self.body(leader_of)
        header = staged_header(batch, cluster_id, nonce, created_ms, parts)
        return [encode_front(header, entries, []), *parts]


def staged_header(
    batch: SinkBatch, cluster_id: bytes, nonce: bytes, created_ms: int, body: Sequence[Buffer]
) -> Header:
    """Of a staged object or a manifest; its counts are left for `encode_front`."""
    crc = 0
    for part in body:
        crc = crc32c(part, crc)
    return bare_header(
        SegmentKind.STAGED,
        cluster_id=cluster_id,
        epoch=EPOCH,
        seq=batch.batch,
        broker=BROKER,
        nonce=nonce,
        previous_nonce=batch.sink,
        created_ms=created_ms,
        body_bytes=sum(map(len, body)),
        body_crc=crc,
    )


def decode_staged(
    front: bytes | memoryview, batch: SinkBatch, ref: StagedRef, *, cluster_id: bytes
) -> Slices[StagedIndex]:
    """Header and ranges of the object that a manifest names `ref`, from its first bytes.

    Raises `Corrupt`, which names the object, unless it is that one and keeps to the rules above;
    `Refused` for a format this version does not know.
    """
    key = ref.name.key(batch)
    header, entries = yield from decode_identified(front, batch, key, cluster_id=cluster_id)
    if header.nonce != ref.nonce:
        raise Corrupt(f"staged object is another one than its manifest names: key={key}")
    if header.body_at + header.body_bytes != ref.size_bytes:
        size = header.body_at + header.body_bytes
        raise Corrupt(f"staged object of another size: key={key} bytes={size} need={ref}")
    return StagedIndex(header, (yield from ranges_of(entries, 0, header.body_bytes, key)))


def decode_identified(
    front: bytes | memoryview, batch: SinkBatch, key: str, *, cluster_id: bytes
) -> Slices[tuple[Header, PackedEntries]]:
    """Header and entries of an object staged for `batch`. Raises as `decode_staged` does."""
    try:
        header = decode_header(front)
        index = yield from checked_index(header, memoryview(front))
    except Corrupt as error:
        raise Corrupt(f"{error} key={key}") from error
    except Refused as error:
        raise Refused(f"{error} key={key}") from error
    if header.cluster_id != cluster_id:
        raise Corrupt(f"staged object of another cluster: key={key}")
    identity = (header.kind, header.epoch, header.broker, header.seq, header.previous_nonce)
    if identity != (SegmentKind.STAGED, EPOCH, BROKER, batch.batch, batch.sink):
        raise Corrupt(f"staged object does not match its key: key={key}")
    is_of_entries = len(index) == header.entry_count * ENTRY_BYTES
    if header.place_count or not is_of_entries or header.nonce == NO_NONCE:
        raise Corrupt(f"staged object of a bad form: key={key} places={header.place_count}")
    return header, PackedEntries(bytes(index), 0, header.entry_count)


def ranges_of(entries: PackedEntries, start: int, end: int, key: str) -> Slices[StagedRanges]:
    """The partitions of a body that batches fill from `start` to `end`.

    Raises `Corrupt`, or `Refused` for an entry that this version does not know.
    """
    ranges, seen = StagedRanges(entries), set[tuple[bytes, int]]()
    topic_id, number, next_offset, position, at = b"", -1, 0, start, -1
    for at, (
        kind, flags, place, partition, topic, leader_epoch, length, found_at, base, last,
        producer, producer_epoch, sequence, _, largest_at, count, crc
    ) in enumerate(entries.tuples()):  # fmt: skip
        if partition != number or topic != topic_id:
            if at:
                ranges.add(at, next_offset)
            topic_id, number, next_offset = topic, partition, 0
            if (topic, partition) in seen:
                raise Corrupt(f"partition lies in two ranges: {_where(key, at, entries[at])}")
            seen.add((topic, partition))
        if (
            found_at != position or base != next_offset or last != base + count - 1 or count <= 0
            or kind != EntryKind.BATCH or flags or place or crc or partition < 0
            or leader_epoch != _NO_LEADER_EPOCH or producer != -1 or producer_epoch != -1
            or sequence != -1 or largest_at != -1
        ):  # fmt: skip
            if kind not in KNOWN_KINDS:
                raise Refused(f"unknown kind of entry: {_where(key, at, entries[at])}; upgrade")
            raise Corrupt(f"bad entry of a staged object: {_where(key, at, entries[at])}")
        position += length
        next_offset = last + 1
        if at % _SLICE_ENTRIES == _SLICE_ENTRIES - 1:
            yield
    if position != end:
        raise Corrupt(f"bytes of no batch in a staged object: key={key} at={position} end={end}")
    if at >= 0:
        ranges.add(at + 1, next_offset)
    return ranges


def batches_of(
    found: StagedRange, data: memoryview, key: str
) -> Iterator[tuple[Entry, BatchHeader]]:
    """Each batch of a range, checked as a produced one is; `data` are the bytes of the range.

    Raises `Corrupt`, which names the object, for a batch that is damaged or not its entry's.
    """
    if len(data) != found.end - found.start:
        need = found.end - found.start
        raise Corrupt(f"range of a staged object cut short: key={key} bytes={len(data)} {need=}")
    for number, entry in enumerate(found.entries):
        try:
            header = check_batch(data, entry.position - found.start, entry.length)
            _check_plain(header, entry.length)
        except LogstoreError as error:
            raise Corrupt(f"{error} {_where(key, number, entry)}") from error
        if (header.base_offset, header.leader_epoch) != (entry.base_offset, _NO_LEADER_EPOCH):
            raise Corrupt(f"batch of other offsets than its entry: {_where(key, number, entry)}")
        if (header.record_count, header.max_timestamp) != (entry.record_count, entry.max_timestamp):
            raise Corrupt(f"batch of other records than its entry: {_where(key, number, entry)}")
        yield entry, header


def _entry(partition: TopicPartition, header: BatchHeader, base_offset: int) -> Entry:
    return Entry(
        kind=int(EntryKind.BATCH),
        flags=0,
        place=0,
        partition=partition.partition,
        topic_id=partition.topic_id,
        leader_epoch=_NO_LEADER_EPOCH,
        length=header.size_bytes,
        position=0,
        base_offset=base_offset,
        last_offset=base_offset + header.record_count - 1,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        max_timestamp=header.max_timestamp,
        max_timestamp_offset=-1,
        record_count=header.record_count,
        crc=0,
    )


def _check_plain(header: BatchHeader, length: int) -> None:
    """Raises `Invalid` unless a batch may be staged."""
    if header.size_bytes != length:
        raise Invalid(f"not one whole batch: bytes={length} batch={header.size_bytes}")
    if header.is_control or header.is_transactional or header.is_log_append_time:
        raise Invalid(f"batch may not be staged: attributes={header.attributes:#06x}")
    if header.producer_id != -1:
        raise Invalid(f"batch of a producer may not be staged: producer_id={header.producer_id}")
    if not 0 < header.record_count == header.last_offset_delta + 1:
        raise Invalid(f"batch with gaps may not be staged: records={header.record_count}")


def _where(key: str, number: int, entry: Entry) -> str:
    return f"key={key} entry={number} topic={entry.topic_id.hex()} partition={entry.partition}"
