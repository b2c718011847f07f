"""One lease row: acquired, renewed, stepped down from, taken over. Safety rule 9.

    free, or unchanged for a lease, or its owner known to be dead  →  take it (lease epoch + 1)
    held                                                           →  renew (heartbeat + 1)
    not renewed for half a lease                                   →  act no more, but try on
    three renewals in a row that took as long                      →  give it up: others wait for it
    the row has another owner                                      →  watch again

An observer judges by its own monotonic clock, and counts silence only while it observes. An action
under a lease must be harmless if a stale owner repeats it. Pure: times come in, requests go out.
"""

from collections.abc import Callable
from dataclasses import replace

from logstore.errors import ConditionFailed
from logstore.formats.lease_row import LEASE, LeaseRow
from logstore.formats.partition_row import NO_BROKER
from logstore.ports.registry import Comparison, Condition, Row, RowAbsent
from logstore.protocol.rules.liveness import GAPS_PER_LEASE
from logstore.protocol.steps import GetRow, PutRow, Steps, UpdateRow

STEP_DOWN_AT = 0.5
"""Fraction of a lease without a renewal at which the owner stops, long before a takeover."""

LATE_RENEWALS_MAX = 3
"""In a row, each over only when its owner might no longer act under the lease."""

IsDead = Callable[[int, int], bool]
"""Whether this broker, at this epoch, is known to be gone."""


class Lease:
    """One observer's part in the lease `what`; drive `step` every third of a lease."""

    def __init__(self, what: str, *, owner: int, owner_epoch: int, lease_s: float) -> None:
        self.lease_s = lease_s
        self.seen: LeaseRow | None = None
        """The row as it stood when we last looked."""
        self.acquired = 0
        """How many times we became the owner."""
        self._what = what
        self._owner = owner
        self._owner_epoch = owner_epoch
        self._renewed_s: float | None = None
        self._silent_s = 0.0
        self._looked_s = 0.0
        self._late_renewals = 0

    @property
    def is_mine(self) -> bool:
        """The row was ours when we last looked; `holds` says whether we may act on that."""
        seen = self.seen
        return seen is not None and (seen.owner, seen.owner_epoch) == self._me

    def holds(self, now_s: float) -> bool:
        if self._renewed_s is None or not self.is_mine:
            return False
        return now_s - self._renewed_s < self.lease_s * STEP_DOWN_AT

    @property
    def is_too_slow(self) -> bool:
        """Whether its owner is to give it up: others see it renewed, and nothing is done under it.

        As long as renewing it stays as slow, the owner never knows in time that it has it.
        """
        return self._late_renewals >= LATE_RENEWALS_MAX

    def note_ended(self, now_s: float, *, applied: bool = True) -> None:
        """A `step` ended at `now_s`, without an error."""
        is_late = applied and self.is_mine and not self.holds(now_s)
        self._late_renewals = self._late_renewals + 1 if is_late else 0

    def step(self, now_s: float, is_dead: IsDead, *, applies: bool = True) -> Steps[None]:
        """Renew it or watch it; `now_s` was read before. Raises as the registry does.

        An observer that does not apply for it only watches, even if the row is its own.
        """
        if not applies:
            self._renewed_s = None
            yield from self._look(now_s)
        elif self.is_mine and self._renewed_s is not None:
            yield from self._renew(now_s)
        else:
            yield from self._watch(now_s, is_dead)

    def give_up(self) -> Steps[None]:
        """Release the lease: the next observer may take it."""
        self._late_renewals = 0
        if not self.is_mine or self.seen is None:
            return
        free = replace(self.seen, owner=NO_BROKER, heartbeat=self.seen.heartbeat + 1)
        yield from self._write(free, 0.0)
        self._renewed_s = None

    def _renew(self, now_s: float) -> Steps[None]:
        assert self.seen is not None
        yield from self._write(replace(self.seen, heartbeat=self.seen.heartbeat + 1), now_s)

    def _look(self, now_s: float) -> Steps[None]:
        row: Row | None = yield GetRow(LEASE, self._what)
        self._saw(row, now_s)

    def _watch(self, now_s: float, is_dead: IsDead) -> Steps[None]:
        yield from self._look(now_s)
        if self.seen is None:
            new = LeaseRow(owner=self._owner, owner_epoch=self._owner_epoch, epoch=1, heartbeat=0)
            yield from self._write(new, now_s)
        elif self._is_free(self.seen, is_dead):
            yield from self._write(
                LeaseRow(
                    owner=self._owner,
                    owner_epoch=self._owner_epoch,
                    epoch=self.seen.epoch + 1,
                    heartbeat=self.seen.heartbeat + 1,
                ),
                now_s,
            )

    def _is_free(self, seen: LeaseRow, is_dead: IsDead) -> bool:
        if seen.owner == self._owner or seen.owner == NO_BROKER:
            return True  # released, or held by an earlier life of ours, which this start has ended
        return self._silent_s >= self.lease_s or is_dead(seen.owner, seen.owner_epoch)

    def _write(self, row: LeaseRow, now_s: float) -> Steps[None]:
        """Replace the row last seen by `row`; if it has changed, take over the current one."""
        conditions: list[Condition] = [RowAbsent()]
        if self.seen is not None:
            was = self.seen.row()
            names = ("owner", "owner_epoch", "epoch", "heartbeat")
            conditions = [Comparison(name, "=", was[name]) for name in names]
        try:
            if self.seen is None:
                yield PutRow(LEASE, self._what, row.row(), conditions)
            else:
                yield UpdateRow(LEASE, self._what, row.row(), conditions)
        except ConditionFailed as failed:
            self._renewed_s = None
            self._saw(failed.current, now_s)
            return
        self.acquired += self._renewed_s is None and (row.owner, row.owner_epoch) == self._me
        self.seen, self._renewed_s = row, now_s

    def _saw(self, row: Row | None, now_s: float) -> None:
        now = None if row is None else LeaseRow.of(row)
        if now == self.seen and now is not None:
            gap_s = max(0.0, now_s - self._looked_s)
            self._silent_s += min(gap_s, self.lease_s / GAPS_PER_LEASE)
        else:
            self._silent_s = 0.0
        self.seen, self._looked_s = now, now_s

    @property
    def _me(self) -> tuple[int, int]:
        return self._owner, self._owner_epoch
