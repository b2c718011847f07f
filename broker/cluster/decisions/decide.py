"""The controller's next actions, from one look at the cluster: fence, repair, complete, balance.

Every action may be repeated, and done by a controller that is one no more: rows change only under
the conditions of the row that was seen. So a look may take a while: it is in slices. Pure but for
`memory`, which it keeps.
"""

from dataclasses import dataclass

from broker.cluster.decisions.balance import BalanceRules, balance
from broker.cluster.decisions.controller_state import ControllerState
from broker.cluster.decisions.fencing import FencingRules, find_chains_to_take
from broker.cluster.decisions.members import find_members
from broker.cluster.decisions.replicas import complete_replicas
from broker.cluster.decisions.stuck_moves import unstick_moves
from broker.cluster.decisions.view import Action, ClusterView
from logstore.slices import Slices


@dataclass(frozen=True, slots=True)
class Rules:
    fencing: FencingRules
    balance: BalanceRules
    gone_after_s: float


def decide(view: ClusterView, memory: ControllerState, rules: Rules) -> Slices[list[Action]]:
    """Most urgent first. While there is something to fence, nothing is moved for balance."""
    members = find_members(view, memory.first_seen, rules.gone_after_s)
    actions = find_chains_to_take(view, memory, rules.fencing)
    is_calm = not actions
    actions += unstick_moves(view, members, memory)
    if is_calm and memory.replicas.is_due(view.now_s):
        completed = yield from complete_replicas(view, members)
        memory.replicas.end(view.now_s, found=bool(completed))
        actions += completed
        is_calm = not completed
    if is_calm and memory.balance.is_due(view.now_s):
        moves = yield from balance(view, members, memory, rules.balance)
        is_busy = bool(moves or view.places.under_way)
        memory.balance.end(view.now_s, found=is_busy and rules.balance.is_enabled)
        actions += moves
    memory.first_seen.end_pass()
    return actions
