"""`--broker auto`: a process takes the lowest free number, by a conditional write. Pure.

A number has the row of its broker, once one has started, and a number row if it was taken here:

    neither row                                         →  free
    broker row: stopped in good order                   →  free
    neither row has changed for a lease                 →  free
    one of them changes                                 →  taken

From the write of the number row until its broker row is there, the holder renews the number row.
So processes that start together get different numbers within about a second. This chooses a number,
it fences no broker: a start refuses a live twin by itself (`start.py`), also one whose number was
given by hand while it was being taken here.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import count

from logstore.errors import ConditionFailed
from logstore.formats.broker_row import BROKER, BrokerRow, BrokerStatus
from logstore.formats.number_row import NUMBER, NumberRow
from logstore.ports.registry import Comparison, Condition, RowAbsent
from logstore.protocol.leading.start import LEASE_S, WATCHES_PER_LEASE
from logstore.protocol.steps import GetRow, PutRow, QueryRows, Steps, UpdateRow, Wait


@dataclass(frozen=True, slots=True)
class NumberState:
    """Both rows of a number; None where there is none."""

    broker: BrokerRow | None = None
    taken: NumberRow | None = None

    @property
    def is_free(self) -> bool:
        """Whether it may be taken without a look at how long it has not changed."""
        if self.broker is None:
            return self.taken is None
        is_started = self.taken is None or self.broker.epoch > self.taken.epoch
        return is_started and self.broker.status is BrokerStatus.STOPPED

    @property
    def epoch(self) -> int:
        return -1 if self.broker is None else self.broker.epoch


def take_number(holder: str, excluded: Collection[int] = ()) -> Steps[int]:
    """The lowest free number, but none of `excluded`; its row names `holder`."""
    states = yield from _read_states()
    taken = set(excluded)
    watches: Counter[int] = Counter()
    while True:
        number = _lowest(states, taken, watches)
        if number is not None:
            try:
                yield from _put(number, holder, states.get(number, NumberState()))
            except ConditionFailed:
                taken.add(number)
                continue
            return number
        yield Wait(LEASE_S / WATCHES_PER_LEASE)
        before, states = states, (yield from _read_states())
        for number in states.keys() | before.keys():
            if states.get(number) == before.get(number):
                watches[number] += 1
            else:
                taken.add(number)


def keep_number(number: int, holder: str) -> Steps[bool]:
    """Whether the number is still that of `holder`, which renews it then."""
    row = yield GetRow(NUMBER, str(number))
    broker = yield GetRow(BROKER, str(number))
    if row is None:
        return False
    seen = NumberRow.of(row)
    if seen.holder != holder:
        return False
    state = NumberState(None if broker is None else BrokerRow.of(broker), seen)
    try:
        yield from _put(number, holder, state)
    except ConditionFailed:
        return False
    return True


def renew_number(number: int, holder: str) -> Steps[None]:
    """One renewal while the broker starts. Raises `ConditionFailed` if it has another holder."""
    row = yield GetRow(NUMBER, str(number))
    heartbeat = 0 if row is None else NumberRow.of(row).heartbeat + 1
    yield UpdateRow(
        NUMBER, str(number), {"heartbeat": heartbeat}, [Comparison("holder", "=", holder)]
    )


def _lowest(
    states: Mapping[int, NumberState], taken: set[int], watches: Mapping[int, int]
) -> int | None:
    """The lowest free number; None while a lower one may prove to be free."""
    number = next(number for number in count(1) if number not in taken)
    is_silent = watches.get(number, 0) >= WATCHES_PER_LEASE
    return number if is_silent or states.get(number, NumberState()).is_free else None


def _read_states() -> Steps[dict[int, NumberState]]:
    taken = {sk: NumberRow.of(row) for sk, row in (yield QueryRows(NUMBER))}
    brokers = {sk: BrokerRow.of(row) for sk, row in (yield QueryRows(BROKER))}
    return {
        int(sk): NumberState(brokers.get(sk), taken.get(sk)) for sk in brokers.keys() | taken.keys()
    }


def _put(number: int, holder: str, seen: NumberState) -> Steps[None]:
    """Raises `ConditionFailed` if the number row is not as seen."""
    heartbeat = 0 if seen.taken is None else seen.taken.heartbeat + 1
    row = NumberRow(holder=holder, epoch=seen.epoch, heartbeat=heartbeat)
    conditions: list[Condition] = [RowAbsent()]
    if seen.taken is not None:
        conditions = [
            Comparison("holder", "=", seen.taken.holder),
            Comparison("heartbeat", "=", seen.taken.heartbeat),
        ]
    yield PutRow(NUMBER, str(number), row.row(), conditions)
