"""Read a chain forward: from its last checkpoint, segment by segment, to a seal or the first gap.

A gap is an observation: a 404 at the next seq settles nothing by itself (safety rule 6), so the
caller interprets it. Several seqs are read concurrently, more of them while all are found.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from logstore.errors import AlreadyExists, Corrupt, LogstoreError, NotFound, Unavailable
from logstore.formats.chain_state import ChainState
from logstore.formats.checkpoint import (
    Checkpoint,
    chain_state_in_slices,
    decode_checkpoint,
    front_bytes_of,
    rebase,
)
from logstore.formats.checkpoint_header import HEADER_BYTES_MAX
from logstore.formats.keys import checkpoint_key, segment_key
from logstore.formats.leadership_payload import decode_payload, join_chunks
from logstore.formats.segment import (
    EntryKind,
    Header,
    Index,
    SegmentKind,
    decode_front,
    decode_header,
)
from logstore.protocol.steps import (
    Gather,
    GetRange,
    ListKeys,
    Steps,
    StoreMs,
    retried,
    sliced,
)
from logstore.records.crc32c import crc32c

FRONT_GUESS_BYTES = 64 * 1024
ATTEMPTS_MAX = 30
WIDTH_FIRST, WIDTH_MAX = 2, 32

Seen = Callable[[Index], None]
"""Called with the index of each applied segment."""


class MissingCheckpoint(Corrupt):
    """A checkpoint is not there: below the chain's trim point it was deleted, else it is lost."""


class MissingStateChunk(Corrupt):
    """A state chunk that a leadership-begin or leadership-end entry names is missing: it may be
    trimmed before the entry, once a checkpoint covers both. Otherwise it is lost.
    """


@dataclass(frozen=True, slots=True)
class Front:
    """Header and index of one segment, and the states that its entries carry."""

    index: Index
    states: dict[int, bytes]


@dataclass(frozen=True, slots=True)
class Gap:
    """The walk stopped before `seq`: nothing was found there just now, or it was not asked for, as
    `segments_max` segments had been read."""

    seq: int


@dataclass(frozen=True, slots=True)
class Sealed:
    """A seal was found at `seq`."""

    seq: int
    header: Header


def get_retrying(key: str, start: int, length: int) -> Steps[bytes]:
    """A ranged read, up to `ATTEMPTS_MAX` times while the store is unavailable.

    Raises `NotFound`.
    """
    return retried(GetRange(key, start, length), attempts_max=ATTEMPTS_MAX)


def list_retrying(prefix: str) -> Steps[Sequence[str]]:
    """Keys below `prefix`, in order; up to `ATTEMPTS_MAX` times while the store is unavailable."""
    return retried(ListKeys(prefix), attempts_max=ATTEMPTS_MAX)


def store_time_retrying() -> Steps[int]:
    """The time of the store, ms since 1970; up to `ATTEMPTS_MAX` times while it is unavailable.

    Three requests if this process has not asked a bucket yet
    (`logstore.protocol.deletion.believed_time`).
    """
    # The object that is stamped may be put twice, or deleted by its sweeper.
    repeats = (AlreadyExists, NotFound, Unavailable)
    return retried(StoreMs(), attempts_max=ATTEMPTS_MAX, repeats=repeats)


def read_front(epoch: int, seq: int) -> Steps[Front]:
    """Raises `NotFound` when there is no such segment."""
    key = segment_key(epoch, seq)
    data = yield from get_retrying(key, 0, FRONT_GUESS_BYTES)
    try:
        header = decode_header(data)
        if len(data) < header.body_at:
            data += yield from get_retrying(key, len(data), header.body_at - len(data))
        index = decode_front(data)
    except Corrupt as error:
        raise Corrupt(f"{error} key={key}") from error
    carriers = [e for e in index.entries if e.kind in (EntryKind.TAKE, EntryKind.RELEASE)]
    states_end = max((header.body_at + e.position + e.length for e in carriers), default=0)
    if (
        len(data) < states_end
    ):  # one read for all of them: a thousand leaderships may begin in one segment
        data += yield from get_retrying(key, len(data), states_end - len(data))
    states: dict[int, bytes] = {}
    for entry in carriers:
        at = header.body_at + entry.position
        payload = data[at : at + entry.length]
        if len(payload) != entry.length or crc32c(payload) != entry.crc:
            raise Corrupt(f"state fails its checksum: key={key} position={entry.position}")
        states[entry.position] = yield from _read_state(epoch, payload)
    return Front(index, states)


def _read_state(epoch: int, payload: bytes) -> Steps[bytes]:
    """The state that a leadership-begin or leadership-end entry of chain `epoch` carries."""
    chunks = decode_payload(payload)
    if isinstance(chunks, bytes):
        return chunks
    reads = [get_retrying(segment_key(epoch, p.seq), p.position, p.length) for p in chunks]
    parts: Sequence[bytes | LogstoreError] = yield Gather(reads)
    whole: list[bytes] = []
    for part in parts:
        if isinstance(part, NotFound):
            # Not the gap that an absent segment would be: chunks come before the entry.
            raise MissingStateChunk(f"piece of a state is missing: epoch={epoch}: {part}")
        if isinstance(part, LogstoreError):
            raise part
        whole.append(part)
    return join_chunks(chunks, whole)


