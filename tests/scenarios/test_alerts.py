"""Alerts fire by the faults that they are there for, on real brokers, and end with them.

`make alerts` does so with all of them.
"""

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.scenarios.harness.alert_faults import DRILLS
from tests.scenarios.harness.alert_stage import seconds_of, shortened
from tests.scenarios.harness.alerts import drills_of, run_drills
from tests.servers.promtool import why_no_promtool  # noqa: F401 - in a condition
from tools.monitoring.alert import PAGES
from tools.monitoring.alerts import ALERTS

LIST = Path(__file__).parents[2] / PAGES / "README.md"
SHORT = ("LogstoreBrokerDown", "LogstoreDenied", "LogstoreDiskFull", "LogstoreStoreStalled")


def test_every_alert_has_one_fault() -> None:
    assert Counter(name for drill in DRILLS for name in drill.alerts) == Counter(
        alert.name for alert in ALERTS
    )


def test_the_list_of_alerts_names_the_fault_of_each() -> None:
    listed = re.findall(r"^\| \[(\w+)\].* \| (.+) \|$", LIST.read_text(), re.MULTILINE)
    assert dict(listed) == {name: drill.what for drill in DRILLS for name in drill.alerts}


def test_shorter_times_are_all_that_differs() -> None:
    alerts = {alert.name: alert for alert in ALERTS}
    short = shortened(alerts["LogstoreCommitsSlow"], 60)
    assert short.expression == alerts["LogstoreCommitsSlow"].expression.replace("[5m]", "[5s]")
    assert short.lasts == "10s"
    damaged = shortened(alerts["LogstoreDamagedData"], 10)
    assert "[60s]" in damaged.expression
    assert shortened(alerts["LogstoreTablesBehind"], 20).expression.endswith(" > 180")
    for alert in ALERTS:
        assert shortened(alert, 1).lasts == f"{seconds_of(alert.lasts)}s"


@pytest.mark.clients
@pytest.mark.timeout(900)
@pytest.mark.skipif(
    "why_no_promtool() is not None", reason="promtool needs Debian's packages, once"
)
def test_alerts_fire_by_their_faults_and_end(tmp_path: Path) -> None:
    drills = drills_of(SHORT)
    fired, silent = run_drills(tmp_path, drills)
    assert not silent
    assert {one.alert for one in fired} == {name for drill in drills for name in drill.alerts}
