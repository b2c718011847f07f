"""The brokers of the cluster as this one sees them: their rows, and which of them are alive."""

from collections.abc import Callable, Mapping, Set

from logstore.epoch.events import Events
from logstore.formats.broker_row import BrokerRow, BrokerStatus
from logstore.ports.clock import Clock
from logstore.protocol.leading.start import LEASE_S
from logstore.protocol.rules.liveness import Liveness


class LiveBrokers:
    def __init__(self, broker: int, clock: Clock, events: Events) -> None:
        """`broker` is this one. Brokers that die or drain are reported to `events` as unrest."""
        self.brokers: Mapping[int, BrokerRow] = {}
        """Every broker's row, dead or alive, as last read."""
        self.liveness = Liveness(LEASE_S)
        self._broker = broker
        self._clock = clock
        self._events = events
        self._on_death: list[Callable[[], None]] = []

    @property
    def is_one_silent(self) -> bool:
        """Whether a broker seems silent: its row is about to be too old."""
        return self.liveness.is_one_silent

    def live_brokers(self) -> dict[int, BrokerRow]:
        """Those that serve as far as we know, this one included."""
        alive = self.liveness.alive
        return {
            broker: row
            for broker, row in self.brokers.items()
            if broker == self._broker or broker in alive
        }

    def chain_of(self, broker: int) -> int | None:
        """The chain that a broker writes; None unless it serves."""
        row = self.live_brokers().get(broker)
        return None if row is None or row.status is not BrokerStatus.SERVING else row.epoch

    def observe(self, brokers: Mapping[int, BrokerRow]) -> None:
        """`brokers`: all rows, as just read."""
        self.brokers, before = brokers, self.liveness.alive
        self.liveness.observe(brokers, self._clock.monotonic_s())
        if dead := before - self.liveness.alive:
            self._report_deaths(dead)
        if draining := {
            broker
            for broker, row in self.live_brokers().items()
            if row.status is BrokerStatus.DRAINING
        }:
            self._events.unrest.report(frozenset(draining))  # they hand out what they lead

    def mark_dead(self, broker: int, epoch: int) -> bool:
        """The process of that epoch is gone; False where that is old news (`rules.liveness`)."""
        is_update = self.liveness.mark_dead(broker, epoch)
        if is_update:
            self._report_deaths({broker})
        return is_update

    def on_death(self, callback: Callable[[], None]) -> None:
        """Call back whenever a broker is alive no more."""
        self._on_death.append(callback)

    def _report_deaths(self, brokers: Set[int]) -> None:
        self._events.unrest.report(frozenset(brokers))
        for callback in self._on_death:
            callback()
