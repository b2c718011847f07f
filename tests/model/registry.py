"""Changes of the partition's row: conditional updates that may be late. Rules 4d and 5."""

from collections.abc import Iterable, Iterator

from tests.model.chain_view import seal_of
from tests.model.config import Bug, Config
from tests.model.state import ABSENT, Move, PartitionRow, RowChange, State


def moves(state: State, config: Config) -> Iterator[Move]:
    for change in state.changes:
        if not applies(state, change, config):
            continue
        row = state.registry.row
        changed = PartitionRow(row.first, (*row.epoch_ranges, (change.new, change.start)))
        registry = state.registry._replace(row=changed)
        rest = tuple(other for other in state.changes if other != change)
        after = _without_hopeless(state._replace(registry=registry, changes=rest), config)
        yield "row changes", (changed.leader_epoch, change.new, change.start), after


def applies(state: State, change: RowChange, config: Config) -> bool:
    row = state.registry.row
    if row.leader_epoch >= config.leader_epochs:
        return False
    if config.bug is Bug.NO_CONDITION:
        return True
    if config.bug is Bug.REPLAY_BEFORE_SEAL and not seal_of(
        state.chains[change.old], state.registry.chains[change.old], config
    ):
        return False
    if config.bug is Bug.NO_EPOCH_CONDITION:
        return row.chain == change.old
    return row.leader_epoch == change.leader_epoch and row.chain == change.old


def asked(state: State, change: RowChange, config: Config) -> State | None:
    """The state with `change` on its way; None if it is already, or too many are."""
    if change in state.changes or len(state.changes) >= config.row_changes_in_flight:
        return None
    return state._replace(changes=tuple(sorted((*state.changes, change))))


def successors(state: State, config: Config) -> Iterable[int]:
    """Who may lead next: everybody who has led, and one of those alike that never have."""
    if config.starts:
        return [n for n, row in enumerate(state.registry.chains) if row.status != ABSENT]
    named = [chain for chain, _ in state.registry.row.epoch_ranges]
    named += [change.new for change in state.changes]
    named += [n for n, broker in enumerate(state.brokers) if broker.leader_epoch]
    return range(min(max(named) + 2, config.chains))


def _without_hopeless(state: State, config: Config) -> State:
    """Leader epochs only rise: a change for a lower one can never apply again."""
    if config.bug in (Bug.NO_CONDITION, Bug.NO_EPOCH_CONDITION):
        return state
    epoch = state.registry.row.leader_epoch
    left = tuple(change for change in state.changes if change.leader_epoch >= epoch)
    return state._replace(changes=left)
