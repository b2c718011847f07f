"""What a chain says: how far it is committed, which epoch ranges it holds. As replay and walk
do.
"""

from functools import cache
from typing import NamedTuple

from tests.model.config import Bug, Config
from tests.model.state import (
    NOWHERE,
    SEAL,
    SEGMENT,
    Batch,
    Chain,
    ChainRow,
    Offsets,
    PartitionRow,
    Release,
    Segment,
    State,
    Take,
)


class CorruptChainError(Exception):
    """Replay refuses the chain: entries outside an epoch range, offsets that are not dense."""


class Found(NamedTuple):
    """An epoch range with a committed leadership-begin entry; `batches`: (offset, number, seq)."""

    start: int
    end: int
    state: Offsets
    is_released: bool
    batches: tuple[tuple[int, int, int], ...]


def committed_end(chain: Chain, row: ChainRow) -> int:
    """First seq from the last checkpoint (or trim point) on that is not a stored segment."""
    seq = max(row.checkpoint, row.trim, 1)
    slots = chain.slots
    while seq < len(slots) and slots[seq] == SEGMENT:
        seq += 1
    return seq


def seal_of(chain: Chain, row: ChainRow, config: Config) -> int:
    """Seq of the seal that ends the chain, as a taker sees it; 0 while there is none."""
    if config.bug is Bug.VOID_SEAL_BELIEVED and SEAL in chain.slots:
        return chain.slots.index(SEAL)
    if config.bug is Bug.ENTERED_AT_THE_FIRST_SEQ:
        row = ChainRow(row.status)
    seq = committed_end(chain, row)
    return seq if seq < len(chain.slots) and chain.slots[seq] == SEAL else 0


def epoch_ranges_of(chain: Chain, row: ChainRow, end: int, config: Config) -> dict[int, Found]:
    """Epoch ranges by leader epoch, from what the checkpoint sums up and the segments below
    `end`.
    """
    if chain.is_swept:
        return {}
    first_read = max(row.checkpoint, 1)
    if config.bug is Bug.TRIMMED_ABOVE_CHECKPOINT:
        first_read = max(first_read, row.trim)
    lenient = config.bug is Bug.RELEASE_TAKEN_BACK
    return _replay(chain.segments[:end], row.checkpoint, first_read, config.batches, lenient)


@cache
def _replay(
    segments: tuple[Segment, ...], checkpoint: int, first_read: int, batches: int, lenient: bool
) -> dict[int, Found]:
    found: dict[int, Found] = {}
    for seq, segment in enumerate(segments):
        if not seq or checkpoint <= seq < first_read:
            continue
        for entry in segment:
            _apply(found, entry, seq, batches, lenient)
    return found


def _apply(
    found: dict[int, Found], entry: Take | Batch | Release, seq: int, batches: int, lenient: bool
) -> None:
    epoch = entry.leader_epoch
    if isinstance(entry, Take):
        if epoch in found and not lenient:
            raise CorruptChainError("epoch range begins twice")
        found[epoch] = Found(entry.start, entry.start, entry.state, False, ())
        return
    epoch_range = found.get(epoch)
    if epoch_range is None or epoch_range.is_released:
        if not lenient:
            raise CorruptChainError("entry outside any epoch range")
        at = entry.offset if isinstance(entry, Batch) else entry.end
        epoch_range = epoch_range or Found(at, at, (NOWHERE,) * batches, False, ())
    at = entry.offset if isinstance(entry, Batch) else entry.end
    if at != epoch_range.end and not lenient:
        raise CorruptChainError("offsets are not dense")
    if isinstance(entry, Release):
        found[epoch] = epoch_range._replace(end=entry.end, is_released=True)
        return
    state = list(epoch_range.state)
    state[entry.number - 1] = entry.offset
    found[epoch] = epoch_range._replace(
        end=entry.offset + 1,
        state=tuple(state),
        batches=(*epoch_range.batches, (entry.offset, entry.number, seq)),
    )


def chain_as_read(state: State, number: int, config: Config) -> dict[int, Found]:
    """The epoch ranges of a chain as far as it is committed now."""
    chain, row = state.chains[number], state.registry.chains[number]
    return epoch_ranges_of(chain, row, committed_end(chain, row), config)


def recovered(state: State, row: PartitionRow, config: Config) -> Offsets:
    """State of the newest epoch range before the row's last with a committed leadership begin."""
    for epoch in range(row.leader_epoch - 1, row.first - 1, -1):
        epoch_range = chain_as_read(state, row.at(epoch)[0], config).get(epoch)
        if epoch_range is not None:
            return epoch_range.state
        if config.bug is Bug.EMPTY_STRETCH_FORGETS:
            break
    return (NOWHERE,) * config.batches
