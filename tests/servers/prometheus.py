"""A Prometheus that scrapes brokers every second and evaluates rules as often."""

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from logstore.ports.clock import SystemClock, blocking_sleep_s
from tests.servers.child import free_port, running_child
from tests.servers.promtool import program

ANSWER_S = 20.0
READY_LOOK_S = 0.1
FIRING = "firing"


@dataclass(frozen=True, slots=True)
class ActiveAlert:
    """`since` is when its expression began to hold."""

    name: str
    state: str
    since: datetime
    runbook: str


@dataclass(frozen=True, slots=True)
class Prometheus:
    endpoint: str

    def alerts(self) -> list[ActiveAlert]:
        """Those that are pending or firing."""
        return [
            ActiveAlert(
                one["labels"]["alertname"],
                one["state"],
                datetime.fromisoformat(one["activeAt"][:19] + "+00:00"),
                one["annotations"]["runbook"],
            )
            for one in self._ask("alerts")["alerts"]
        ]

    def value(self, expression: str) -> float | None:
        """Of an expression that gives one number now; None: it gives nothing."""
        asked = urllib.parse.urlencode({"query": expression})
        result = self._ask(f"query?{asked}")["result"]
        return float(result[0]["value"][1]) if result else None

    def _ask(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self.endpoint}/api/v1/{path}", timeout=ANSWER_S) as answer:
            return json.load(answer)["data"]


@contextmanager
def prometheus(directory: Path, targets: Sequence[str], rules: str) -> Iterator[Prometheus]:
    """`targets` are scraped as the job `logstore`; `rules` is the text of a file of rules."""
    (directory / "rules.yml").write_text(rules)
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s", "scrape_timeout": "1s"},
        "rule_files": ["rules.yml"],
        "scrape_configs": [
            {"job_name": "logstore", "static_configs": [{"targets": list(targets)}]}
        ],
    }
    (directory / "prometheus.yml").write_text(json.dumps(config))  # which is YAML, too
    port = free_port()
    command = [
        program("prometheus"),
        f"--config.file={directory / 'prometheus.yml'}",
        f"--storage.tsdb.path={directory / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--web.console.templates=/nowhere",
        "--web.console.libraries=/nowhere",
        "--log.level=error",
    ]
    with running_child(command, port, directory / "prometheus.log"):
        _await_ready(f"http://127.0.0.1:{port}/-/ready")
        yield Prometheus(f"http://127.0.0.1:{port}")


def _await_ready(url: str) -> None:
    """It accepts connections a little earlier."""
    clock = SystemClock()
    deadline_s = clock.monotonic_s() + ANSWER_S
    while True:
        try:
            urllib.request.urlopen(url, timeout=ANSWER_S).close()
            return
        except urllib.error.HTTPError as error:
            error.close()
            assert clock.monotonic_s() < deadline_s, "Prometheus does not get ready"
            blocking_sleep_s(READY_LOOK_S)
