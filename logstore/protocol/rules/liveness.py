"""Which brokers are alive: judged by how long their rows have not moved, on our own clock.

A broker is alive until its row did not change for a lease, it was marked dead, or its row says so.
Wall clocks of different hosts are never compared. Silence counts only while this process observes:
a minute in which the registry was unreachable, or this process was suspended, makes no broker dead.
This is about liveness alone: a live broker called dead must restart, and loses no data (rule 9).

Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from logstore.formats.broker_row import BrokerRow, BrokerStatus

GAPS_PER_LEASE = 3
"""However long ago we last looked, that gap counts as no more than a third of a lease."""
HEARTBEATS_UNDER_WAY = 1
"""Of a process that died: one may have been on its way, and land after we learned of its death."""


OVER = (BrokerStatus.STOPPED, BrokerStatus.FENCED)


@dataclass(slots=True)
class _Seen:
    epoch: int
    heartbeat: int
    status: BrokerStatus
    silent_s: float = 0.0
    is_marked: bool = False
    heartbeat_at_mark: int | None = None
    """Heartbeat of the first row read after the mark; None: none was read yet."""

    def is_dead(self, lease_s: float) -> bool:
        return self.is_marked or self.status in OVER or not self.silent_s < lease_s


class Liveness:
    def __init__(self, lease_s: float) -> None:
        self.lease_s = lease_s
        self.alive: frozenset[int] = frozenset()
        """Brokers alive when we last looked; one that is new to us is, until it was silent."""
        self._seen: dict[int, _Seen] = {}
        self._looked_s: float | None = None

    def observe(self, rows: Mapping[int, BrokerRow], now_s: float) -> None:
        """Take in all broker rows, read just before `now_s` of our monotonic clock."""
        gap_s = 0.0 if self._looked_s is None else max(0.0, now_s - self._looked_s)
        gap_s = min(gap_s, self.lease_s / GAPS_PER_LEASE)
        self._looked_s = now_s
        self._seen = {
            broker: _observed(self._seen.get(broker), row, gap_s) for broker, row in rows.items()
        }
        self._judge()

    def mark_dead(self, broker: int, epoch: int) -> bool:
        """The process of `broker` at `epoch` is known to be gone: do not wait for its lease.

        Void once its row shows another epoch, or heartbeats that a dead process cannot have sent.
        False where the row last seen is of another epoch, so the news is of another life.
        """
        seen = self._seen.get(broker)
        if seen is None or seen.epoch != epoch:
            return False
        if not seen.is_marked:
            seen.is_marked, seen.heartbeat_at_mark = True, None
            self._judge()
        return True

    def is_alive(self, broker: int) -> bool:
        return broker in self.alive

    def silent_s(self, broker: int) -> float:
        """How long its row has stood still while we looked; infinite where there is no row."""
        seen = self._seen.get(broker)
        return float("inf") if seen is None else seen.silent_s

    def is_silent(self, broker: int) -> bool:
        """Whether its row has not changed for a lease, so that it has no read lease now."""
        return self.silent_s(broker) >= self.lease_s

    @property
    def is_one_silent(self) -> bool:
        """Whether a broker that is alive has missed a heartbeat: it is to be looked at closely."""
        missed_s = self.lease_s / 2
        return any(seen.silent_s > missed_s for seen in self._seen.values() if self._is_alive(seen))

    def _is_alive(self, seen: _Seen) -> bool:
        return not seen.is_dead(self.lease_s)

    def _judge(self) -> None:
        self.alive = frozenset(
            broker for broker, seen in self._seen.items() if self._is_alive(seen)
        )


def _observed(seen: _Seen | None, row: BrokerRow, gap_s: float) -> _Seen:
    if seen is None or seen.epoch != row.epoch:
        return _Seen(row.epoch, row.heartbeat, row.status)
    seen.silent_s = seen.silent_s + gap_s if row.heartbeat == seen.heartbeat else 0.0
    seen.heartbeat, seen.status = row.heartbeat, row.status
    if seen.is_marked and seen.heartbeat_at_mark is None:
        seen.heartbeat_at_mark = row.heartbeat
    elif seen.heartbeat_at_mark is not None:
        seen.is_marked = row.heartbeat <= seen.heartbeat_at_mark + HEARTBEATS_UNDER_WAY
        if not seen.is_marked:
            seen.heartbeat_at_mark = None
    return seen
