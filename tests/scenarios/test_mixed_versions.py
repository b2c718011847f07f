"""Brokers of this version and of the release before beside each other, as in an upgrade.

`ROUNDS` times back and forward (`make campaign`: 5), `PARTITIONS`, `RATE`, `SEED`.
"""

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.releases import release_before
from tests.scenarios.harness.cluster_series import BALANCE_OFTEN
from tests.scenarios.harness.fleet import directory_place
from tests.scenarios.harness.mixed_series import MixedSeries

pytestmark = pytest.mark.clients

ROUNDS = int(os.environ.get("ROUNDS", "1"))
PARTITIONS = int(os.environ.get("PARTITIONS", "12"))
RATE = float(os.environ.get("RATE", "200"))
SEED = int(os.environ.get("SEED", "0"))


@pytest.mark.timeout(1200)
def test_a_roll_forward_back_and_forward_loses_doubles_or_refuses_nothing(
    tmp_path: Path, tell: Callable[[str], None]
) -> None:
    if release_before().why_not() is not None:
        pytest.skip("the release before needs a checkout with its commit")
    outcome = MixedSeries(
        tmp_path,
        directory_place(tmp_path),
        random.Random(SEED),
        partitions=PARTITIONS,
        rate=RATE,
        settled_s=1.0,
        more=BALANCE_OFTEN,
        rounds=ROUNDS,
    ).run_mixed()
    report = "\n".join(outcome.report())
    tell(f"seed {SEED}\n{report}")

    verdict = outcome.verdict
    assert not verdict["anomalies"], report
    assert verdict["failed"] == 0, report
    assert verdict["acked"] == verdict["sent"] == verdict["stored"], report
    assert outcome.read == sorted(outcome.read), report
    assert outcome.read[0] > 0, report
    assert "newer format: level=2 known=1" in outcome.refused
    assert not [line for line in outcome.lines if "Traceback" in line], report
