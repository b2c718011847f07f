"""State rebuilt from compacted topics by Streams, Connect and a reader of schemas, under kills.

`make changelogs` runs for an hour.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.clients.java_users import why_no_users
from tests.scenarios.harness.changelog_users import SCHEMAS, STORE
from tests.scenarios.harness.changelogs import BROKER, run

KILLS = ("table", BROKER, "schemas")
SECONDS, EVERY_S, RATE = 600.0, 4.0, 150.0
"""It ends after the last kill, in a minute."""
SEED = int(os.environ.get("SEED", "0"))


@pytest.mark.clients
def test_each_program_rebuilds_what_was_written_whatever_is_killed(
    tmp_path: Path, tell: Callable[[str], None]
) -> None:
    if why_no_users():
        pytest.skip("Kafka Connect and Streams need Java 17 and Maven, once")
    outcome = run(
        tmp_path,
        kinds=KILLS,
        seconds=SECONDS,
        every_s=EVERY_S,
        rate=RATE,
        seed=SEED,
        say=lambda line: None,
    )
    report = "\n".join(outcome.report())
    tell(f"seed {SEED}\n{report}")

    assert outcome.is_good, report
    # A run in which nothing was rebuilt, compacted or deleted would prove nothing.
    assert outcome.rebuilt["table"] >= 2, report
    assert outcome.rebuilt["schemas"] >= 2, report
    assert outcome.rebuilt["connect"] >= 1, report
    for topic in (STORE, SCHEMAS):
        rows, clean_end = outcome.tables[topic]
        assert 0 < rows < clean_end, report
    assert all(counts[-1] > 0 for counts in outcome.restored.values()), report
    before, left = outcome.segments
    assert outcome.kept.trimmed_objects + before - left > 0, report
