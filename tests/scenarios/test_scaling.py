"""Equal processes scaled out and in under load: nothing is lost, doubled, or refused for good.

`STEPS` (`make scaling`: out,in,out,kill), `PARTITIONS`, `RATE` (values of 1,000 bytes a second),
`SEED`; with `BUCKET` on versitygw and DynamoDB Local. A short form without them.
"""

import os
import random
import re
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.scenarios.harness.bucket import Weather, bucket, why_no_bucket
from tests.scenarios.harness.cluster_series import BALANCE_OFTEN
from tests.scenarios.harness.fleet import directory_place
from tests.scenarios.harness.scaling_series import GONE_SOON, ScalingSeries

pytestmark = pytest.mark.clients

STEPS = os.environ.get("STEPS", "out,in").split(",")
PARTITIONS = int(os.environ.get("PARTITIONS", "24"))
RATE = float(os.environ.get("RATE", "300"))
SEED = int(os.environ.get("SEED", "0"))
ASKED_AGAIN = r"COORDINATOR_LOAD_IN_PROGRESS|NOT_COORDINATOR"
"""What a commit may be answered while its group moves: the next one is answered elsewhere."""


@pytest.mark.timeout(1200)
def test_three_equal_processes_become_six_and_three_again(
    tmp_path: Path, tell: Callable[[str], None]
) -> None:
    with ExitStack() as stack:
        place = directory_place(tmp_path)
        if "BUCKET" in os.environ:
            if why_no_bucket() is not None:
                pytest.skip("a bucket needs versitygw and DynamoDB Local")
            fine = Weather(objects=(), rows=(), latency=0.0)
            place = stack.enter_context(bucket(tmp_path, fine)).place
        outcome = ScalingSeries(
            tmp_path,
            place,
            random.Random(SEED),
            partitions=PARTITIONS,
            rate=RATE,
            settled_s=1.0,
            more=(*BALANCE_OFTEN, *GONE_SOON),
        ).run_scaling(STEPS)
    report = "\n".join(outcome.report())
    tell(f"seed {SEED}\n{report}")

    verdict = outcome.verdict
    assert not verdict["anomalies"], report
    assert verdict["failed"] == 0, report
    assert verdict["acked"] == verdict["sent"] == verdict["stored"], report
    assert (outcome.unread, outcome.read_again) == (0, 0), report
    assert not [one for one in outcome.errors if not re.search(ASKED_AGAIN, one)], report
    assert not [line for line in outcome.lines if "Traceback" in line], report
    for step in outcome.steps:
        if step.kind == "out":
            assert len(step.numbers) == 3
            assert max(step.numbers) <= 6, "numbers of those that left are taken again"
    if "kill" not in STEPS:
        late = [
            line for line in outcome.lines if re.search(r"took over: .* partitions=[1-9]", line)
        ]
        assert not late, "those that stop hand all over, and to none that stops"
