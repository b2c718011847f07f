"""The rule by which memory is called flat, and a short run of what it judges.

`make resident MINUTES=60` is the long one.
"""

from pathlib import Path

import pytest

from tests.scenarios.harness.resident import live
from tests.scenarios.harness.resident_churn import SECONDS_BETWEEN
from tests.scenarios.harness.resident_memory import (
    GROWTH_MB_MAX,
    MB,
    Sample,
    growth_mb,
    is_flat,
    report,
)

WHOLE_S = 400.0
SHORT_MINUTES, SHORT_PACE = 0.5, 10.0


def samples(*mb_by_quarter: float) -> list[Sample]:
    """Ten of each quarter of a run of `WHOLE_S`."""
    return [
        Sample(quarter * 100.0 + number * 10, round(mb * MB))
        for quarter, mb in enumerate(mb_by_quarter)
        for number in range(10)
    ]


def test_what_a_process_takes_while_it_warms_up_is_no_growth() -> None:
    assert growth_mb(samples(40, 150, 150, 150), WHOLE_S) == 0
    assert is_flat(samples(40, 150, 150, 150), WHOLE_S)


def test_a_last_quarter_above_the_margin_is_not_flat() -> None:
    within, above = 150 + GROWTH_MB_MAX, 150.1 + GROWTH_MB_MAX

    assert is_flat(samples(40, 150, 150, within), WHOLE_S)
    assert not is_flat(samples(40, 150, 150, above), WHOLE_S)


def test_a_peak_is_no_growth_where_it_ends() -> None:
    peak = samples(40, 150, 400, 150)
    last = [*peak[:-1], Sample(399.0, 400 * MB)]

    assert is_flat(last, WHOLE_S)
    assert "peak 400; second quarter to last +0.0: flat" in "".join(
        report({1: last}, {1: last}, WHOLE_S)
    )


def test_a_quarter_without_a_sample_is_no_proof() -> None:
    with pytest.raises(ValueError, match="no sample of quarter 4 of 400 s"):
        is_flat(samples(40, 150, 150), WHOLE_S)


@pytest.mark.clients
@pytest.mark.timeout(300)
def test_clients_topics_and_the_registry_come_and_go_while_memory_is_looked_at(
    tmp_path: Path,
) -> None:
    said: list[str] = []

    residence = live(tmp_path, minutes=SHORT_MINUTES, pace=SHORT_PACE, say=said.append)

    assert [line.split(": ")[1] for line in said if "registry" in line] == [
        "the registry is away",
        "the registry is back",
    ]
    done, complaints = residence.churn.done, list(residence.complaints())
    assert all(done[kind] for kind in (*SECONDS_BETWEEN, "values read")), done
    assert not residence.churn.failed, residence.churn.errors
    assert not [line for line in complaints if "flat" not in line], complaints
    assert all(one[-1].byte_count for one in residence.segments.values())
    assert all(len(samples) > 100 for samples in residence.samples.values())
