"""Alerts and dashboards name metrics that there are, each alert has a page, and each fires."""

import re
from pathlib import Path

import pytest

from broker.http.catalogue import METRICS, PROCESS, MetricKind
from tests.servers.promtool import promtool, why_no_promtool  # noqa: F401 - in a condition
from tools.monitoring.__main__ import made
from tools.monitoring.alert import PAGES, Alert
from tools.monitoring.alerts import ALERTS

ROOT = Path(__file__).parents[2]
NAME = re.compile(r"\blogstore_\w+")
HEADINGS = ["What it means", "What users feel", "Look here", "Do this", "When to wake a person"]
SELECTED = re.compile(r"(logstore_\w+?)(?:_count|_bucket|_sum)?\{(.*?)\}")
OF_PROMETHEUS = {"up"}


def exposed() -> set[str]:
    """Every name that a page of metrics has, and the names of the metrics themselves."""
    names = set(PROCESS)
    for metric in METRICS:
        names.add(metric.name)
        if metric.kind is MetricKind.HISTOGRAM:
            names |= {f"{metric.name}_{part}" for part in ("bucket", "sum", "count")}
    return names


def test_what_is_stored_is_what_is_made() -> None:
    for path, text in made().items():
        assert (ROOT / path).read_text() == text, f"{path}: run python -m tools.monitoring"


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_an_alert_names_metrics_that_there_are_and_has_a_page(alert: Alert) -> None:
    used = set(NAME.findall(alert.expression))
    assert used or alert.expression.split("{")[0] in OF_PROMETHEUS
    assert used <= exposed()
    page = (ROOT / alert.page).read_text()
    assert page.startswith(f"# {alert.name}\n")
    assert re.findall(r"^## (.+)$", page, re.MULTILINE) == HEADINGS
    sections = re.split(r"^## .+$", page, flags=re.MULTILINE)[1:]
    assert all(section.strip() for section in sections)
    assert set(NAME.findall(page)) <= exposed()


def test_each_page_is_of_an_alert_and_the_list_has_them_all() -> None:
    pages = {path.stem for path in (ROOT / PAGES).glob("*.md")} - {"README"}
    assert pages == {alert.name for alert in ALERTS}
    listed = re.findall(r"^\| \[(\w+)\]", (ROOT / PAGES / "README.md").read_text(), re.MULTILINE)
    assert listed == [alert.name for alert in ALERTS]


def test_labels_in_expressions_are_labels_of_their_metrics() -> None:
    labels = {metric.name: {*metric.labels, "instance", "job", "le"} for metric in METRICS}
    for alert in ALERTS:
        for name, inside in SELECTED.findall(alert.expression):
            assert set(re.findall(r"(\w+)=~?\"", inside)) <= labels[name], alert.name


@pytest.mark.slow
@pytest.mark.skipif(
    "why_no_promtool() is not None", reason="promtool needs Debian's packages, once"
)
def test_each_alert_fires_by_its_example_and_is_quiet_otherwise() -> None:
    assert f"{len(ALERTS)} rules found" in promtool(
        "check", "rules", "logstore.yml", within=ROOT / "alerts"
    )
    assert "SUCCESS" in promtool("test", "rules", "tests.yml", within=ROOT / "alerts")
