"""One chain held against its row and its checkpoints: a part of `logstore fsck`.

The chain is replayed from its trim point, in bounded memory: rows of the index only since the last
checkpoint, which is compared with what is stored as it comes by. Damage is named and passed by; at
the next checkpoint the replay begins again.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from logstore.cli.decisions.findings import identity_finding, size_finding, splice_finding
from logstore.errors import LogstoreError, NotFound
from logstore.formats.chain_row import ChainRow
from logstore.formats.chain_state import ChainState
from logstore.formats.keys import checkpoint_key, segment_key
from logstore.formats.segment import Header, SegmentKind, body_of
from logstore.ports.objects import ObjectInfo
from logstore.protocol.chain.walk import (
    Front,
    get_retrying,
    read_chain_at,
    read_checkpoint,
    read_front,
)
from logstore.protocol.rules.checks import (
    Problem,
    ProblemKind,
    SeenChain,
    chain_row_problems,
    checkpoint_of_replay,
    extents_of,
)
from logstore.protocol.steps import Gather, Steps
from logstore.runners.step_runner import BlockingStepRunner

FRONTS_AT_ONCE = 32
PROBLEMS_MAX = 100
"""Of one chain, so that a thousand lost segments do not print a thousand lines."""


@dataclass(slots=True)
class FsckCounts:
    """Objects checked, and objects without effect."""

    chains: int = 0
    segments: int = 0
    checkpoints: int = 0
    partitions: int = 0
    beyond: int = 0
    """Objects beyond a gap or a seal: puts in flight, or leftovers of a dead broker."""
    below_trim: int = 0
    """Segments below a trim point: to be deleted, or left by a deletion that died."""
    unused_checkpoints: int = 0
    """Stored by a broker that was fenced before its chain's row could name them."""
    bare_openings: int = 0
    """Openings of brokers that died while they started."""
    records: int = 0
    """Records of topics, also of those that are gone."""
    never_made: int = 0
    """Topics whose newest record says more than their row: a change whose writer died."""
    half_done: int = 0
    """Rows of creations and deletions that died: of topics that no chain ever led, or that are
    deleted. A broker clears them away."""
    tables: int = 0
    """Also those of topics that are gone."""
    table_files: int = 0
    cleanings: int = 0
    """Commits of key compaction whose rows were held against those before; with `--data` alone."""
    old_cleanings: int = 0
    """Those that could not be: files that they took out are swept, or their keys are too many."""
    manifests: int = 0
    """Batches of Spark sinks that a driver has fixed, void ones too."""
    staged: int = 0
    """Objects that these name."""
    unnamed: int = 0
    """Objects of tasks that stage now, or of attempts that lost."""
    unsummed_entries: dict[str, int] = field(default_factory=dict)
    """By table, entries of its log since the last checkpoint where these are too many: writing
    checkpoints fails there. Nothing is lost; every reader of the table reads all of them."""


@dataclass(slots=True)
class CheckedChain:
    """One chain as it was found."""

    seen: SeenChain
    problems: list[Problem] = field(default_factory=list)


def check_chain(
    runner: BlockingStepRunner,
    cluster_id: bytes,
    epoch: int,
    row: ChainRow | None,
    objects: Iterable[tuple[int, ObjectInfo]],
    counts: FsckCounts,
    *,
    committed_end: int,
    bodies: bool,
) -> CheckedChain:
    """`objects` are those under the chain's keys, by seq, in order. `committed_end`: as its broker
    said it, before they were listed. `bodies`: read all bytes.
    """
    check = _ChainCheck(runner, cluster_id, epoch, row, counts, committed_end, bodies)
    for some in _chunks(objects):
        for (seq, info), front in zip(some, check.fronts(some), strict=True):
            check.visit(seq, info, front)
    return check.finish()


def _chunks(
    objects: Iterable[tuple[int, ObjectInfo]],
) -> Iterator[Sequence[tuple[int, ObjectInfo]]]:
    rest = iter(objects)
    while some := list(islice(rest, FRONTS_AT_ONCE)):
        yield some


