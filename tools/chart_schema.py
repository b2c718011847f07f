"""Writes the names of settings into infra/helm/logstore/values.schema.json, from `logstore.config`.

python -m tools.chart_schema

So helm refuses a setting that no broker has before it asks Kubernetes for anything.
"""

import json
from pathlib import Path

from logstore.cli.environment import SETTINGS
from logstore.config.compaction_interval import EVERY
from logstore.config.flags import FLAG_SETTINGS

SCHEMA = Path(__file__).parent.parent / "infra" / "helm" / "logstore" / "values.schema.json"
OWN_VALUES = {*FLAG_SETTINGS, EVERY}
"""Settings that the chart gives by itself, or by values of other names."""


def render() -> str:
    schema = json.loads(SCHEMA.read_text())
    schema["definitions"]["setting"]["enum"] = sorted(set(SETTINGS) - OWN_VALUES)
    return json.dumps(schema, indent=2) + "\n"


if __name__ == "__main__":
    SCHEMA.write_text(render())
