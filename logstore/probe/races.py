"""Judges the results of races: can the store be trusted? Pure.

In one round all racers try the same create at the same moment, and one may succeed. A racer that
lost its answer knows nothing, so a round without a winner is judged only if no answer was lost.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

JUDGED_SHARE_MIN = 0.5


class RaceOutcome(Enum):
    """Answer that one racer got."""

    WON = "won"
    LOST = "lost"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Race:
    """One round. `found`: the racer whose bytes the key held afterwards; None: no racer's."""

    outcomes: tuple[RaceOutcome, ...]
    found: int | None

    @property
    def winners(self) -> list[int]:
        return [n for n, outcome in enumerate(self.outcomes) if outcome is RaceOutcome.WON]

    @property
    def is_judged(self) -> bool:
        """Not if answers were lost, or all were turned away and nothing is there, as S3 may do."""
        return bool(self.winners) or (
            self.found is not None and RaceOutcome.UNKNOWN not in self.outcomes
        )


@dataclass(frozen=True, slots=True)
class Tally:
    """All rounds of one kind of race. `winners`: how many rounds had that many."""

    what: str
    rounds: int
    judged: int
    winners: Mapping[int, int]
    faults: tuple[str, ...]


def judge(what: str, races: Sequence[Race]) -> Tally:
    judged = [race for race in races if race.is_judged]
    winners = Counter(len(race.winners) for race in judged)
    several = [race for race in judged if len(race.winners) > 1]
    none = [race for race in judged if not race.winners]
    other = [race for race in judged if len(race.winners) == 1 and race.found != race.winners[0]]
    of = f"{len(judged)} rounds"
    faults = []
    if several:
        most = max(len(race.winners) for race in several)
        racers = len(several[0].outcomes)
        faults.append(
            f"{what}: {len(several)} of {of} had more than one winner, up to {most} of {racers}"
        )
    if none:
        faults.append(f"{what}: {len(none)} of {of} had no winner, although the key holds bytes")
    if other:
        faults.append(f"{what}: in {len(other)} of {of} the key did not hold the winner's bytes")
    if len(judged) < JUDGED_SHARE_MIN * len(races):
        faults.append(f"{what}: only {len(judged)} of {len(races)} rounds gave answers; try again")
    return Tally(what, len(races), len(judged), dict(sorted(winners.items())), tuple(faults))
