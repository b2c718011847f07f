"""Brokers of one log are killed, frozen and restarted under load: nothing acknowledged is harmed.

`EVENTS` of each kind (`make campaign`: 20), `PARTITIONS`, `RATE` (values of 1,000 bytes a second),
`SEED`; with `BUCKET` on versitygw and DynamoDB Local, with `WEATHER` behind faults too: there they
are cut off from either and run twice as well. A short form without them.
"""

import os
import random
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.scenarios.harness.bucket import Weather, bucket, why_no_bucket
from tests.scenarios.harness.cluster_series import (
    BALANCE_OFTEN,
    KINDS,
    ON_A_DIRECTORY,
    ClusterSeries,
)
from tests.scenarios.harness.fleet import directory_place
from tests.scenarios.harness.process import Process

pytestmark = pytest.mark.clients

EVENTS = int(os.environ.get("EVENTS", "0"))
PARTITIONS = int(os.environ.get("PARTITIONS", "24"))
RATE = float(os.environ.get("RATE", "300"))
SEED = int(os.environ.get("SEED", "0"))
SHORT = ("leader", "controller", "swallow", "roll")


@pytest.mark.timeout(1200)
def test_no_harm_to_brokers_loses_doubles_or_reorders_a_record(
    tmp_path: Path, tell: Callable[[str], None]
) -> None:
    rng = random.Random(SEED)
    is_bucket = "BUCKET" in os.environ or "WEATHER" in os.environ
    possible = KINDS if is_bucket else ON_A_DIRECTORY
    kinds = [kind for kind in possible for _ in range(EVENTS)] or list(SHORT)
    rng.shuffle(kinds)
    with ExitStack() as stack:
        place, its_bucket = directory_place(tmp_path), None
        if is_bucket:
            if why_no_bucket() is not None:
                pytest.skip("a bucket needs versitygw and DynamoDB Local")
            fine = Weather(objects=(), rows=(), latency=0.0)
            weather = Weather(seed=SEED) if "WEATHER" in os.environ else fine
            its_bucket = stack.enter_context(bucket(tmp_path, weather))
            place = its_bucket.place
        series = ClusterSeries(
            tmp_path,
            place,
            rng,
            partitions=PARTITIONS,
            rate=RATE,
            settled_s=1.0 if not EVENTS else 4.0,
            more=BALANCE_OFTEN,
            bucket=its_bucket,
        )
        outcome = series.run(kinds)
    report = "\n".join(outcome.report())
    tell(f"seed {SEED}\n{report}")

    assert not outcome.anomalies, report
    assert outcome.verdict["failed"] == 0, report
    assert outcome.verdict["acked"] == outcome.verdict["sent"] == outcome.verdict["stored"]
    assert [event.kind for event in series.events] == kinds
    assert not [line for line in outcome.lines if "Traceback" in line]


def test_what_a_directory_cannot_do_is_refused() -> None:
    arguments = ("tests.scenarios.harness.cluster_series", "--kinds", "leader,twin")
    with Process(arguments) as series:
        assert series.wait() == 2, series.lines
    assert "error: twin needs --bucket" in series.lines[-1]
