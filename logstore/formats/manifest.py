"""The manifest of one batch of a sink: which attempt of it counts. Pure.

    staging/<sink>/<batch>/manifest, created once and never changed

A staged object (`formats.staged_object`) whose first entry is its head, a state, at the start of
the body; batches of small tasks, which put no object of their own, follow in the body.

    size  field of the head (big-endian; texts are utf-8 after their length)
       2  version           1
       1  flags             1 void: the batch was given up, none of it is ever adopted
     1+n  query id          which query, or batch write, made it
     1+n  run id            which start of the query
       4  topic count       in the order of topic ids, each once
          each: topic id 16, partition count 4 as the tasks saw it, name 1+n
       4  partition count   those with rows, in the order of topics above and partitions
          each: topic number 4, partition 4, rows 8
       4  object count      in the order of tasks; of each task one attempt, numbers from 0
          each: task 4, attempt 8, number 4, bytes 8, nonce 16

Rows count those in objects and those in the body. A void manifest has no topics and no objects.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, overload

from logstore.errors import Corrupt, Invalid, Refused
from logstore.formats.segment import ENTRY, Entry, EntryKind, Header, encode_front
from logstore.formats.staged_object import (
    LeaderOf,
    StagedBuilder,
    StagedRange,
    StagedRanges,
    StagedRef,
    decode_identified,
    one_leader,
    ranges_of,
    staged_header,
)
from logstore.formats.staging_keys import SinkBatch, StagedName
from logstore.formats.topic_partition import TopicPartition
from logstore.records.crc32c import Buffer, crc32c
from logstore.slices import Slices, finish

HEAD_VERSION = 1
VOID = 1
TEXT_BYTES_MAX = 255
INLINE_BYTES_MAX = 64 << 20
"""Of the batches in the body."""

_HEAD = struct.Struct(">HB")
_COUNT = struct.Struct(">I")
_TOPIC = struct.Struct(">16sI")
_ROWS = struct.Struct(">IIQ")
_OBJECT = struct.Struct(">IQIQ16s")
_SLICE_LINES = 8_192
"""Some four milliseconds of work."""


class ManifestTopic(NamedTuple):
    name: str
    topic_id: bytes
    partitions: int
    """How many the tasks spread their rows over."""


class StagedRefs(Sequence[StagedRef]):
    """Staged objects as they are stored, each unpacked when it is looked at: a manifest may name
    hundreds of thousands, which would be a burden on the garbage collector."""

    __slots__ = ("_packed",)

    def __init__(self, packed: bytes) -> None:
        self._packed = packed

    def __len__(self) -> int:
        return len(self._packed) // _OBJECT.size

    @overload
    def __getitem__(self, at: int) -> StagedRef: ...
    @overload
    def __getitem__(self, at: slice) -> "StagedRefs": ...

    def __getitem__(self, at: int | slice) -> "StagedRef | StagedRefs":
        if isinstance(at, slice):
            first, end, step = at.indices(len(self))
            assert step == 1, "objects are cut into runs alone"
            return StagedRefs(self._packed[first * _OBJECT.size : end * _OBJECT.size])
        number = at if at >= 0 else len(self) + at
        if not 0 <= number < len(self):
            raise IndexError(at)
        task, attempt, of_task, size, nonce = _OBJECT.unpack_from(
            self._packed, number * _OBJECT.size
        )
        return StagedRef(StagedName(task, attempt, of_task), nonce, size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestHead:
    """`rows`: of each partition that has any. `objects` in the order of their names."""

    query_id: str
    run_id: str
    topics: Sequence[ManifestTopic] = ()
    rows: Mapping[TopicPartition, int]
    objects: Sequence[StagedRef] = ()
    is_void: bool = False


@dataclass(frozen=True, slots=True)
class Manifest:
    key: str
    header: Header
    head: ManifestHead
    inline: StagedRanges
    """Batches in the body of the manifest itself."""

    @property
    def nonce(self) -> bytes:
        return self.header.nonce


def encode_manifest(
    batch: SinkBatch,
    head: ManifestHead,
    inline: StagedBuilder,
    *,
    cluster_id: bytes,
    nonce: bytes,
    created_ms: int,
    leader_of: LeaderOf = one_leader,
) -> list[Buffer]:
    """The bytes of a manifest, in parts. Raises `Invalid` for a head that no reader accepts."""
    if inline.size_bytes > INLINE_BYTES_MAX:
        raise Invalid(f"too many bytes in a manifest: bytes={inline.size_bytes}")
    packed = _encode_head(head)
    entries, parts = inline.body(leader_of, start=len(packed))
    body = [packed, *parts]
    header = staged_header(batch, cluster_id, nonce, created_ms, body)
    return [encode_front(header, _head_entry(packed) + entries, []), *body]


def decode_manifest(data: bytes | memoryview, batch: SinkBatch, *, cluster_id: bytes) -> Manifest:
    """A manifest of which at least front and head are in `data`.

    The batches of the body are for `staged_object.batches_of` to check. Raises `Corrupt`, which
    names the manifest, or `Refused` for a version this code does not know.
    """
    return finish(decode_manifest_in_slices(data, batch, cluster_id=cluster_id))


def decode_manifest_in_slices(
    data: bytes | memoryview, batch: SinkBatch, *, cluster_id: bytes
) -> Slices[Manifest]:
    """The same."""
    key = batch.manifest_key
    header, entries = yield from decode_identified(data, batch, key, cluster_id=cluster_id)
    if not entries or entries[0] != Entry(*ENTRY.unpack(_head_entry(b"")))._replace(
        length=entries[0].length, crc=entries[0].crc
    ):
        raise Corrupt(f"manifest without a head: key={key}")
    size = entries[0].length
    packed = memoryview(data)[header.body_at : header.body_at + size]
    if len(packed) != size or crc32c(packed) != entries[0].crc:
        raise Corrupt(f"head of a manifest is damaged: key={key} bytes={len(packed)} need={size}")
    inline = yield from ranges_of(entries[1:], size, header.body_bytes, key)
    yield
    try:
        head = yield from _decode_head(packed)
        _check_rows(head, inline)
    except (struct.error, UnicodeDecodeError) as error:
        raise Corrupt(f"head of a manifest is cut short: key={key}") from error
    except (Corrupt, Invalid) as error:
        raise Corrupt(f"{error} key={key}") from error
    except Refused as error:
        raise Refused(f"{error} key={key}") from error
    return Manifest(key, header, head, inline)


def _head_entry(packed: bytes) -> bytes:
    state = int(EntryKind.STATE)
    fields = (state, 0, 0, -1, bytes(16), -1, len(packed), 0, 0, -1, -1, -1, -1, -1, -1, 0)
    return ENTRY.pack(*fields, crc32c(packed))


def _encode_head(head: ManifestHead) -> bytes:
    topics = sorted(head.topics, key=lambda topic: topic.topic_id)
    numbers = {topic.topic_id: number for number, topic in enumerate(topics)}
    rows = sorted((numbers[one.topic_id], one.partition, n) for one, n in head.rows.items())
    out = bytearray(_HEAD.pack(HEAD_VERSION, VOID if head.is_void else 0))
    out += _text(head.query_id) + _text(head.run_id) + _COUNT.pack(len(topics))
    for topic in topics:
        out += _TOPIC.pack(topic.topic_id, topic.partitions) + _text(topic.name)
    out += _COUNT.pack(len(rows)) + b"".join(_ROWS.pack(*line) for line in rows)
    out += _COUNT.pack(len(head.objects))
    for ref in head.objects:
        out += _OBJECT.pack(*ref.name, ref.size_bytes, ref.nonce)
    packed = bytes(out)
    finish(_decode_head(memoryview(packed)))
    return packed


def _text(text: str) -> bytes:
    data = text.encode()
    if len(data) > TEXT_BYTES_MAX:
        raise Invalid(f"text too long for a manifest: bytes={len(data)} max={TEXT_BYTES_MAX}")
    return bytes([len(data)]) + data


def _decode_head(view: memoryview) -> Slices[ManifestHead]:
    version, flags = _HEAD.unpack_from(view)
    if version != HEAD_VERSION or flags & ~VOID:
        raise Refused(f"manifest of an unknown version: version={version} {flags=}; upgrade")
    query_id, at = _decode_text(view, _HEAD.size)
    run_id, at = _decode_text(view, at)
    (topic_count,) = _COUNT.unpack_from(view, at)
    at += _COUNT.size
    topics: list[ManifestTopic] = []
    for _ in range(topic_count):
        topic_id, partitions = _TOPIC.unpack_from(view, at)
        name, at = _decode_text(view, at + _TOPIC.size)
        topics.append(ManifestTopic(name, topic_id, partitions))
    yield
    rows, at = yield from _lines(view, at, _ROWS)
    objects_at = at + _COUNT.size
    object_count, at = yield from _check_objects(view, at)
    if at != len(view):
        raise Corrupt(f"bytes left over in the head of a manifest: at={at} bytes={len(view)}")
    _check_topics(topics)
    by_partition = yield from _partition_rows(topics, rows)
    refs = StagedRefs(bytes(view[objects_at : objects_at + object_count * _OBJECT.size]))
    head = ManifestHead(
        query_id=query_id,
        run_id=run_id,
        topics=topics,
        rows=by_partition,
        objects=refs,
        is_void=bool(flags & VOID),
    )
    if head.is_void and (topics or rows or object_count):
        raise Corrupt(f"void manifest that names something: topics={len(topics)} {object_count=}")
    return head


def _decode_text(view: memoryview, at: int) -> tuple[str, int]:
    if at >= len(view):
        raise struct.error(f"no text at={at}")
    end = at + 1 + view[at]
    if end > len(view):
        raise struct.error(f"text cut short at={at}")
    return bytes(view[at + 1 : end]).decode(), end


def _lines(
    view: memoryview, at: int, layout: struct.Struct
) -> Slices[tuple[list[tuple[Any, ...]], int]]:
    """A counted run of lines, and where it ends."""
    (count,) = _COUNT.unpack_from(view, at)
    start, end = at + _COUNT.size, at + _COUNT.size + count * layout.size
    if end > len(view):
        raise struct.error(f"lines cut short at={at} count={count}")
    lines: list[tuple[Any, ...]] = []
    step = _SLICE_LINES * layout.size
    for begin in range(start, end, step):
        lines += layout.iter_unpack(view[begin : min(begin + step, end)])
        yield
    return lines, end


def _check_topics(topics: Sequence[ManifestTopic]) -> None:
    for before, after in pairwise(topics):
        if before.topic_id >= after.topic_id:
            raise Corrupt(f"topics out of order: topic={after.topic_id.hex()}")


def _partition_rows(
    topics: Sequence[ManifestTopic], lines: Iterable[tuple[Any, ...]]
) -> Slices[dict[TopicPartition, int]]:
    rows: dict[TopicPartition, int] = {}
    last = (-1, -1)
    for number, (topic, partition, count) in enumerate(lines):
        if number and number % _SLICE_LINES == 0:
            yield
        if not last < (topic, partition) or topic >= len(topics) or not count:
            raise Corrupt(f"bad line of rows: topic={topic} partition={partition} rows={count}")
        if partition >= topics[topic].partitions:
            raise Corrupt(f"rows of a partition that is not there: partition={partition}")
        last = topic, partition
        rows[TopicPartition(topics[topic].topic_id, partition)] = count
    return rows


def _check_objects(view: memoryview, at: int) -> Slices[tuple[int, int]]:
    """How many objects there are, and where their lines end."""
    (count,) = _COUNT.unpack_from(view, at)
    start, end = at + _COUNT.size, at + _COUNT.size + count * _OBJECT.size
    if end > len(view):
        raise struct.error(f"lines cut short at={at} count={count}")
    last: tuple[int, int, int] = -1, -1, -1
    step = _SLICE_LINES * _OBJECT.size
    for begin in range(start, end, step):
        lines = _OBJECT.iter_unpack(view[begin : min(begin + step, end)])
        for task, attempt, number, _, _ in lines:
            is_next = (task, attempt, number) == (*last[:2], last[2] + 1)
            if not is_next and not (task > last[0] and number == 0):
                raise Corrupt(f"staged objects out of order: task={task} number={number}")
            last = task, attempt, number
        yield
    return count, end


def _check_rows(head: ManifestHead, inline: Sequence[StagedRange]) -> None:
    """Rows in the body are among those of their partition, and all of them without objects."""
    for found in inline:
        missing = head.rows.get(found.partition, 0) - found.row_count
        if missing < 0 or (missing and not head.objects):
            raise Corrupt(f"manifest miscounts its rows: {found.partition} {missing=}")
    if not head.objects and len(inline) != len(head.rows):
        raise Corrupt(f"rows that lie nowhere: partitions={len(head.rows)} found={len(inline)}")
