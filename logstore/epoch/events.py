"""Reports of the parts of a broker epoch to each other.

`Events` is made before all other parts and given to those that report. A part knows no part that is
made after it: it reports here, and the later one listens. Listeners are called at once, in the
order in which they began to listen.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from logstore.epoch.catalog import LeadershipChanges, Topic
from logstore.protocol.rows.view import RegistryUpdate

T = TypeVar("T")


class Event(Generic[T]):
    """Reports of one kind, each with a value."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[T], None]] = []

    def listen(self, listener: Callable[[T], None]) -> None:
        """Call `listener` with the value of each report from now on."""
        self._listeners.append(listener)

    def report(self, value: T) -> None:
        for listener in self._listeners:
            listener(value)


class Events:
    def __init__(self) -> None:
        self.rows: Event[RegistryUpdate] = Event()
        """Rows were read, or written here. They are not in the catalog yet."""
        self.leaderships: Event[LeadershipChanges] = Event()
        """Rows that are in the catalog change leaderships of this broker."""
        self.topics: Event[Topic] = Event()
        """A topic came, went, or has other rows or leaders here."""
        self.unrest: Event[frozenset[int]] = Event()
        """Brokers that died or drain: partitions are about to change leaders."""
