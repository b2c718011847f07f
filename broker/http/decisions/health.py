"""Whether a broker is healthy, whether it is ready, and if not why. Pure.

healthy   killing it would help no client: its event loop answers, and it was not fenced
ready     clients are well served: it accepts, leads what it should, has a read lease, and can store
"""

from collections.abc import Collection, Hashable
from dataclasses import dataclass, field
from enum import StrEnum

from logstore.errors import DISK_IS_FULL, FREE_SPACE
from logstore.slices import Slices

PUT_AGE_MAX_S = 5.0
"""A store that has not answered for so long takes nothing."""

UNLED_MAX_S = 10.0
"""A partition that is made, or comes here, is led about two flushes after its row says so."""

SLICE_PARTITIONS = 1_000
"""Looked at without a pause: some 0.5 ms."""


class State(StrEnum):
    STARTING = "starting"
    SERVING = "serving"
    STOPPING = "stopping"
    FENCED = "fenced"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingStatus:
    """`named`: partitions whose rows name this broker; `led`: those of them that it serves.

    `unled` are those that should be by now.
    """

    state: State
    named: int = 0
    led: int = 0
    unled: int = 0
    has_read_lease: bool = False
    has_no_room: bool = False
    put_age_s: float = 0.0


@dataclass(slots=True)
class Patience:
    """Which partitions should be led by now. One for each epoch.

    A broker that has led all that its rows named is not unready again for each partition that is on
    its way: a probe would take it out of service whenever a topic is made.
    """

    _since_s: dict[Hashable, float] = field(default_factory=dict)
    _has_led_all: bool = False

    def overdue(self, unled: Collection[Hashable], now_s: float) -> Slices[int]:
        """How many of `unled`, which are not led now, should be: of a broker that starts, all."""
        self._has_led_all = self._has_led_all or not unled
        before_s, since_s = self._since_s, dict[Hashable, float]()
        late_count = 0
        for number, one in enumerate(unled, 1):
            since_s[one] = before_s.get(one, now_s)
            late_count += now_s - since_s[one] > UNLED_MAX_S
            if number % SLICE_PARTITIONS == 0:
                yield
        self._since_s = since_s
        return late_count if self._has_led_all else len(unled)


def why_not_healthy(state: State) -> str:
    """Empty when it is."""
    return "fenced: another broker took over" if state is State.FENCED else ""


def why_not_ready(status: ServingStatus) -> list[str]:
    """Empty when it is."""
    if status.state is not State.SERVING:
        return [f"not accepting: {status.state.value}"]
    reasons = []
    if status.unled:
        reasons.append(f"partitions are not led yet: led={status.led} named={status.named}")
    if status.has_no_room:
        return [*reasons, f"{DISK_IS_FULL}: {FREE_SPACE}"]  # leases and puts wait for the same
    if not status.has_read_lease:
        reasons.append("the lease is not renewed: the registry does not answer")
    if status.put_age_s > PUT_AGE_MAX_S:
        reasons.append(f"the store accepts no puts: oldest put={status.put_age_s:.1f} s")
    return reasons
