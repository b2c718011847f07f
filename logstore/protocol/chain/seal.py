"""Fence a chain and seal it: safety rule 4, steps a to c. Anyone may, at any time, and repeat it.

    a  chain row → fenced
    b  read the trim point; seal at the first free seq; read the trim point again:
       a seal below it is void, begin again
    c  the chain's state at the seal

The owner's next put meets the seal and stops. Every seq below the seal was read before it was
placed, and segments never change, so the state is that of everything the chain will ever hold.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from logstore.errors import ConditionFailed, Corrupt, LogstoreError, Refused
from logstore.formats.chain_row import CHAIN, ChainRow, ChainStatus, chain_sk
from logstore.formats.chain_state import ChainState
from logstore.formats.keys import checkpoints_prefix, seq_of
from logstore.formats.segment import SegmentKind
from logstore.formats.segment_builder import bare_header, freeze_bare
from logstore.ports.registry import Comparison, Row
from logstore.protocol.chain.opening import OLD_REGISTRY
from logstore.protocol.chain.put import KeyTaken, put_once
from logstore.protocol.chain.walk import (
    Gap,
    MissingCheckpoint,
    MissingStateChunk,
    Sealed,
    enter_chain,
    list_retrying,
    read_chain_at,
    read_on,
)
from logstore.protocol.steps import DrawNonce, Gather, GetRow, NowMs, Steps, UpdateRow

ROUNDS_MAX = 1000


@dataclass(frozen=True, slots=True)
class SealedChain:
    """A chain that will never grow: its state, whose `next_seq` is the seal's."""

    state: ChainState

    @property
    def seal(self) -> int:
        return self.state.next_seq


def read_chain_row(epoch: int) -> Steps[ChainRow]:
    return _row_of(epoch, (yield GetRow(CHAIN, chain_sk(epoch))))


def _row_of(epoch: int, row: Row | None) -> ChainRow:
    if row is None:
        raise Refused(f"the registry has no row of chain {epoch}; run: logstore fsck")
    return ChainRow.of(row)


def seal_chain(
    cluster_id: bytes, epoch: int, sealer: int, known: ChainState | None = None
) -> Steps[SealedChain]:
    """Fence, read and seal chain `epoch`. `known`: replayed prefix of the chain, if a follower has
    one; replay continues from it (and mutates it).
    """
    ended = yield from _fence(epoch)
    if ended is not None and ended.status is ChainStatus.SEALED:
        return SealedChain((yield from read_chain_at(cluster_id, epoch, ended.seal)))
    for _ in range(ROUNDS_MAX):
        end = yield from _find_end(cluster_id, epoch, known)
        chain, known = end.chain, None
        if not end.is_sealed:
            yield from _put_seal(chain, sealer)
        row = yield from read_chain_row(epoch)
        if chain.next_seq >= row.trim:
            return SealedChain(chain)
    raise Corrupt(
        f"chain {epoch} cannot be sealed: its trim point rose above its end in {ROUNDS_MAX} "
        "attempts, although a fenced chain is not trimmed; run: logstore fsck"
    )


def read_to_end(cluster_id: bytes, epoch: int) -> Steps[ChainState]:
    """The chain up to its seal or its first free seq.

    Raises `Refused` if the chain was trimmed beyond its row's trim point: the registry is older.
    """
    return (yield from _find_end(cluster_id, epoch, None)).chain


@dataclass(frozen=True, slots=True)
class _ChainEnd:
    chain: ChainState
    is_sealed: bool
    """Else its next seq was free just now."""


