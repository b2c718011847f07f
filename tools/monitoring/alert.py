"""One alert, with series that make it fire and others that do not; and both as Prometheus's YAML.

Strings are written as JSON's, which YAML takes as they are; so no library is needed.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

PAGES = "docs/operations/alerts"


class Urgency(StrEnum):
    PAGE = "page"
    """Clients feel it, or data is at stake: wake a person."""
    TICKET = "ticket"
    """It can wait for the next working day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """`example` are series (name with labels, values a minute apart, in promtool's notation) by
    which it fires after `fires_after`, with `labels`; with `calm` it never does.
    """

    name: str
    expression: str
    lasts: str
    """For how long it must hold: `1m`."""
    urgency: Urgency
    summary: str
    example: Sequence[tuple[str, str]]
    calm: Sequence[tuple[str, str]]
    labels: Sequence[tuple[str, str]] = ()
    fires_after: str = "20m"
    age_s: int = 0
    """Of an expression that ends with `> age_s`: a time, as `lasts` and windows are."""

    @property
    def page(self) -> str:
        return f"{PAGES}/{self.name}.md"


def rules_text(alerts: Sequence[Alert]) -> str:
    lines = [
        "# Made by `python -m tools.monitoring`; each alert has a page in docs/operations/alerts."
    ]
    lines += ["groups:", "- name: logstore", "  rules:"]
    for one in alerts:
        lines += [
            f"  - alert: {one.name}",
            f"    expr: {json.dumps(one.expression)}",
            f"    for: {one.lasts}",
            f"    labels: {json.dumps({'severity': one.urgency})}",
            "    annotations:",
            *(f"      {name}: {json.dumps(text)}" for name, text in _annotations(one).items()),
        ]
    return "\n".join(lines) + "\n"


def tests_text(alerts: Sequence[Alert], rules: str) -> str:
    """For `promtool test rules`: each fires by its example, and not by the calm series."""
    lines = [
        "# Made by `python -m tools.monitoring`.",
        f"rule_files: [{json.dumps(rules)}]",
        "tests:",
    ]
    for one in alerts:
        fired = {
            "exp_labels": {"severity": one.urgency, **dict(one.labels)},
            "exp_annotations": _annotations(one),
        }
        for series, expected in ((one.example, [fired]), (one.calm, [])):
            lines += ["- interval: 1m", "  input_series:"]
            lines += [f"  - {json.dumps({'series': n, 'values': v})}" for n, v in series]
            case = {"eval_time": one.fires_after, "alertname": one.name, "exp_alerts": expected}
            lines += ["  alert_rule_test:", f"  - {json.dumps(case)}"]
    return "\n".join(lines) + "\n"


def _annotations(alert: Alert) -> dict[str, str]:
    return {"summary": alert.summary, "runbook": alert.page}
