"""Kill -9 of drivers, workers and leaders while Spark copies a topic: each row once, in order.

`make campaign` runs a long one: `python -m tests.scenarios.harness.sink_series`.
"""

import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.scenarios.harness.sink_series import KINDS, SinkSeries, judge, plan

KILLS = int(os.environ.get("KILLS", "5"))
SEED = int(os.environ.get("SEED", "0"))


@pytest.mark.spark
def test_no_death_of_driver_worker_or_leader_doubles_loses_or_reorders_a_row(
    tmp_path: Path, tell: Callable[[str], None]
) -> None:
    outcome, _ = SinkSeries(tmp_path, random.Random(SEED)).run(KILLS)
    tell(f"seed {SEED}: {outcome.report()}")

    assert (outcome.doubled, outcome.lost, outcome.out_of_order) == (0, 0, 0), outcome.report()
    assert outcome.kinds.total() == KILLS


def test_the_judge_sees_what_is_doubled_lost_and_out_of_order() -> None:
    written = Counter({1: 3, 2: 2})

    good = judge(written, [[b"1/0", b"2/0", b"1/1"], [b"1/2", b"2/1"]])
    assert (good.rows, good.doubled, good.lost, good.out_of_order) == (5, 0, 0, 0)
    bad = judge(written, [[b"1/1", b"1/0", b"1/1", b"2/0", b"2/0"]])
    assert (bad.doubled, bad.lost, bad.out_of_order) == (2, 2, 1)


def test_a_long_series_has_each_kind_often() -> None:
    counts = Counter(plan(100, random.Random(0)))
    assert set(counts) == set(KINDS)
    assert min(counts.values()) >= 12
