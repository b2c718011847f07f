"""Takeover by anybody, any number at once, each step alone: rule 4, and the check of a cold start.

As logstore.protocol.chain.seal and logstore.protocol.leading.takeover do it. A taker keeps nothing
between its steps but what may be old: where it wanted to put a seal (`Chain.seals`) and a row
change that it decided on (`State.changes`). Both stay on their way for as long as they like, and
every step may be done by another broker, or twice; so a taker that dies between two steps, and two
takers at once, are covered however many they are.
"""

from collections.abc import Iterator

from tests.model.chain_view import chain_as_read, committed_end, epoch_ranges_of, recovered, seal_of
from tests.model.config import Bug, Config
from tests.model.registry import asked, successors
from tests.model.state import (
    DEAD,
    FENCED,
    FREE,
    OPEN,
    RESTORED,
    SEAL,
    SEALED,
    STARTED,
    STOPPED,
    UP,
    Broker,
    Chain,
    ChainRow,
    Move,
    RowChange,
    State,
    replaced,
    with_broker,
    with_chain,
    with_chain_row,
)


def moves(state: State, config: Config) -> Iterator[Move]:
    for number, chain in enumerate(state.chains):
        yield from _seal_lands(state, number, chain, config)
    if state.phase == RESTORED:
        return  # no broker is there yet
    for number in _chains_to_take(state, config):
        newest = _newest_checkpoint(state, number, config)
        if newest > state.registry.chains[number].checkpoint:
            row = state.registry.chains[number]._replace(checkpoint=newest)
            after = with_chain_row(state, number, row)
            yield "taker: chain row names the newest checkpoint", (number, newest), after
            continue
        yield from _fences(state, number, config)
        yield from _puts_seal(state, number, config)
        yield from _changes_row(state, number, config)
        yield from _marks_sealed(state, number, config)


def _chains_to_take(state: State, config: Config) -> list[int]:
    """The chain that the row names; after a restore all that are not sealed, older ones first."""
    if not config.restores:
        return [state.registry.row.chain]
    successor = max((n for n, broker in enumerate(state.brokers) if broker.life == UP), default=0)
    rows = state.registry.chains
    mine = [n for n in range(successor) if rows[n].status in (OPEN, FENCED)]
    if state.registry.row.chain < successor:
        mine.append(state.registry.row.chain)
    return sorted(set(mine))


def _newest_checkpoint(state: State, number: int, config: Config) -> int:
    """At a cold start the newest checkpoint is listed: the row may be too old to name it."""
    known = state.registry.chains[number].checkpoint
    if state.phase != STARTED or config.bug is Bug.COLD_START_TRUSTS_ROW:
        return known
    return max(known, state.chains[number].checkpoint)


def _fences(state: State, number: int, config: Config) -> Iterator[Move]:
    row = state.registry.chains[number]
    if row.status == OPEN and keeps_status(config):
        after = with_chain_row(state, number, row._replace(status=FENCED))
        yield "taker: chain row is fenced", (number,), after


def keeps_status(config: Config) -> bool:
    """Whether the status of chain rows matters to anything in this search."""
    return config.restores or config.sweeps


def _puts_seal(state: State, number: int, config: Config) -> Iterator[Move]:
    """Step b: at the first free seq from the trim point on, as the taker read that."""
    chain, row = state.chains[number], state.registry.chains[number]
    if row.status == OPEN and keeps_status(config):
        return
    first_free = committed_end(chain, row)
    is_free = first_free < config.slots and chain.slots[first_free] == FREE
    if is_free and not chain.seals >> first_free & 1:
        sent = chain._replace(seals=chain.seals | 1 << first_free)
        yield "taker: seal is sent", (number, first_free), with_chain(state, number, sent)
    for seq in range(1, row.trim):  # its trim point is old; when this was sent makes no difference
        if chain.slots[seq] == FREE:
            void = chain._replace(slots=replaced(chain.slots, seq, SEAL))
            yield "void seal is stored", (number, seq), with_chain(state, number, void)


def _seal_lands(state: State, number: int, chain: Chain, config: Config) -> Iterator[Move]:
    for seq in range(1, config.slots):
        if not chain.seals >> seq & 1 or chain.slots[seq] != FREE:
            continue
        sealed = chain._replace(slots=replaced(chain.slots, seq, SEAL))
        if config.bug is not Bug.SEAL_DELETED:  # seals stay: this seq is settled for ever
            others = ~(1 << seq)
            sealed = sealed._replace(seals=chain.seals & others, puts=chain.puts & others)
        yield (
            "seal is stored",
            (number, seq),
            settled(with_chain(state, number, sealed), number, config),
        )


