"""Overview of one chain, object by object: its segments, its committed end, its damage.

Unlike a follower, which stops at damage, an overview reports it and continues. It reads the front
of every segment; batches are checked for one segment at a time (`cli.inspect.segment_view`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from logstore.cli.decisions.findings import (
    Finding,
    front_finding,
    identity_finding,
    size_finding,
    splice_finding,
)
from logstore.cli.output import Advance
from logstore.errors import LogstoreError, NotFound
from logstore.formats.chain_row import ChainRow, ChainStatus
from logstore.formats.chain_state import ChainState
from logstore.formats.keys import segment_key
from logstore.formats.segment import EntryKind, Header, SegmentKind
from logstore.ports.objects import ObjectInfo
from logstore.protocol.chain.walk import FRONT_GUESS_BYTES, Front, read_chain_at, read_front
from logstore.protocol.steps import Gather, Steps
from logstore.runners.step_runner import BlockingStepRunner
from logstore.wiring.open import ReadableLog

FRONTS_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class SegmentLine:
    """One segment, by its front."""

    seq: int
    kind: str
    size_bytes: int
    created_ms: int
    entries: int
    batches: int
    records: int
    is_committed: bool


@dataclass(slots=True)
class ChainOverview:
    """`committed_end` is the first seq that is not committed: the seal's, or the first gap's.

    `objects_beyond` lie past it: puts in flight, or leftovers of a dead broker; none of their
    records was acknowledged. `state` is the chain as far as it can be replayed, None if it cannot
    be entered; it is whole only if `is_replayed`.
    """

    epoch: int
    row: ChainRow | None
    objects: int = 0
    size_bytes: int = 0
    committed_end: int = 0
    seal: int | None = None
    objects_beyond: int = 0
    lines: list[SegmentLine] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    state: ChainState | None = None
    is_replayed: bool = True


def read_chain_overview(
    log: ReadableLog,
    epoch: int,
    row: ChainRow | None,
    objects: Mapping[int, ObjectInfo],
    advance: Advance,
) -> ChainOverview:
    """`objects` are those under the chain's keys, by seq."""
    overview = ChainOverview(epoch, row, len(objects), sum(o.size_bytes for o in objects.values()))
    cluster_id = log.identity.cluster_id
    try:
        checkpoint = 0 if row is None else row.checkpoint
        overview.state = log.runner.run(read_chain_at(cluster_id, epoch, checkpoint))
    except LogstoreError:
        overview.is_replayed = False  # the overview of checkpoints names the damage
    walk = _Walk(overview, cluster_id, 0 if row is None else row.trim)
    for seq, front in _fronts(log, epoch, sorted(objects), advance):
        walk.visit(seq, objects[seq], front, log.runner)
    walk.finish()
    return overview


def _fronts(
    log: ReadableLog, epoch: int, seqs: Sequence[int], advance: Advance
) -> Iterator[tuple[int, Front | LogstoreError]]:
    for first in range(0, len(seqs), FRONTS_AT_ONCE):
        some = seqs[first : first + FRONTS_AT_ONCE]
        yield from zip(some, log.runner.run(_read_all(epoch, some)), strict=True)
        advance(len(some))


def _read_all(epoch: int, seqs: Sequence[int]) -> Steps[list[Front | LogstoreError]]:
    fronts: list[Front | LogstoreError] = yield Gather([read_front(epoch, seq) for seq in seqs])
    return fronts


class _Walk:
    """Reads one chain in the order of seqs and notes its findings."""

    def __init__(self, overview: ChainOverview, cluster_id: bytes, trim: int) -> None:
        self._chain = overview
        self._cluster_id = cluster_id
        self._trim = trim
        self._previous: Header | None = None
        self._next_seq = trim
        self._is_over = False

    def visit(
        self,
        seq: int,
        info: ObjectInfo,
        front: Front | LogstoreError,
        runner: BlockingStepRunner,
    ) -> None:
        if isinstance(front, NotFound):
            return  # trimmed since it was listed
        overview = self._chain
        if seq >= self._trim and seq != self._next_seq and not self._is_over:
            self._end_at(self._next_seq)
        header: Header | None = None
        if isinstance(front, LogstoreError):
            self._note_damage(info, front, runner)
        else:
            header = front.index.header
            self._note(size_finding(info.key, header, info.size_bytes))
            self._check_place(seq, info.key, header)
            overview.lines.append(self._line(seq, info, front))
        if seq < self._trim:
            return
        if self._is_over:
            overview.objects_beyond += 1
            return
        if header is not None and header.kind is SegmentKind.SEAL:
            overview.seal = seq
            self._end_at(seq)
            return
        self._replay(seq, front)
        self._previous = header
        self._next_seq = seq + 1

    def finish(self) -> None:
        """Check for the objects that the row names."""
        overview, row = self._chain, self._chain.row
        if not self._is_over:
            self._end_at(self._next_seq)
        key = segment_key(overview.epoch, overview.committed_end)
        if row is None or overview.seal is not None:
            return
        if row.status is ChainStatus.SEALED:
            self._note(Finding(key, None, f"segment is missing: the chain is sealed at {row.seal}"))
            overview.is_replayed = False
        elif overview.committed_end < row.checkpoint:
            self._note(
                Finding(key, None, f"segment is missing: a checkpoint is at {row.checkpoint}")
            )

    def _end_at(self, seq: int) -> None:
        self._is_over = True
        self._chain.committed_end = seq

    def _note_damage(
        self, info: ObjectInfo, error: LogstoreError, runner: BlockingStepRunner
    ) -> None:
        try:
            front = runner.store.get_range(info.key, 0, FRONT_GUESS_BYTES)
        except LogstoreError:
            self._note(Finding(info.key, None, str(error)))
            return
        self._note(front_finding(info.key, front, error))

    def _check_place(self, seq: int, key: str, header: Header) -> None:
        overview = self._chain
        self._note(identity_finding(key, header, self._cluster_id, overview.epoch, seq))
        if self._previous is not None and not self._is_over and seq == self._previous.seq + 1:
            self._note(splice_finding(key, header, self._previous))

    def _line(self, seq: int, info: ObjectInfo, front: Front) -> SegmentLine:
        batches = [e for e in front.index.entries if e.kind in (EntryKind.BATCH, EntryKind.ADOPTED)]
        header = front.index.header
        return SegmentLine(
            seq,
            header.kind.name.lower(),
            info.size_bytes,
            header.created_ms,
            header.entry_count,
            len(batches),
            sum(entry.record_count for entry in batches),
            not self._is_over,
        )

    def _replay(self, seq: int, front: Front | LogstoreError) -> None:
        overview = self._chain
        state = overview.state
        if state is None or not overview.is_replayed or seq < state.next_seq:
            return
        if isinstance(front, LogstoreError):
            overview.is_replayed = False
            return
        try:
            state.apply_segment(front.index, front.states)
        except LogstoreError as error:
            overview.is_replayed = False
            if not overview.findings:
                self._note(Finding(segment_key(overview.epoch, seq), None, str(error)))

    def _note(self, finding: Finding | None) -> None:
        if finding is not None:
            self._chain.findings.append(finding)
