"""A broker draws its epoch (rule 3); the registry is set back to a copy (rules 3 and 4d).

As logstore.protocol.chain.opening does it. An opening is created before the row is raised, so
epochs have no gaps; one whose maker died in between is buried by the next start.
"""

from collections.abc import Iterator

from tests.model.config import Bug, Config
from tests.model.state import (
    ABSENT,
    DEAD,
    FREE,
    HALF,
    NORMAL,
    NOT_BEGUN,
    OPEN,
    OPENED,
    OPENING,
    RESTORED,
    SEAL,
    STARTED,
    STOPPED,
    UP,
    Broker,
    ChainRow,
    Move,
    State,
    replaced,
    with_broker,
    with_chain,
    with_chain_row,
)


def moves(state: State, config: Config) -> Iterator[Move]:
    if config.starts:
        number = state.registry.next_epoch
        if number < config.chains:
            yield from _creates_opening(state, number)
            yield from _buries(state, number, config)
        yield from _goes_on(state, config)
    if config.restores:
        yield from _sets_back(state)


def _creates_opening(state: State, number: int) -> Iterator[Move]:
    chain = state.chains[number]
    if chain.slots[0] == FREE and state.brokers[number].life == NOT_BEGUN:
        opened = chain._replace(slots=replaced(chain.slots, 0, OPENING))
        after = with_broker(with_chain(state, number, opened), number, Broker(OPENED))
        yield "start: opening is created", (number,), after


def _goes_on(state: State, config: Config) -> Iterator[Move]:
    """The maker of an opening puts its chain's row, then raises the row of the next epoch."""
    for number, broker in enumerate(state.brokers):
        if broker.life == OPENED:
            raises = config.bug is Bug.RAISED_BEFORE_CHAIN_ROW
        elif broker.life == HALF:
            raises = config.bug is not Bug.RAISED_BEFORE_CHAIN_ROW
        else:
            continue
        yield from _raises(state, number) if raises else _puts_chain_row(state, number)


def _raises(state: State, number: int) -> Iterator[Move]:
    registry = state.registry
    if registry.next_epoch > number:
        yield "start: finds itself buried", (number,), with_broker(state, number, Broker(DEAD))
    elif registry.next_epoch == number:
        raised = state._replace(registry=registry._replace(next_epoch=number + 1))
        yield "start: row is raised", (number,), _further(raised, number)


def _puts_chain_row(state: State, number: int) -> Iterator[Move]:
    if state.registry.chains[number].status == ABSENT:
        put = with_chain_row(state, number, ChainRow(OPEN))
        yield "start: chain row is put", (number,), _further(put, number)


def _further(state: State, number: int) -> State:
    """One of the two rows of a start is written."""
    if state.brokers[number].life == OPENED:
        return with_broker(state, number, Broker(HALF))
    if state.phase == RESTORED:
        state = state._replace(phase=STARTED)
    return with_broker(state, number, Broker(UP))


def _buries(state: State, number: int, config: Config) -> Iterator[Move]:
    """Another start finds the opening of the next epoch, and the row has not moved for a lease."""
    chain = state.chains[number]
    if chain.slots[0] != OPENING:
        return
    was_summed_up = chain.checkpoint and config.bug is not Bug.COLD_START_TRUSTS_ROW
    has_segments = chain.slots[1] not in (FREE, SEAL) or was_summed_up
    if has_segments and config.bug is not Bug.OPENING_NOT_CHECKED:
        stopped = state._replace(phase=STOPPED)
        yield "start: finds segments that the registry does not know", (number,), stopped
    elif chain.slots[1] == FREE:
        buried = chain._replace(slots=replaced(chain.slots, 1, SEAL), puts=chain.puts & ~2)
        yield "start: seals a forsaken opening", (number,), with_chain(state, number, buried)
    else:
        after = state._replace(registry=state.registry._replace(next_epoch=number + 1))
        yield "start: raises the row past a forsaken opening", (number,), after


def _sets_back(state: State) -> Iterator[Move]:
    if state.phase != NORMAL:
        return
    if state.copy is None:
        yield "registry is copied", (), state._replace(copy=state.registry)
    elif state.copy != state.registry:
        dead = tuple(Broker(DEAD) if b.life != NOT_BEGUN else b for b in state.brokers)
        yield (
            "all stop, registry is set back",
            (),
            state._replace(
                registry=state.copy, brokers=dead, changes=(), copy=None, phase=RESTORED
            ),
        )
