"""Writes the files that are made of alerts and panels: `python -m tools.monitoring`."""

from pathlib import Path

from tools.monitoring.alert import rules_text, tests_text
from tools.monitoring.alerts import ALERTS
from tools.monitoring.dashboard import dashboard_text
from tools.monitoring.panels import ROWS

ROOT = Path(__file__).parents[2]
RULES = "logstore.yml"


def made() -> dict[str, str]:
    """Text by path from the root of the repository."""
    return {
        f"alerts/{RULES}": rules_text(ALERTS),
        "alerts/tests.yml": tests_text(ALERTS, RULES),
        "dashboards/logstore.json": dashboard_text("logstore", ROWS),
    }


def main() -> None:
    for path, text in made().items():
        (ROOT / path).parent.mkdir(exist_ok=True)
        (ROOT / path).write_text(text)


if __name__ == "__main__":
    main()
