"""History as a table under load: every reader sees every record once, whatever is going on.

`MEGABYTES`, `ROUNDS` and `KILLS` set how much (`make history`: 2 GB); a short form without them.
"""

import os
import sys
from pathlib import Path

import pytest

from tests.scenarios.harness.history_series import run

pytestmark = [pytest.mark.clients, pytest.mark.slow]

MEGABYTES = float(os.environ.get("MEGABYTES", "16"))
ROUNDS = int(os.environ.get("ROUNDS", "3"))
KILLS = int(os.environ.get("KILLS", "2"))
SEED = int(os.environ.get("SEED", "0"))


def test_every_reader_sees_every_record_once_while_the_log_moves_into_its_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = run(tmp_path, megabytes=MEGABYTES, rounds=ROUNDS, kills=KILLS, seed=SEED)
    report = "\n".join(found.report())
    with capsys.disabled():
        sys.stdout.write(f"\nseed {SEED}\n{report}\n")

    assert not found.faults, report
    # A series in which nothing moved or went would prove nothing.
    assert found.compactions >= ROUNDS, report
    assert found.trimmed_objects > 0, report
    assert found.kills == KILLS, report
