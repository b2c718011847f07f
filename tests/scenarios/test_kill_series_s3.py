"""Kill -9 with the log in a bucket on a bad day: nothing acknowledged is lost, doubled, reordered.

`MINUTES` sets how long (`make campaign`: 30), `LIFE` the seconds between two deaths under load,
`SEED` faults and moments. A short form of a minute without them.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.scenarios.harness.bucket import OBJECT_FAULTS, why_no_bucket
from tests.scenarios.harness.bucket_series import plan, run
from tests.scenarios.harness.outcome import UNDER_LOAD

pytestmark = [pytest.mark.clients, pytest.mark.slow]

MINUTES = float(os.environ.get("MINUTES", "1"))
LIFE_S = float(os.environ.get("LIFE", "20"))
SEED = int(os.environ.get("SEED", "0"))
UNACKNOWLEDGED_MIN = 25
FAULTS_MIN = 20
PUTS_FOR_EACH_KIND = 1_500
"""Of these many, chance leaves out no kind that is played to one in a hundred."""


@pytest.mark.timeout(1200)
def test_no_death_of_a_broker_behind_faults_loses_doubles_or_reorders_a_record(
    tmp_path: Path, tell: Callable[[str], None]
) -> None:
    if why_no_bucket() is not None:
        pytest.skip("a bucket needs versitygw and DynamoDB Local")
    found = run(tmp_path, MINUTES * 60, LIFE_S, SEED)
    report = "\n".join(found.report())
    tell(f"seed {SEED}\n{report}")

    outcome = found.outcome
    assert not outcome.anomalies, report
    assert outcome.verdict["failed"] == 0, report
    assert outcome.verdict["acked"] == outcome.verdict["sent"] == outcome.verdict["stored"]
    # A series on a fine day, or of an idle broker, would prove nothing.
    assert [killed.kind for killed in outcome.kills] == plan(MINUTES * 60, LIFE_S)
    assert min(one.batches_unacknowledged for one in outcome.underway) >= UNACKNOWLEDGED_MIN
    played = found.objects.faults()
    assert played.total() >= FAULTS_MIN, report
    if found.objects.requests()["PUT"] >= PUTS_FOR_EACH_KIND:
        assert set(played) >= {rule.split()[0] for rule in OBJECT_FAULTS} - {"cut"}, report
    assert found.metered.requests().creates <= found.objects.requests()["PUT"], report


def test_a_series_of_minutes_kills_once_a_minute_under_load_and_in_starts_as_well() -> None:
    kinds = plan(30 * 60, 60)

    assert len([kind for kind in kinds if kind in UNDER_LOAD]) == 29
    for kind in ("in seal", "in replay", "rows", "opening", "checkpoint at seal"):
        assert kinds.count(kind) >= 2
