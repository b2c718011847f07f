"""Moves and reassignments that are under way and stuck: what unsticks each. Pure."""

from dataclasses import replace

from broker.cluster.decisions.controller_state import ControllerState
from broker.cluster.decisions.members import Members
from broker.cluster.decisions.view import Action, ClusterView, PlacedPartition, Reassign, Remind
from logstore.formats.partition_row import NO_BROKER

REMIND_AFTER_S = 10.0
TARGET_GRACE_S = 3.0
"""A target that is not fit to lead: the leader finds that out by itself, most of the time."""


def unstick_moves(view: ClusterView, members: Members, memory: ControllerState) -> list[Action]:
    actions = [_unstick(view, members, memory, place) for place in view.places.moving]
    return [action for action in actions if action is not None]


def _unstick(
    view: ClusterView, members: Members, memory: ControllerState, place: PlacedPartition
) -> Action | None:
    row = place.row
    if row.reassigning and members.gone.issuperset(row.reassigning):
        wanted = replace(row, reassigning=(), target=NO_BROKER)
        return Reassign(place, wanted, "all its new replicas are gone")
    if not view.is_led(row):
        return None  # its takeover ends the move
    if row.target == NO_BROKER:
        return _move_to_new_replicas(view, place)
    if row.target == row.broker:
        return _move_to_new_replicas(view, place) or Reassign(
            place, replace(row, target=NO_BROKER), "it is led by its target already"
        )
    if row.target not in view.eligible:
        age_s = memory.first_seen.age_s(("unfit target", *place.key, row.target), view.now_s)
        if age_s < TARGET_GRACE_S:
            return None
        return _move_to_new_replicas(view, place) or Reassign(
            place, replace(row, target=NO_BROKER), "its target is not fit to lead"
        )
    fact = ("moving", *place.key, row.leader_epoch, row.target)
    is_late = memory.first_seen.age_s(fact, view.now_s) >= REMIND_AFTER_S
    return Remind(place) if is_late else None


def _move_to_new_replicas(view: ClusterView, place: PlacedPartition) -> Action | None:
    """Go on with a move to new replicas; None: there are none, or none of them can lead."""
    row = place.row
    if not row.reassigning:
        return None
    if row.broker in row.reassigning:
        wanted = replace(row, replicas=row.reassigning, reassigning=(), target=NO_BROKER)
        return Reassign(place, wanted, "its leader is among the new replicas")
    for broker in row.reassigning:
        if broker in view.eligible and broker != row.target:
            return Reassign(place, replace(row, target=broker), "a new replica is to lead")
    return None
