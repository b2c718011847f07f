"""The kill -9 series with the log in a bucket, behind the latency and the faults of a bad day.

    python -m tests.scenarios.harness.bucket_series --minutes 30 [--life 60] [--seed N]
                                                    [--directory DIR]

A death falls under load every `--life` seconds; after each second one the next start dies too. At
the end the judge reads the objects straight from the S3 server.
"""

import argparse
import random
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

from tests.scenarios.harness.bucket import Weather, bucket, why_no_bucket
from tests.scenarios.harness.counts import Metered, ProxyCounts
from tests.scenarios.harness.outcome import Outcome
from tests.scenarios.harness.series import Pace, Series

LIFE_S = 60.0
DEATHS_UNDER_LOAD = ("random moment", "after put", "before put", "random moment", "checkpoint")
DEATHS_IN_START = ("in seal", "in replay", "rows", "opening", "checkpoint at seal")


@dataclass(frozen=True, slots=True)
class BucketOutcome:
    outcome: Outcome
    objects: ProxyCounts
    rows: ProxyCounts
    metered: Metered

    def report(self) -> Iterator[str]:
        yield from self.outcome.report()
        yield from self.objects.report("S3")
        yield from self.rows.report("DynamoDB")
        yield f"brokers' meter {self.metered}"


def plan(seconds: float, life_s: float) -> list[str]:
    """Kinds of kills for a series of about this length, in turn."""
    under_load, in_start = cycle(DEATHS_UNDER_LOAD), cycle(DEATHS_IN_START)
    kinds: list[str] = []
    # The last life ends in good order.
    for number in range(1, max(2, round(seconds / life_s))):
        kinds.append(next(under_load))
        if number % 2 == 0:
            kinds.append(next(in_start))
    return kinds


def pace(life_s: float) -> Pace:
    """A load of a few hundred records a second, so that hours fit into the judge's memory."""
    return Pace(
        producers=10, on_their_way_min=30, acked_first=300, life_s=life_s, replay_reads_max=1
    )


def run(directory: Path, seconds: float, life_s: float, seed: int) -> BucketOutcome:
    with bucket(directory, Weather(seed=seed)) as place:
        series = Series(directory, random.Random(seed), place.place, pace(life_s))
        outcome = series.follow(plan(seconds, life_s))
        objects, rows = place.counts()
    return BucketOutcome(
        outcome, objects, rows, Metered.read(sorted(directory.glob("counts-*.json")))
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--life", type=float, default=LIFE_S, help="seconds between two deaths")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--directory", type=Path, help="where to leave objects and journals")
    options = parser.parse_args()
    if (reason := why_no_bucket()) is not None:
        print(reason, file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as temporary:
        directory = options.directory or Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        found = run(directory, options.minutes * 60, options.life, options.seed)
    for line in found.report():
        print(line)
    return 1 if found.outcome.anomalies else 0


if __name__ == "__main__":
    sys.exit(main())
