"""A dashboard as Grafana's JSON: rows of panels, each with PromQL and a unit.

Grafana's grid is 24 wide; panels here are a third of it, eight high. The data source and the
brokers to show are variables.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

SCHEMA_VERSION = 39
WIDTH, HEIGHT, GRID = 8, 8, 24
SOURCE = {"type": "prometheus", "uid": "${source}"}


@dataclass(frozen=True, slots=True)
class Panel:
    """`queries` are (PromQL, legend); `unit` is one of Grafana's: `s`, `Bps`, `reqps`, `short`."""

    title: str
    queries: Sequence[tuple[str, str]]
    unit: str = "short"
    description: str = ""
    is_stat: bool = False
    """One number instead of a line over time."""


@dataclass(frozen=True, slots=True)
class Row:
    title: str
    panels: Sequence[Panel]


def dashboard_text(title: str, rows: Sequence[Row]) -> str:
    panels: list[dict[str, Any]] = []
    top = 0
    for row in rows:
        panels.append(
            {
                "type": "row",
                "id": len(panels) + 1,
                "title": row.title,
                "collapsed": False,
                "gridPos": {"h": 1, "w": GRID, "x": 0, "y": top},
                "panels": [],
            }
        )
        top += 1
        for number, panel in enumerate(row.panels):
            at = {
                "h": HEIGHT,
                "w": WIDTH,
                "x": number % (GRID // WIDTH) * WIDTH,
                "y": top + number // (GRID // WIDTH) * HEIGHT,
            }
            panels.append(_panel(panel, len(panels) + 1, at))
        top += -(-len(row.panels) // (GRID // WIDTH)) * HEIGHT
    board = {
        "uid": "logstore",
        "title": title,
        "tags": ["logstore"],
        "timezone": "utc",
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "schemaVersion": SCHEMA_VERSION,
        "editable": True,
        "templating": {"list": _VARIABLES},
        "panels": panels,
    }
    return json.dumps(board, indent=1) + "\n"


def _panel(panel: Panel, number: int, at: dict[str, int]) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + index), "expr": text, "legendFormat": legend, "datasource": SOURCE}
        for index, (text, legend) in enumerate(panel.queries)
    ]
    return {
        "type": "stat" if panel.is_stat else "timeseries",
        "id": number,
        "title": panel.title,
        "description": panel.description,
        "datasource": SOURCE,
        "gridPos": at,
        "targets": targets,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {},
    }


_VARIABLES = [
    {"name": "source", "label": "Data source", "type": "datasource", "query": "prometheus"},
    {
        "name": "instance",
        "label": "Broker",
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": "label_values(logstore_build_info, instance)", "refId": "instances"},
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    },
]