class _ChainCheck:
    """Goes along one chain in the order of seqs. `_state` is None behind damage."""

    def __init__(
        self,
        runner: BlockingStepRunner,
        cluster_id: bytes,
        epoch: int,
        row: ChainRow | None,
        counts: FsckCounts,
        committed_end: int,
        bodies: bool,
    ) -> None:
        self._runner, self._cluster_id, self._epoch = runner, cluster_id, epoch
        self._row, self._counts, self._bodies = row, counts, bodies
        self._trim = 0 if row is None else row.trim
        self._committed_end = committed_end
        self._problems: list[Problem] = []
        self._opening: Header | None = None
        self._previous: Header | None = None
        self._next_seq = self._trim
        self._end: int | None = None
        self._seal: int | None = None
        self._count = 0
        self._checkpoints = self._known_checkpoints()
        self._state: ChainState | None = self._enter(self._trim)

    # Reading

    def fronts(self, some: Sequence[tuple[int, ObjectInfo]]) -> list[Front | LogstoreError | None]:
        """None for segments below the trim point, which are being deleted."""
        steps = [
            read_front(self._epoch, seq) if seq == 0 or seq >= self._trim else _nothing()
            for seq, _ in some
        ]
        fronts: list[Front | LogstoreError | None] = self._runner.run(_together(steps))
        return fronts

    def _known_checkpoints(self) -> frozenset[int]:
        """Those above the trim point, as the last one lists them; it is named by the row."""
        if self._row is None or not self._row.checkpoint:
            return frozenset()
        try:
            front = self._runner.run(read_checkpoint(self._epoch, self._row.checkpoint))
        except LogstoreError as error:
            self._bad_checkpoint(self._row.checkpoint, str(error))
            return frozenset()
        return frozenset(seq for seq in (*front.earlier, front.seq) if seq > self._trim)

    def _enter(self, seq: int) -> ChainState | None:
        try:
            return self._runner.run(read_chain_at(self._cluster_id, self._epoch, seq))
        except LogstoreError as error:
            self._bad_checkpoint(seq, str(error))
            return None

    # What is met

    def visit(self, seq: int, info: ObjectInfo, front: Front | LogstoreError | None) -> None:
        self._count += 1
        self._counts.segments += 1
        if seq == 0 and isinstance(front, Front):
            self._opening = front.index.header
        if seq < self._trim:
            self._counts.below_trim += seq > 0
            return
        if self._end is None and seq != self._next_seq:
            self._end_at_gap(seq)
        if self._end is not None:
            self._counts.beyond += 1
            return
        header = self._check(seq, info, front)
        if header is not None and header.kind is SegmentKind.SEAL:
            self._seal = self._end = seq
            self._compare_checkpoint(seq)
            self._check_committed(seq)
            return
        self._replay(seq, front)
        self._previous, self._next_seq = header, seq + 1

    def _end_at_gap(self, next_seq: int) -> None:
        """The first gap is the end; unless the row says that there was more."""
        row, at = self._row, self._next_seq
        promised = max(self._committed_end, *((row.checkpoint, row.seal) if row else ()), 0)
        if at < promised:
            detail = f"segments from seq={at} to below {min(next_seq, promised)} are missing"
            self._problem(ProblemKind.MISSING, segment_key(self._epoch, at), detail)
            self._state, self._previous = None, None
            self._next_seq = next_seq
            return
        self._end = at

    def _check_committed(self, end: int) -> None:
        """A seal at a segment that was there and is not: to a takeover it was a put under way."""
        if end < self._committed_end:
            detail = (
                f"the chain ends at seq={end}, and its broker had committed all below "
                f"seq={self._committed_end}"
            )
            self._problem(ProblemKind.MISSING, segment_key(self._epoch, end), detail)

    def _check(
        self, seq: int, info: ObjectInfo, front: Front | LogstoreError | None
    ) -> Header | None:
        if isinstance(front, LogstoreError):
            if not isinstance(front, NotFound):  # deleted since it was listed: a second look tells
                self._problem(ProblemKind.DAMAGED, info.key, str(front))
            return None
        assert front is not None
        header = front.index.header
        foreign = identity_finding(info.key, header, self._cluster_id, self._epoch, seq)
        if foreign is None and self._previous is not None:
            foreign = splice_finding(info.key, header, self._previous)
        if foreign is not None:
            self._problem(ProblemKind.FOREIGN, info.key, foreign.cause)
        size = size_finding(info.key, header, info.size_bytes)
        if size is not None:
            self._problem(ProblemKind.DAMAGED, info.key, size.cause)
        elif self._bodies and header.body_bytes:
            self._check_body(info.key, header)
        return header

    def _check_body(self, key: str, header: Header) -> None:
        try:
            body_of(self._read(key, header.body_at + header.body_bytes), header)
        except LogstoreError as error:
            self._problem(ProblemKind.DAMAGED, key, str(error))

    def _replay(self, seq: int, front: Front | LogstoreError | None) -> None:
        self._compare_checkpoint(seq)
        if self._state is None:
            return
        if isinstance(front, Front):
            try:
                self._state.apply_segment(front.index, front.states)
                return
            except LogstoreError as error:
                if not self._problems:
                    self._problem(ProblemKind.DAMAGED, segment_key(self._epoch, seq), str(error))
        self._state = None

    def _compare_checkpoint(self, seq: int) -> None:
        """The checkpoint at `seq`, where the replay has come to, if there is to be one."""
        if seq not in self._checkpoints:
            return
        self._counts.checkpoints += 1
        if self._state is None:
            self._state = self._enter(seq)
            return
        mine = checkpoint_of_replay(self._state)
        try:
            if self._read(checkpoint_key(self._epoch, seq), len(mine) + 1) != mine:
                self._bad_checkpoint(seq, "checkpoint is not what its chain replays to")
        except LogstoreError as error:
            self._bad_checkpoint(seq, str(error))

    def _read(self, key: str, bytes_max: int) -> bytes:
        """A store that throttles is asked again: it says nothing of the object."""
        return self._runner.run(get_retrying(key, 0, bytes_max))

    # The end

    def finish(self) -> CheckedChain:
        row, key = self._row, segment_key(self._epoch, 0)
        end = self._next_seq if self._end is None else self._end
        if end == self._next_seq and self._seal is None:
            self._compare_checkpoint(end)
            self._check_committed(end)
        if self._opening is None:
            self._problem(ProblemKind.NO_OPENING, key, f"chain {self._epoch} has no opening")
        seen = SeenChain(
            epoch=self._epoch,
            broker=None if self._opening is None else self._opening.broker,
            end=end,
            seal=self._seal,
            epoch_ranges={} if self._state is None else extents_of(self._state),
            is_whole=self._state is not None,
        )
        if row is not None:
            self._problems += chain_row_problems(row, seen)
        elif self._count == 1 or self._seal == 1:
            self._counts.bare_openings += 1
        else:
            detail = f"the registry has no row of chain {self._epoch}"
            self._problem(ProblemKind.OLD_REGISTRY, key, detail)
        self._counts.chains += 1
        return CheckedChain(seen, self._problems)

    def _bad_checkpoint(self, seq: int, detail: str) -> None:
        self._problem(ProblemKind.CHECKPOINT, checkpoint_key(self._epoch, seq), detail)

    def _problem(self, what: ProblemKind, where: str, detail: str) -> None:
        if len(self._problems) < PROBLEMS_MAX:
            self._problems.append(Problem(what, where, detail, (self._epoch,)))


def _nothing() -> Steps[None]:
    return
    yield


def _together(steps: Sequence[Steps[Front | None]]) -> Steps[list[Front | LogstoreError | None]]:
    outcomes: list[Front | LogstoreError | None] = yield Gather(steps)
    return outcomes
