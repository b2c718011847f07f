"""Whether a broker is healthy, whether it is ready, and if not why. Pure.

healthy   nobody would gain by killing it: its event loop answers, and it was not fenced
ready     clients are well served: it accepts, leads what it should, may vouch, and can store
"""

from dataclasses import dataclass
from enum import StrEnum

PUT_AGE_MAX_S = 5.0
"""A store that has not answered for so long takes nothing."""


class State(StrEnum):
    STARTING = "starting"
    SERVING = "serving"
    STOPPING = "stopping"
    FENCED = "fenced"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """`named`: partitions whose rows name this broker; `led`: those of them that it serves."""

    state: State
    named: int = 0
    led: int = 0
    vouches: bool = False
    put_age_s: float = 0.0


def why_not_healthy(standing: Standing) -> str:
    """Empty when it is."""
    return "fenced: another broker took over" if standing.state is State.FENCED else ""


def why_not_ready(standing: Standing) -> list[str]:
    """Empty when it is."""
    if standing.state is not State.SERVING:
        return [f"not accepting: {standing.state.value}"]
    reasons = []
    if standing.led < standing.named:
        reasons.append(f"partitions are not led yet: led={standing.led} named={standing.named}")
    if not standing.vouches:
        reasons.append("the lease is not renewed: the registry does not answer")
    if standing.put_age_s > PUT_AGE_MAX_S:
        reasons.append(f"the store takes nothing: oldest put={standing.put_age_s:.1f} s")
    return reasons
