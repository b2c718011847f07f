"""One segment, byte by byte: header, every index entry, every batch's checksum."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from logstore.cli.decisions.findings import (
    BODY_CRC_AT,
    Finding,
    front_finding,
    identity_finding,
    size_finding,
)
from logstore.errors import LogstoreError, NotFound
from logstore.formats.keys import segment_key
from logstore.formats.segment import (
    CONTROL,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    AdoptEnd,
    Entry,
    EntryKind,
    Header,
    Index,
    decode_front,
)
from logstore.records.batch import (
    BadBatch,
    BatchHeader,
    CorruptBatch,
    Reason,
    check_crc,
    read_header,
)
from logstore.records.crc32c import crc32c
from logstore.wiring.open import ReadableLog

FLAGS = {LOG_APPEND_TIME: "log append time", TRANSACTIONAL: "transactional", CONTROL: "control"}


@dataclass(frozen=True, slots=True)
class EntryLine:
    """One index entry. `at`: position of its batch or state in the object.

    `flags` of an adopt end: sink, its batch, how many record batches of that are copied.
    """

    number: int
    kind: str
    topic: str
    partition: int
    leader_epoch: int
    base_offset: int
    last_offset: int
    records: int
    at: int
    length: int
    place: int
    flags: Sequence[str]
    compression: str | None
    producer_id: int
    producer_epoch: int
    base_sequence: int
    max_timestamp: int


@dataclass(frozen=True, slots=True)
class SegmentView:
    """`header` is None when it cannot be read; `findings` says why."""

    key: str
    size_bytes: int
    header: Header | None
    entries: Sequence[EntryLine]
    findings: Sequence[Finding]


def view_segment(
    log: ReadableLog, epoch: int, seq: int, topics: Mapping[bytes, str]
) -> SegmentView:
    """`topics` are names by id, for those that still have one. Raises `NotFound`."""
    key = segment_key(epoch, seq)
    try:
        data = log.runner.store.get(key)
    except NotFound as error:
        raise NotFound(
            f"no such segment: epoch={epoch} seq={seq}; see: inspect chain {epoch}"
        ) from error
    try:
        index = decode_front(data)
    except LogstoreError as error:
        return SegmentView(key, len(data), None, [], [front_finding(key, data, error)])
    header = index.header
    findings = [
        finding
        for finding in (
            size_finding(key, header, len(data)),
            identity_finding(key, header, log.identity.cluster_id, epoch, seq),
        )
        if finding is not None
    ]
    return _view(key, data, index, topics, findings)


def _view(
    key: str, data: bytes, index: Index, topics: Mapping[bytes, str], findings: list[Finding]
) -> SegmentView:
    lines = []
    view = memoryview(data)
    for number, entry in enumerate(index.entries):
        at = index.header.body_at + entry.position
        compression = None
        try:
            if entry.kind == EntryKind.BATCH:
                compression = _checked_batch(view, at, entry).compression
            elif entry.place == 0 and crc32c(view[at : at + entry.length]) != entry.crc:
                findings.append(Finding(key, at, "state fails its checksum"))
        except BadBatch as error:
            findings.append(Finding(key, error.at, str(error)))
        lines.append(_line(number, entry, at, compression, topics))
    if not findings and crc32c(view[index.header.body_at :]) != index.header.body_crc:
        # A batch's own checksum leaves out its first 21 bytes.
        findings.append(Finding(key, BODY_CRC_AT, "body fails its checksum"))
    return SegmentView(key, len(data), index.header, lines, findings)


def _checked_batch(view: memoryview, at: int, entry: Entry) -> BatchHeader:
    """Raises `CorruptBatch`; its `at` counts from the start of the object."""
    header = read_header(view, at, min(entry.length, len(view) - at))
    check_crc(view, at, header)
    if (header.base_offset, header.last_offset) != (entry.base_offset, entry.last_offset):
        detail = f"base_offset={header.base_offset} last_offset={header.last_offset}"
        raise CorruptBatch(Reason.BAD_COUNT, at, f"not the batch of its index entry: {detail}")
    return header


def _line(
    number: int, entry: Entry, at: int, compression: str | None, topics: Mapping[bytes, str]
) -> EntryLine:
    flags = [name for bit, name in FLAGS.items() if entry.flags & bit]
    if entry.kind == EntryKind.ADOPT_END:
        flags, entry = _sink_flags(AdoptEnd.of(entry)), _without_sink(entry)
    return EntryLine(
        number,
        EntryKind(entry.kind).name.lower(),
        topics.get(entry.topic_id, entry.topic_id.hex()),
        entry.partition,
        entry.leader_epoch,
        entry.base_offset,
        entry.last_offset,
        entry.record_count,
        at,
        entry.length,
        entry.place,
        flags,
        compression,
        entry.producer_id,
        entry.producer_epoch,
        entry.base_sequence,
        entry.max_timestamp,
    )


def _sink_flags(end: AdoptEnd) -> list[str]:
    return [
        f"sink {end.sink.hex()}",
        f"batch {end.batch}",
        f"{end.batches_done} of {end.batches_total} copied",
    ]


def _without_sink(entry: Entry) -> Entry:
    """The entry without the fields that say other things in an adopt end."""
    return entry._replace(
        producer_id=-1,
        base_sequence=-1,
        max_timestamp=-1,
        max_timestamp_offset=-1,
        record_count=0,
    )
