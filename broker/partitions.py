"""Checks that every request about one partition makes."""

from bisect import bisect_right

from logstore.log.leader import Leader
from logstore.wire.errors import ErrorCode

NO_EPOCH = -1


def check_epoch(leader: Leader, current_leader_epoch: int) -> ErrorCode:
    """Whether the client's view of who leads is ours (KIP-320)."""
    if current_leader_epoch in (NO_EPOCH, leader.leader_epoch):
        return ErrorCode.NONE
    if current_leader_epoch < leader.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    return ErrorCode.UNKNOWN_LEADER_EPOCH


def epoch_at(leader: Leader, offset: int) -> int:
    """Leader epoch of the stretch that holds `offset`."""
    stretches = leader.stretches
    number = bisect_right(stretches, offset, key=lambda stretch: stretch.start) - 1
    return stretches[max(number, 0)].leader_epoch
