"""One checkpoint: what it covers, its epoch ranges, its index pages and whether they hold."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from logstore.cli.decisions.findings import Finding
from logstore.errors import Corrupt, LogstoreError, NotFound
from logstore.formats.checkpoint import Checkpoint, chain_state_of
from logstore.formats.keys import checkpoint_key
from logstore.protocol.chain.walk import read_checkpoint
from logstore.records.crc32c import crc32c
from logstore.wiring.open import ReadableLog


@dataclass(frozen=True, slots=True)
class EpochRangeLine:
    """Offsets [start, end) that one leadership wrote in this chain up to the checkpoint."""

    topic: str
    partition: int
    leader_epoch: int
    start: int
    end: int
    is_released: bool
    producers: int
    state_bytes: int
    max_timestamp: int


@dataclass(frozen=True, slots=True)
class PageLine:
    """`at` is the byte of the object where the page begins."""

    topic: str
    partition: int
    leader_epoch: int
    first_offset: int
    end_offset: int
    rows: int
    at: int


@dataclass(frozen=True, slots=True)
class DeletedLine:
    """Below offset `below` records were deleted, and epoch ranges forgotten."""

    topic: str
    partition: int
    below: int


@dataclass(frozen=True, slots=True)
class CheckpointView:
    """Covers segments [from_seq, seq); `earlier` are the checkpoints before it."""

    key: str
    size_bytes: int
    epoch: int
    seq: int
    from_seq: int
    broker: int
    created_ms: int
    earlier: Sequence[int]
    stretches: Sequence[EpochRangeLine]
    pages: Sequence[PageLine]
    deleted: Sequence[DeletedLine]
    findings: Sequence[Finding]


def view_checkpoint(
    log: ReadableLog, epoch: int, seq: int, topics: Mapping[bytes, str]
) -> CheckpointView:
    """`topics` are names by id. Raises `NotFound`; `Corrupt` when its front cannot be read."""
    key = checkpoint_key(epoch, seq)
    try:
        data = log.runner.store.get(key)
    except NotFound as error:
        raise NotFound(
            f"no such checkpoint: epoch={epoch} seq={seq}; the chain's row names the last one: "
            "inspect registry"
        ) from error
    try:
        front = log.runner.run(read_checkpoint(epoch, seq))
    except LogstoreError as error:
        raise Corrupt(f"{key}: {error}") from error
    producers, findings = _producers(key, front, data)
    return CheckpointView(
        key,
        len(data),
        epoch,
        seq,
        front.from_seq,
        front.broker,
        front.created_ms,
        front.earlier,
        _epoch_ranges(front, producers, topics),
        _pages(front, topics),
        [
            DeletedLine(topics.get(topic_id, topic_id.hex()), partition, offset)
            for (topic_id, partition), offset in front.deleted_below.items()
        ],
        [*findings, *_page_findings(key, front, data)],
    )


def _producers(
    key: str, front: Checkpoint, data: bytes
) -> tuple[Mapping[object, int], Sequence[Finding]]:
    """How many idempotent producers each epoch range knows."""
    states = data[front.front_bytes : front.pages_at]
    try:
        chain = chain_state_of(front, states)
    except LogstoreError as error:
        return {}, [Finding(key, front.front_bytes, str(error))]
    return {
        epoch_range: len(s.state.producers) for epoch_range, s in chain.epoch_ranges.items()
    }, []


def _epoch_ranges(
    front: Checkpoint, producers: Mapping[object, int], topics: Mapping[bytes, str]
) -> list[EpochRangeLine]:
    return [
        EpochRangeLine(
            topics.get(key.topic_id, key.topic_id.hex()),
            key.partition,
            key.leader_epoch,
            summary.start,
            summary.end,
            summary.released,
            producers.get(key, 0),
            summary.state_bytes,
            summary.max_timestamp,
        )
        for key, summary in front.epoch_ranges.items()
    ]


def _pages(front: Checkpoint, topics: Mapping[bytes, str]) -> list[PageLine]:
    return [
        PageLine(
            topics.get(page.topic_id, page.topic_id.hex()),
            page.partition,
            page.leader_epoch,
            page.first_offset,
            page.end_offset,
            page.row_count,
            front.pages_at + page.position,
        )
        for page in front.pages
    ]


def _page_findings(key: str, front: Checkpoint, data: bytes) -> list[Finding]:
    findings = []
    for page in front.pages:
        at = front.pages_at + page.position
        rows = data[at : at + page.byte_count]
        if len(rows) != page.byte_count:
            cause = f"index page cut short: bytes={len(rows)} expected={page.byte_count}"
            findings.append(Finding(key, at + len(rows), cause))
        elif crc32c(rows) != page.crc:
            findings.append(Finding(key, at, "index page fails its checksum"))
    return findings