def _find_end(cluster_id: bytes, epoch: int, known: ChainState | None) -> Steps[_ChainEnd]:
    """Raises as `read_to_end`; `known` as for `seal_chain`."""
    for _ in range(ROUNDS_MAX):
        row = yield from read_chain_row(epoch)
        try:
            chain = yield from enter_chain(cluster_id, epoch, row.checkpoint, known)
            stop = yield from _read_whole(chain)
        except (MissingCheckpoint, MissingStateChunk) as missing:
            if (yield from read_chain_row(epoch)).checkpoint > row.checkpoint:
                known = None
                continue  # trimmed while it was read
            keys = yield from list_retrying(checkpoints_prefix(epoch))
            if not any(seq_of(key) > row.checkpoint for key in keys):
                raise  # lost
            raise Refused(
                f"chain {epoch} was trimmed to a checkpoint that its row does not name: {missing}; "
                f"{OLD_REGISTRY}"
            ) from missing
        known = None
        if stop is not None:
            return _ChainEnd(chain, isinstance(stop, Sealed))
        if (yield from read_chain_row(epoch)).checkpoint <= row.checkpoint:
            raise Refused(
                f"chain {epoch} has a checkpoint above all segments that can be found, which its "
                f"row does not name: seq={chain.next_seq}; {OLD_REGISTRY}"
            )
    raise Corrupt(
        f"chain {epoch} cannot be read to its end: it was trimmed during {ROUNDS_MAX} attempts; "
        "try again, and if that fails too, run: logstore fsck"
    )


def mark_sealed(epoch: int, seal: int) -> Steps[None]:
    """Step e's last half: the checkpoint at the seal is durable."""
    sets: Row = {"status": ChainStatus.SEALED.value, "seal": seal, "checkpoint": seal}
    try:
        yield UpdateRow(CHAIN, chain_sk(epoch), sets, [Comparison("seal", "<", seal)])
    except ConditionFailed as failed:
        if failed.current is None or ChainRow.of(failed.current).seal != seal:
            actual = None if failed.current is None else failed.current.get("seal")
            raise Corrupt(
                f"chain is sealed elsewhere: epoch={epoch} seal={seal} seal in its row={actual!r}; "
                "run: logstore fsck"
            ) from failed


def _fence(epoch: int) -> Steps[ChainRow | None]:
    """None: it was open until now. Else its row: fenced or sealed already is what we want."""
    sets: Row = {"status": ChainStatus.FENCED.value}
    is_open = Comparison("status", "=", ChainStatus.OPEN.value)
    try:
        yield UpdateRow(CHAIN, chain_sk(epoch), sets, [is_open])
    except ConditionFailed as failed:
        return _row_of(epoch, failed.current)
    return None


def seal_at_end(chain: ChainState, sealer: int) -> Steps[None]:
    """Read on to the seal; where there is none, put it at the first free seq."""
    if not isinstance((yield from read_on(chain)), Sealed):
        yield from _put_seal(chain, sealer)


def _put_seal(chain: ChainState, sealer: int) -> Steps[None]:
    """Put the seal of a chain that was read to its first free seq, or read on to another's."""
    if chain.next_seq == 0:
        raise Corrupt(f"a chain with a row has no opening: epoch={chain.epoch}")
    while True:
        nonce: bytes = yield DrawNonce()
        now_ms: int = yield NowMs()
        header = bare_header(
            SegmentKind.SEAL,
            cluster_id=chain.cluster_id,
            epoch=chain.epoch,
            seq=chain.next_seq,
            broker=sealer,
            nonce=nonce,
            previous_nonce=chain.last_nonce,
            created_ms=max(now_ms, chain.created_ms),
        )
        put = yield from put_once(chain.epoch, freeze_bare(header))
        if not isinstance(put, KeyTaken):
            return
        # A segment of the owner, or another sealer's seal, came first: read it, then go on.
        if isinstance((yield from read_on(chain)), Sealed):
            return


def _read_whole(chain: ChainState) -> Steps[Gap | Sealed | None]:
    """Read on to the end. None: the chain continues above the last segment that is found here.

    A checkpoint covers committed segments only, so all of them existed. Missing ones were trimmed,
    and the row that gave the entry point is older than that trim. Checkpoints are listed while the
    segments are read: clients wait for the next leader. One that comes later is by an owner that
    lives, of a chain that is fenced and not trimmed.
    """
    is_above = False
    while True:
        began = chain.next_seq
        stop: Gap | Sealed | LogstoreError
        keys: Sequence[str] | LogstoreError
        stop, keys = yield Gather([read_on(chain), list_retrying(checkpoints_prefix(chain.epoch))])
        if isinstance(stop, LogstoreError):
            raise stop
        if isinstance(stop, Sealed):
            return stop
        if isinstance(keys, LogstoreError):
            raise keys
        if not keys or seq_of(max(keys)) <= chain.next_seq:
            return stop
        if is_above and chain.next_seq == began:
            return None
        is_above = True
