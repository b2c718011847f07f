"""The services of compose.yaml."""

from collections.abc import Mapping
from typing import Any

import yaml

from tests.scenarios.harness.process import ROOT

BROKERS = ("broker-1", "broker-2", "broker-3")


def read_services() -> Mapping[str, Any]:
    services: Mapping[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    return services
