"""What a kill series came to: its kills, what was underway at each, and the judge's verdict."""

import math
import statistics
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tests.scenarios.harness.load import REQUESTS_ON_THEIR_WAY_MAX
from tests.scenarios.harness.values import Entry, Kind

RATE_WINDOW_S = 0.5
UNDER_LOAD = frozenset({"before put", "after put", "random moment", "checkpoint"})


@dataclass(frozen=True, slots=True)
class Killed:
    kind: str
    at_s: float
    batches_in_puts: int | None
    """What the broker itself counted in puts not answered; unknown when killed from outside."""


@dataclass(frozen=True, slots=True)
class Underway:
    """What the load had on its way as the broker died under it."""

    killed: Killed
    batches_unacknowledged: int
    batches_per_s: float
    silent_s: float
    """The longest pause in acknowledgements from this death to the next one under load."""


@dataclass(frozen=True, slots=True)
class Outcome:
    kills: Sequence[Killed]
    underway: Sequence[Underway]
    verdict: dict[str, Any]
    seconds: float

    @property
    def anomalies(self) -> dict[str, int]:
        found: dict[str, int] = self.verdict["anomalies"]
        return found

    def kills_by_kind(self) -> Counter[str]:
        return Counter(killed.kind for killed in self.kills)

    def report(self) -> Iterator[str]:
        verdict, found = self.verdict, Counter(self.anomalies)
        kinds = ", ".join(f"{kind} {count}" for kind, count in self.kills_by_kind().items())
        yield f"kills -9       {len(self.kills)} in {self.seconds:.0f} s: {kinds}"
        yield (
            f"records        sent {verdict['sent']}, acknowledged {verdict['acked']}, "
            f"in the objects {verdict['stored']}; watermarks seen {verdict['watermarks']}"
        )
        yield (
            f"found          lost {found['lost']}, doubled {found['doubled']}, out of order "
            f"{found['disordered']}, gaps {found['gap']}, anomalies of any kind "
            f"{sum(found.values())}"
        )
        for kind, texts in verdict["examples"].items():
            yield f"  {kind}: {'; '.join(texts)}"
        rates = [one.batches_per_s for one in self.underway]
        waiting = [one.batches_unacknowledged for one in self.underway]
        silences = [one.silent_s for one in self.underway]
        yield (
            f"under load     {len(self.underway)} kills; batches/s just before: median "
            f"{statistics.median(rates):.0f}, least {min(rates):.0f}; unacknowledged batches: "
            f"median {statistics.median(waiting):.0f}, least {min(waiting)}; seconds without an "
            f"acknowledgement: median {statistics.median(silences):.1f}, most {max(silences):.1f}"
        )
        for one in self.underway:
            reported = one.killed.batches_in_puts
            in_puts = "" if reported is None else f", {reported} of them in a put"
            yield (
                f"  {one.killed.kind:14} {one.batches_unacknowledged:4} unacknowledged{in_puts}, "
                f"{one.batches_per_s:.0f} batches/s; silent for {one.silent_s:.1f} s"
            )


def measure(kills: Sequence[Killed], journal: Sequence[Entry]) -> Iterator[Underway]:
    """What was underway at each kill under load: at most five batches a producer count."""
    answered = [entry.at_s for entry in journal if entry.kind == Kind.ACKED]
    under_load = [killed for killed in kills if killed.kind in UNDER_LOAD]
    ends_s = [killed.at_s for killed in under_load[1:]] + [math.inf]
    waiting: Counter[int] = Counter()
    at = 0
    for killed, end_s in zip(under_load, ends_s, strict=True):
        while at < len(journal) and journal[at].at_s < killed.at_s:
            entry = journal[at]
            waiting[entry.producer] += 1 if entry.kind == Kind.SENT else -1
            at += 1
        here = bisect_left(answered, killed.at_s)
        count = here - bisect_left(answered, killed.at_s - RATE_WINDOW_S)
        on_their_way = sum(min(n, REQUESTS_ON_THEIR_WAY_MAX) for n in waiting.values())
        after_s = [killed.at_s, *answered[here : bisect_left(answered, end_s)]]
        silent_s = max((late - early for early, late in pairwise(after_s)), default=math.inf)
        yield Underway(killed, on_their_way, count / RATE_WINDOW_S, silent_s)
