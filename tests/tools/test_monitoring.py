"""Alerts and dashboards name metrics that there are, each alert has a page, and each fires."""

import json
import re
from pathlib import Path

import pytest

from broker.http.decisions.catalogue import METRICS, PROCESS, MetricKind
from tests.servers.promtool import promtool, why_no_promtool  # noqa: F401 - in a condition
from tools.monitoring.__main__ import made
from tools.monitoring.alert import PAGES, Alert
from tools.monitoring.alerts import ALERTS
from tools.monitoring.dashboard import GRID
from tools.monitoring.panels import ROWS

ROOT = Path(__file__).parents[2]
NAME = re.compile(r"\blogstore_\w+")
HEADINGS = ["What it means", "What users feel", "Look here", "Do this", "When to wake a person"]
SELECTED = re.compile(r"((?:logstore|process)_\w+?)(?:_count|_bucket|_sum)?\{(.*?)\}")
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


def queries() -> list[str]:
    return [text for row in ROWS for panel in row.panels for text, _ in panel.queries]


def test_panels_name_metrics_that_there_are_with_their_labels() -> None:
    labels = {metric.name: {*metric.labels, "instance", "job", "le"} for metric in METRICS}
    process = {"instance", "job"}
    for text in queries():
        names = set(re.findall(r"\b(?:logstore|process)_\w+", text))
        assert names, text
        assert names <= exposed(), text
        for name, inside in SELECTED.findall(text):
            used = set(re.findall(r"(\w+)=~?\"", inside))
            assert used <= labels.get(name, process), text


def test_labels_that_panels_sum_by_and_show_are_those_of_their_metrics() -> None:
    labels = {metric.name: {*metric.labels, "instance", "job", "le"} for metric in METRICS}
    for row in ROWS:
        for panel in row.panels:
            for text, legend in panel.queries:
                named = {name for name in labels if re.search(rf"\b{name}(?:_|\b)", text)}
                known = set().union(*(labels[name] for name in named)) or {"instance", "job"}
                summed = {
                    one for by in re.findall(r"by \(([^)]*)\)", text) for one in by.split(", ")
                }
                shown = set(re.findall(r"{{(\w+)}}", legend))
                assert summed <= known, panel.title
                assert not summed or shown <= summed, panel.title


def test_panels_do_not_overlap_and_have_ids_of_their_own() -> None:
    board = json.loads(made()["dashboards/logstore.json"])
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= GRID
        taken |= cells


@pytest.mark.slow
@pytest.mark.skipif(
    "why_no_promtool() is not None", reason="promtool needs Debian's packages, once"
)
def test_each_alert_fires_by_its_example_and_is_quiet_otherwise() -> None:
    assert f"{len(ALERTS)} rules found" in promtool(
        "check", "rules", "logstore.yml", within=ROOT / "alerts"
    )
    assert "SUCCESS" in promtool("test", "rules", "tests.yml", within=ROOT / "alerts")
