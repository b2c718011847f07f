"""Which chains to take over: those that are no longer written, or should not be. Pure.

A chain is taken over when its broker is dead, has started again, or stopped in good order; when it
is fenced or sealed while partitions name it; and when the store does not answer its broker although
it answers others. Any of this may be wrong: it costs a healthy broker a new start, never data.
"""

from dataclasses import dataclass

from broker.cluster.decisions.controller_state import ControllerState
from broker.cluster.decisions.view import Action, ClusterView, StepDown, TakeOver
from logstore.formats.broker_row import BrokerStatus
from logstore.formats.chain_row import ChainStatus

RESTART_GRACE_S = 6.0
"""A broker that has started again takes over its own earlier chains; later we help."""
UNKNOWN_GRACE_S = 60.0
"""A chain that is newer than its broker's row: of a start that is under way, or died."""
UNSEEN_GRACE_S = 3.0
"""A broker without a row: our list may be older than the partition's row that names it."""


@dataclass(frozen=True, slots=True)
class FencingRules:
    put_age_ms_max: int


def find_chains_to_take(
    view: ClusterView, memory: ControllerState, rules: FencingRules
) -> list[Action]:
    memory.advances.observe(view.brokers, view.now_s)
    owners = {
        **{row.epoch: broker for broker, row in view.brokers.items()},
        **{
            chain: row.broker
            for chain, row in view.chains.items()
            if row.status is not ChainStatus.SEALED
        },
        **view.places.named,
    }
    actions: list[Action] = []
    for chain, broker in sorted(owners.items()):
        reason = _why(view, memory, chain, broker)
        if reason is not None:
            actions.append(TakeOver(chain, broker, reason))
    if not actions:
        actions = _stuck(view, memory, rules)
    return actions


def _why(view: ClusterView, memory: ControllerState, chain: int, broker: int) -> str | None:
    """Why to take over `chain` of `broker`; None: leave it alone."""
    if not _needs_taking(view, chain):
        return None
    row = view.brokers.get(broker)
    if row is None and broker == view.me:
        return None
    if row is None:
        return _after(memory, view, chain, UNSEEN_GRACE_S, "its broker has no row")
    if chain > row.epoch:
        return _after(memory, view, chain, UNKNOWN_GRACE_S, "its broker never began to serve")
    if broker not in view.alive:
        is_stopped = row.status is BrokerStatus.STOPPED
        return "its broker has stopped" if is_stopped else "its broker is dead"
    if chain < row.epoch:
        return _after(memory, view, chain, RESTART_GRACE_S, "its broker has started again")
    if broker != view.me and not view.is_open(chain):
        return "it is fenced and partitions name it"
    return None


def _needs_taking(view: ClusterView, chain: int) -> bool:
    row = view.chains.get(chain)
    return chain in view.places.named or row is None or row.status is not ChainStatus.SEALED


def _after(
    memory: ControllerState, view: ClusterView, chain: int, grace_s: float, reason: str
) -> str | None:
    age_s = memory.first_seen.age_s((reason, chain), view.now_s)
    return reason if age_s >= grace_s else None


def _stuck(view: ClusterView, memory: ControllerState, rules: FencingRules) -> list[Action]:
    """A broker whose puts stay unanswered while another's are answered; one at a time."""
    bound_s = rules.put_age_ms_max / 1000
    stuck = {
        broker: row.put_age_ms
        for broker, row in view.brokers.items()
        if broker in view.alive
        and row.put_age_ms > rules.put_age_ms_max
        and view.is_open(row.epoch)
    }
    advancing = memory.advances.within(bound_s, view.now_s) & view.alive - stuck.keys()
    if not stuck or not advancing:
        return []
    if view.me in stuck:
        return [StepDown(f"the store does not answer us put_age_ms={stuck[view.me]}")]
    broker = max(stuck, key=lambda one: (stuck[one], one))
    row = view.brokers[broker]
    last_s = memory.fenced_stuck_s
    if last_s is not None and last_s != view.now_s and view.now_s - last_s < bound_s:
        return []
    memory.fenced_stuck_s = view.now_s
    reason = f"the store does not answer its broker put_age_ms={row.put_age_ms}"
    return [TakeOver(row.epoch, broker, reason, probe=True)]
