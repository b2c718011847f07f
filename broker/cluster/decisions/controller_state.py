"""The controller's state between two looks, beyond rows. Pure.

All of it may be lost with the controller: the next one waits a little longer before it acts.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from logstore.formats.broker_row import BrokerRow


class FirstSeen:
    """Since when each fact has been true at every look. The keys are facts."""

    def __init__(self) -> None:
        self._since: dict[Hashable, float] = {}
        self._seen: set[Hashable] = set()

    def age_s(self, fact: Hashable, now_s: float) -> float:
        """How long `fact`, which is true now, has been so; 0 at first sight."""
        self._seen.add(fact)
        return now_s - self._since.setdefault(fact, now_s)

    def end_pass(self) -> None:
        """Forget facts that were not asked about since the last look: they are no longer true."""
        self._since = {fact: self._since[fact] for fact in self._seen}
        self._seen = set()


@dataclass(slots=True)
class Interval:
    """When a kind of work is looked at: every so often, and on and on while there is some."""

    every_s: float
    next_s: float | None = None

    def is_due(self, now_s: float) -> bool:
        if self.next_s is None:
            self.next_s = now_s + self.every_s
        return now_s >= self.next_s

    def end(self, now_s: float, *, found: bool) -> None:
        self.next_s = now_s if found else now_s + self.every_s


class Advances:
    """When each broker's chain was last seen to advance, by its committed end.

    An idle broker shows nothing either way.
    """

    def __init__(self) -> None:
        self._ends: dict[int, tuple[int, int]] = {}
        self._advanced_s: dict[int, float] = {}

    def observe(self, brokers: Mapping[int, BrokerRow], now_s: float) -> None:
        for broker, row in brokers.items():
            epoch, end = self._ends.get(broker, (row.epoch, row.committed_end))
            if epoch == row.epoch and row.committed_end > end:
                self._advanced_s[broker] = now_s
            self._ends[broker] = row.epoch, row.committed_end

    def within(self, seconds: float, now_s: float) -> set[int]:
        return {broker for broker, at_s in self._advanced_s.items() if now_s - at_s <= seconds}


@dataclass(slots=True)
class ControllerState:
    first_seen: FirstSeen = field(default_factory=FirstSeen)
    advances: Advances = field(default_factory=Advances)
    replicas: Interval = field(default_factory=lambda: Interval(5.0))
    balance: Interval = field(default_factory=lambda: Interval(30.0))
    restoring: set[int] = field(default_factory=set)
    """Brokers that are being given back the partitions they are the preferred leader of."""
    is_levelling: bool = False
    fenced_stuck_s: float | None = None
    """When a broker was last fenced because the store does not answer it."""