def settled(state: State, number: int, config: Config) -> State:
    """Once a chain is sealed and all below the seal is stored, its broker can do nothing more.

    What lies beyond the seal is not read (rule 1): those puts need not land. Whether the
    broker finds the seal or not makes no difference either.
    """
    chain = state.chains[number]
    if config.keeps_what_is_beyond or SEAL not in chain.slots:
        return state
    seal = committed_end(chain, state.registry.chains[number])
    if seal >= config.slots or chain.slots[seal] != SEAL:
        return state
    state = with_chain(state, number, chain._replace(puts=chain.puts & ((1 << seal) - 1)))
    if state.brokers[number].life == UP:
        state = with_broker(state, number, Broker(DEAD))
    return state


def _changes_row(state: State, number: int, config: Config) -> Iterator[Move]:
    """Steps c and d: read the chain to its seal, then the row changes under its condition."""
    row, chain = state.registry.row, state.chains[number]
    if row.chain != number or row.leader_epoch >= config.leader_epochs:
        return
    if state.registry.chains[number].status == OPEN and keeps_status(config):
        return
    seal = seal_of(chain, state.registry.chains[number], config)
    if not seal and config.bug is not Bug.REPLAY_BEFORE_SEAL:
        return
    if _is_older_at_start(state, number, config):
        yield "taker: the registry is older than the log", (), state._replace(phase=STOPPED)
        return
    end = seal or committed_end(chain, state.registry.chains[number])
    found = epoch_ranges_of(chain, state.registry.chains[number], end, config).get(row.leader_epoch)
    start = found.end if found else row.start
    for successor in successors(state, config):
        if successor == number:
            continue
        after = asked(state, RowChange(row.leader_epoch, number, successor, start), config)
        if after is not None:
            if config.bug is Bug.LEFT_WITH_TWO_LEADERS:
                after = _remembers(after, successor, config)
            yield "taker: row change is sent", (number, successor, start), after


def _remembers(state: State, successor: int, config: Config) -> State:
    if state.brokers[successor].asked:
        return state  # another broker asks for it
    row = state.registry.row
    found = chain_as_read(state, row.chain, config).get(row.leader_epoch)
    what = found.state if found else recovered(state, row, config)
    return with_broker(state, successor, state.brokers[successor]._replace(asked=what))


def _is_older_at_start(state: State, taken: int, config: Config) -> bool:
    """A chain that its row does not call sealed holds a committed leadership begin above the row.

    A broker that changes a row asks, however many have started: as
    logstore.protocol.leading.old_registry does it.
    """
    if state.phase != STARTED or config.bug is Bug.COPY_NOT_CHECKED:
        return False
    row = state.registry.row
    rows = enumerate(state.registry.chains)
    chains = [number for number, row_of in rows if row_of.status in (OPEN, FENCED)]
    if config.bug is Bug.COPY_CHECKED_CHAIN_BY_CHAIN:
        chains = [taken]
    for number in chains:
        chain_row = state.registry.chains[number]
        newest = _newest_checkpoint(state, number, config)
        chain, chain_row = state.chains[number], chain_row._replace(checkpoint=newest)
        end = committed_end(chain, chain_row)
        for epoch in epoch_ranges_of(chain, chain_row, end, config):
            if epoch > row.leader_epoch or (epoch == row.leader_epoch and number != row.chain):
                return True
    return False


def _marks_sealed(state: State, number: int, config: Config) -> Iterator[Move]:
    """Step e: the checkpoint at the seal, then the chain's row."""
    row, chain = state.registry.chains[number], state.chains[number]
    if row.status != FENCED or state.registry.row.chain == number:
        return
    seal = seal_of(chain, row, config)
    if not seal:
        return
    if config.bug is not Bug.SEALED_UNCHECKED and _is_older_at_start(state, number, config):
        yield "taker: the registry is older than the log", (), state._replace(phase=STOPPED)
        return
    sealed = ChainRow(SEALED, row.trim, seal)
    after = with_chain_row(state, number, sealed)
    after = with_chain(after, number, chain._replace(checkpoint=max(chain.checkpoint, seal)))
    yield "taker: chain row is sealed", (number, seal), after
