"""A group of mixed clients, harmed under load: commits, generations and deliveries hold.

`EVENTS` upon members (`make campaign`: 40), as many deaths of coordinators with `BROKERS` over 1,
`MEMBERS`, `PARTITIONS`, `SEED`. A short form of less than a minute without them.
"""

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.clients.java_users import why_no_tools
from tests.scenarios.harness.group_series import GroupSeries, plan

pytestmark = pytest.mark.clients

EVENTS = int(os.environ.get("EVENTS", "0"))
BROKERS = int(os.environ.get("BROKERS", "3"))
MEMBERS = int(os.environ.get("MEMBERS", "5"))
PARTITIONS = int(os.environ.get("PARTITIONS", "10"))
SEED = int(os.environ.get("SEED", "0"))
SHORT = ("kill", "coordinator", "freeze", "leave")
OWNED_AGAIN_S = 60.0
"""Sessions last 6 s; the rest is for machines that do other things as well."""


@pytest.mark.timeout(1200)
def test_a_group_loses_no_record_no_commit_and_no_partition(
    tmp_path: Path, tell: Callable[[str], None]
) -> None:
    rng = random.Random(SEED)
    kinds = plan(EVENTS, rng, kill_coordinators=BROKERS > 1) or SHORT
    with_java = why_no_tools() is None
    series = GroupSeries(
        tmp_path, rng, MEMBERS, PARTITIONS, BROKERS, rate=300.0, with_java=with_java
    )
    outcome = series.run(kinds)
    report = "\n".join(outcome.report())
    tell(f"seed {SEED}\n{report}")

    verdict = outcome.verdict
    assert not verdict.anomalies, report
    assert verdict.owned_again_s < OWNED_AGAIN_S, report
    # A series in which nothing happened would prove nothing.
    assert verdict.generations >= len(kinds) // 2, report
    assert verdict.commits_accepted > PARTITIONS, report


def test_a_plan_has_each_kind_as_often() -> None:
    kinds = plan(40, random.Random(0), kill_coordinators=True)

    assert {kind: kinds.count(kind) for kind in kinds} == {
        "kill": 10,
        "add": 10,
        "freeze": 10,
        "leave": 10,
        "coordinator": 40,
    }
