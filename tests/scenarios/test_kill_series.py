"""Kill -9, again and again, under load: nothing acknowledged is lost, doubled or out of order.

`KILLS` sets how many (`make campaign`: 50), `SEED` their order and moments.
"""

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.scenarios.harness.series import Series, plan

pytestmark = pytest.mark.clients

KILLS = int(os.environ.get("KILLS", "12"))
SEED = int(os.environ.get("SEED", "0"))
UNACKNOWLEDGED_MIN = 100


def test_no_death_of_a_broker_loses_doubles_or_reorders_a_record(
    tmp_path: Path, tell: Callable[[str], None]
) -> None:
    outcome = Series(tmp_path, random.Random(SEED)).run(KILLS)
    report = "\n".join(outcome.report())
    tell(f"seed {SEED}\n{report}")

    assert not outcome.anomalies, report
    assert outcome.verdict["failed"] == 0, report
    assert outcome.verdict["acked"] == outcome.verdict["sent"] == outcome.verdict["stored"]
    # A series that hit an idle broker, or looked away, would prove nothing.
    assert outcome.kills_by_kind() == plan_of_kinds()
    assert min(one.batches_unacknowledged for one in outcome.underway) >= UNACKNOWLEDGED_MIN
    assert outcome.verdict["watermarks"] > KILLS


def plan_of_kinds() -> dict[str, int]:
    kinds = plan(KILLS, random.Random())
    return {kind: kinds.count(kind) for kind in kinds}


def test_fifty_kills_are_at_least_ten_of_each_that_matters() -> None:
    kinds = plan(50, random.Random(0))

    assert len(kinds) == 50
    for kind in ("before put", "after put", "in replay", "in seal"):
        assert kinds.count(kind) >= 10
