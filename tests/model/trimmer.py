"""History moves to the table; checkpoints, trim points, deletion, pruned rows: rules 6 and 7."""

from collections.abc import Iterator

from tests.model.chain_view import chain_as_read, committed_end
from tests.model.config import Bug, Config
from tests.model.invariants import log_of
from tests.model.state import (
    ABSENT,
    FREE,
    NORMAL,
    SEAL,
    SEALED,
    SEGMENT,
    Batch,
    Move,
    State,
    observed,
    replaced,
    with_chain,
    with_chain_row,
)


def moves(state: State, config: Config) -> Iterator[Move]:
    if not config.trims or state.phase != NORMAL:
        return
    yield from _moves_history(state, config)
    for number in range(config.chains):
        if state.registry.chains[number].status != ABSENT:
            yield from _checkpoints(state, number, config)
            yield from _trims(state, number, config)
            yield from _deletes(state, number, config)
            if config.sweeps:
                yield from _sweeps(state, number, config)
    yield from _prunes(state, config)


def _moves_history(state: State, config: Config) -> Iterator[Move]:
    """What is committed goes into the table; a reader must find the same there."""
    log = log_of(state, config)
    end = 0
    while end < len(log) and log[end]:
        end += 1
    if end > state.table_end:
        after = state._replace(table_end=end)
        for offset in range(end):
            after = observed(after, offset, log[offset])
        yield "table end rises", (end,), after


def _checkpoints(state: State, number: int, config: Config) -> Iterator[Move]:
    """Of what is committed, by its owner or by a taker: object first, then the row."""
    chain, row = state.chains[number], state.registry.chains[number]
    end = committed_end(chain, row)
    if config.bug is Bug.CHECKPOINT_BEFORE_COMMIT:
        end = max(end, len(chain.segments))
    if end > chain.checkpoint and end > 1 and not chain.is_swept:
        after = with_chain(state, number, chain._replace(checkpoint=end))
        if not config.restores:  # then nothing ever reads the one without the other
            after = with_chain_row(after, number, row._replace(checkpoint=end))
        yield "checkpoint", (number, end), after
    if row.checkpoint < chain.checkpoint and row.status < SEALED:
        after = with_chain_row(state, number, row._replace(checkpoint=chain.checkpoint))
        yield "chain row names the checkpoint", (number, chain.checkpoint), after


def _trims(state: State, number: int, config: Config) -> Iterator[Move]:
    """As far as everything below is in the table, never above the last durable checkpoint."""
    row, chain = state.registry.chains[number], state.chains[number]
    most = row.checkpoint
    if config.bug is Bug.TRIMMED_ABOVE_CHECKPOINT:
        most = committed_end(chain, row)
    trim = max(row.trim, 1)
    while trim < most and (
        config.bug is Bug.TRIMMED_ABOVE_TABLE
        or all(
            entry.offset < state.table_end
            for entry in chain.segments[trim]
            if isinstance(entry, Batch)
        )
    ):
        trim += 1
    if trim > max(row.trim, 1):
        after = with_chain_row(state, number, row._replace(trim=trim))
        yield "trim point rises", (number, trim), after


def _deletes(state: State, number: int, config: Config) -> Iterator[Move]:
    chain, row = state.chains[number], state.registry.chains[number]
    for seq in range(1, row.trim):
        if chain.slots[seq] == SEGMENT:
            gone = chain._replace(slots=replaced(chain.slots, seq, FREE))
            yield "segment is deleted", (number, seq), with_chain(state, number, gone)
    if config.bug is Bug.SEAL_DELETED:
        for seq, slot in enumerate(chain.slots):
            if slot == SEAL:
                gone = chain._replace(slots=replaced(chain.slots, seq, FREE))
                yield "seal is deleted", (number, seq), with_chain(state, number, gone)


def _sweeps(state: State, number: int, config: Config) -> Iterator[Move]:
    """Release entries and the last checkpoint go, once a later epoch range's take is committed."""
    chain, row = state.chains[number], state.registry.chains[number]
    seal = row.trim if row.trim < config.slots and chain.slots[row.trim] == SEAL else 0
    if chain.is_swept or not seal or state.registry.row.chain == number:
        return
    partition = state.registry.row
    last = max(
        (partition.first + at for at, ref in enumerate(partition.epoch_ranges) if ref[0] == number),
        default=0,
    )
    is_followed = config.bug is Bug.RELEASE_DROPPED or any(
        epoch in chain_as_read(state, partition.at(epoch)[0], config)
        for epoch in range(max(last + 1, partition.first), partition.leader_epoch + 1)
    )
    if last == 0 or is_followed:
        after = with_chain(state, number, chain._replace(is_swept=True))
        yield "last checkpoint is deleted", (number,), after


def _prunes(state: State, config: Config) -> Iterator[Move]:
    """The row keeps the newest epoch range with a committed leadership begin, and all after it."""
    row = state.registry.row
    if len(row.epoch_ranges) < 2 or row.epoch_ranges[1][1] > state.table_end:
        return
    is_followed = config.bug is Bug.ROW_FORGETS_TOO_MUCH or any(
        epoch in chain_as_read(state, row.at(epoch)[0], config)
        for epoch in range(row.first + 1, row.leader_epoch + 1)
    )
    if is_followed:
        pruned = row._replace(first=row.first + 1, epoch_ranges=row.epoch_ranges[1:])
        after = state._replace(registry=state.registry._replace(row=pruned))
        yield "row drops its oldest stretch", (row.first,), after
