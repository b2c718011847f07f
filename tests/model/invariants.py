"""What must hold in every state: the log, put together from rows, chains and table."""

from tests.model.chain_view import CorruptChainError, Found, chain_as_read
from tests.model.config import Config
from tests.model.state import RESTORED, SEGMENT, STARTED, STOPPED, State


def wrong_with(state: State, config: Config) -> str:
    """What is wrong with this state; empty when nothing is.

    While the registry is set back it hides part of the log; that is judged once a broker has
    answered for it. A cluster that refuses to go on has lost nothing.
    """
    if state.wrong or state.phase in (RESTORED, STARTED, STOPPED):
        return state.wrong
    try:
        log = log_of(state, config)
        disagrees = epoch_range_without_its_content(state, config)
    except CorruptChainError as error:
        return f"replay refuses a chain: {error}"
    except TwoBatchesError:
        return "two batches at one offset"
    held = [number for number in log if number]
    if len(set(held)) < len(held):
        return "a batch twice"
    for offset, number in enumerate(state.seen):
        if number and log[offset] != number:
            return "what was acknowledged or read is lost"
    return disagrees


class TwoBatchesError(Exception):
    """The log has two batches at one offset."""


def log_of(state: State, config: Config) -> list[int]:
    """Batch number at each offset; 0 where there is none."""
    log = list(state.seen)
    for offset in range(state.table_end, len(log)):
        log[offset] = 0
    row = state.registry.row
    for at, (chain, start) in enumerate(row.epoch_ranges):
        end = row.epoch_ranges[at + 1][1] if at + 1 < len(row.epoch_ranges) else len(log)
        found = chain_as_read(state, chain, config).get(row.first + at)
        if found is not None:
            _add(log, found, start, end, state, chain)
    return log


def _add(log: list[int], found: Found, start: int, end: int, state: State, chain: int) -> None:
    slots = state.chains[chain].slots
    for offset, number, seq in found.batches:
        is_readable = slots[seq] == SEGMENT or offset < state.table_end
        if start <= offset < end and is_readable:
            if log[offset] not in (0, number):
                raise TwoBatchesError
            log[offset] = number


def epoch_range_without_its_content(state: State, config: Config) -> str:
    """Per ended epoch range, the row's next start must be where its content ends."""
    row = state.registry.row
    for at, (chain, start) in enumerate(row.epoch_ranges[:-1]):
        if state.chains[chain].is_swept:
            continue
        found = chain_as_read(state, chain, config).get(row.first + at)
        end = found.end if found is not None else start
        if row.epoch_ranges[at + 1][1] != end:
            return "the row ends a stretch elsewhere than its chain does"
    return ""