class CheckpointStart(NamedTuple):
    """The front of a checkpoint, and the bytes that came with it; a small one came whole."""

    front: Checkpoint
    data: bytes

    @property
    def states(self) -> bytes | None:
        """None: they did not all come."""
        end = self.front.pages_at
        return self.data[self.front.front_bytes : end] if len(self.data) >= end else None


Started = Callable[[CheckpointStart], None]


def read_checkpoint(epoch: int, seq: int) -> Steps[Checkpoint]:
    """The front of a checkpoint that the chain's row names."""
    return (yield from read_checkpoint_start(epoch, seq)).front


def read_checkpoint_start(epoch: int, seq: int) -> Steps[CheckpointStart]:
    """The same, and the bytes that one request brings beside it."""
    key = checkpoint_key(epoch, seq)
    try:
        data = yield from get_retrying(key, 0, FRONT_GUESS_BYTES)
        front_bytes = front_bytes_of(data[:HEADER_BYTES_MAX])
        if len(data) < front_bytes:
            data += yield from get_retrying(key, len(data), front_bytes - len(data))
    except NotFound as error:
        raise MissingCheckpoint(
            f"a checkpoint that the registry names is missing: key={key}"
        ) from error
    # A copy, since a front keeps the bytes that it was decoded from.
    checkpoint = decode_checkpoint(data[:front_bytes])
    if checkpoint.epoch != epoch or checkpoint.seq != seq:
        raise Corrupt(f"checkpoint does not match its key: key={key}")
    return CheckpointStart(checkpoint, data)


def read_chain_at(
    cluster_id: bytes, epoch: int, checkpoint_seq: int, started: Started = lambda start: None
) -> Steps[ChainState]:
    """The chain as it stood at `checkpoint_seq`; 0 is its beginning.

    `started` is called with the start of the checkpoint, for those who want its index too.
    """
    if checkpoint_seq == 0:
        return ChainState(cluster_id, epoch)
    start = yield from read_checkpoint_start(epoch, checkpoint_seq)
    checkpoint, states = start.front, start.states
    if checkpoint.cluster_id != cluster_id:
        raise Corrupt(f"checkpoint of another cluster: epoch={epoch} seq={checkpoint_seq}")
    started(start)
    if states is None:
        states = yield from get_retrying(
            checkpoint_key(epoch, checkpoint_seq),
            checkpoint.front_bytes,
            checkpoint.states_bytes,
        )
    return (yield from sliced(chain_state_in_slices(checkpoint, states)))


def reach_chain(
    cluster_id: bytes, epoch: int, checkpoint_seq: int, known: ChainState | None
) -> Steps[ChainState]:
    """The chain at a checkpoint, or as far as `known` has it, where that is no less: that one.

    Its rows and spans may go back further than the checkpoint.
    """
    if known is None or known.next_seq < checkpoint_seq:
        return (yield from read_chain_at(cluster_id, epoch, checkpoint_seq))
    return known


def enter_chain(
    cluster_id: bytes, epoch: int, checkpoint_seq: int, known: ChainState | None
) -> Steps[ChainState]:
    """The same, going on from that checkpoint, so that the next one can be made of it."""
    chain = yield from reach_chain(cluster_id, epoch, checkpoint_seq, known)
    if chain.checkpoint < checkpoint_seq:
        rebase(chain, (yield from read_checkpoint(epoch, checkpoint_seq)))
    return chain


def read_on(
    chain: ChainState,
    *,
    width: int = WIDTH_FIRST,
    segments_max: int | None = None,
    seen: Seen | None = None,
) -> Steps[Gap | Sealed]:
    """Apply segments up to a seal, a gap, or `segments_max` segments (then a `Gap` there).

    `width` seqs are asked for at first, then twice as many each time. Give 1 where few segments are
    expected: each 404 is paid for.
    """
    left = segments_max
    while left is None or left > 0:
        count = width if left is None else min(width, left)
        seqs = range(chain.next_seq, chain.next_seq + count)
        fronts: Sequence[Front | LogstoreError] = yield Gather(
            [read_front(chain.epoch, seq) for seq in seqs]
        )
        applied = 0
        for front in fronts:
            if isinstance(front, NotFound):
                return Gap(chain.next_seq)
            if isinstance(front, MissingStateChunk) and applied:
                break  # asked for beside the segments before it, maybe before they were stored
            if isinstance(front, LogstoreError):
                raise front
            header = front.index.header
            if header.kind is SegmentKind.SEAL:
                _check_seal(header, chain)
                return Sealed(chain.next_seq, header)
            chain.apply_segment(front.index, front.states)
            if seen is not None:
                seen(front.index)
            applied += 1
        width = min(width * 2, WIDTH_MAX)
        left = None if left is None else left - applied
    return Gap(chain.next_seq)


def _check_seal(header: Header, chain: ChainState) -> None:
    if (header.cluster_id, header.epoch, header.seq) != (
        chain.cluster_id,
        chain.epoch,
        chain.next_seq,
    ):
        raise Corrupt(f"seal does not match its key: epoch={chain.epoch} seq={chain.next_seq}")
