"""History as a table under load: every reader sees every record once, whatever is going on.

The short form of `make history`, which sends 2 GB and lets Spark read too.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.scenarios.harness.history_series import run

pytestmark = [pytest.mark.clients, pytest.mark.slow]

MEGABYTES, ROUNDS, KILLS, SEED = 16.0, 4, 2, 0


def test_every_reader_sees_every_record_once_while_the_log_moves_into_its_table(
    tmp_path: Path, tell: Callable[[str], None]
) -> None:
    found = run(tmp_path, megabytes=MEGABYTES, rounds=ROUNDS, kills=KILLS, seed=SEED)
    report = "\n".join(found.report())
    tell(f"seed {SEED}\n{report}")

    assert not found.faults, report
    # A series in which nothing moved or went would prove nothing.
    assert found.kept.compactions >= ROUNDS, report
    assert found.kept.trimmed_objects > 0, report
    assert found.found_gone > 0, report
    assert found.kept.kills == KILLS, report
