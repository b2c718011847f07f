"""Does a store keep the promises that a log rests on, and a registry? Safety rule 11.

Servers are known that answer every single conditional write correctly and still let several racers
win; on such a one two brokers would both believe that they wrote a segment. So the probe races, in
many rounds, and `logstore init` refuses a store that fails. A store that passes has not been proved
right; one that fails has been proved wrong.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass

from logstore.ports.objects import BlockingObjectStore
from logstore.ports.registry import BlockingRowStore
from logstore.probe.objects import ObjectsProbe
from logstore.probe.races import Tally
from logstore.probe.rows import RowsProbe
from logstore.probe.track import RACERS, Track

__all__ = ["Report", "probe"]


@dataclass(frozen=True, slots=True)
class Report:
    """`faults`: one line each; none: the store and the registry passed."""

    racers: int
    races: tuple[Tally, ...]
    faults: tuple[str, ...]

    @property
    def is_accepted(self) -> bool:
        return not self.faults

    @property
    def rounds(self) -> int:
        return sum(tally.rounds for tally in self.races)


def probe(
    store: BlockingObjectStore,
    rows: BlockingRowStore | None,
    *,
    name: str,
    rng: random.Random,
    sleep_s: Callable[[float], None],
) -> Report:
    """Probes both, or the store alone. `name` is a string never given before.

    Raises `LogstoreError`s that are no finding: the store cannot be reached, or does not exist.
    """
    with Track(rng, sleep_s) as track:
        creates, faults = ObjectsProbe(store, track, name).run()
        races = [creates]
        if rows is not None:
            tallies, more = RowsProbe(rows, track, name).run()
            races += tallies
            faults += more
    return Report(RACERS, tuple(races), tuple(faults))
