"""Brokers of one log are killed, frozen and restarted under load: nothing acknowledged is harmed.

`EVENTS` of each kind (`make campaign`: 20), `PARTITIONS`, `RATE` (values of 1,000 bytes a second),
`SEED`; with `BUCKET` on versitygw and DynamoDB Local, with `WEATHER` behind faults too. A short
form without them.
"""

import os
import random
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.scenarios.harness.bucket import Weather, bucket, why_no_bucket
from tests.scenarios.harness.cluster_series import BALANCE_OFTEN, KINDS, ClusterSeries
from tests.scenarios.harness.fleet import directory_place

pytestmark = pytest.mark.clients

EVENTS = int(os.environ.get("EVENTS", "0"))
PARTITIONS = int(os.environ.get("PARTITIONS", "24"))
RATE = float(os.environ.get("RATE", "300"))
SEED = int(os.environ.get("SEED", "0"))
SHORT = ("leader", "controller", "swallow", "roll")


@pytest.mark.timeout(600)
def test_no_harm_to_brokers_loses_doubles_or_reorders_a_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(SEED)
    kinds = [kind for kind in KINDS for _ in range(EVENTS)] or list(SHORT)
    chance.shuffle(kinds)
    with ExitStack() as stack:
        place = directory_place(tmp_path)
        if "BUCKET" in os.environ or "WEATHER" in os.environ:
            if why_no_bucket() is not None:
                pytest.skip("a bucket needs versitygw and DynamoDB Local")
            fine = Weather(objects=(), rows=(), latency=0.0)
            weather = Weather(seed=SEED) if "WEATHER" in os.environ else fine
            place = stack.enter_context(bucket(tmp_path, weather)).place
        series = ClusterSeries(
            tmp_path,
            place,
            chance,
            partitions=PARTITIONS,
            rate=RATE,
            settled_s=1.0 if not EVENTS else 4.0,
            more=BALANCE_OFTEN,
        )
        outcome = series.run(kinds)
    report = "\n".join(outcome.report())
    with capsys.disabled():
        sys.stdout.write(f"\nseed {SEED}\n{report}\n")

    assert not outcome.anomalies, report
    assert outcome.verdict["failed"] == 0, report
    assert outcome.verdict["acked"] == outcome.verdict["sent"] == outcome.verdict["stored"]
    assert [event.kind for event in series.events] == kinds
    assert not [line for line in outcome.lines if "Traceback" in line]
