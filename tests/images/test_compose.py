"""compose.yaml agrees with the product and with the Dockerfile. `make image` runs its services."""

import re
from collections.abc import Mapping
from typing import Any

import pytest

from logstore.cli.environment import SETTINGS
from logstore.config.sources import variable_of
from tests.images.compose import BROKERS, read_services
from tests.images.dockerfile import read_stages


@pytest.fixture(scope="module")
def services() -> Mapping[str, Any]:
    return read_services()


def test_every_variable_is_a_setting_and_every_image_of_ours_is_built(
    services: Mapping[str, Any],
) -> None:
    known = {variable_of(name) for name in SETTINGS}
    stages = read_stages()
    for name in ("init", *BROKERS):
        given = {one for one in services[name]["environment"] if one.startswith("LOGSTORE_")}
        assert given <= known, name
        assert services[name]["build"]["target"] in stages
        assert services[name]["read_only"]
    assert {name for name in services if name.startswith("broker")} == set(BROKERS)


def test_each_broker_has_ports_of_its_own_and_they_are_published(
    services: Mapping[str, Any],
) -> None:
    for name in BROKERS:
        given, published = services[name]["environment"], services[name]["ports"]
        outside = re.search(r"OUTSIDE://0\.0\.0\.0:(\d+)", given["LOGSTORE_LISTEN"])
        assert outside is not None
        assert f"INSIDE://{name}:9092" in given["LOGSTORE_ADVERTISE"]
        assert f"OUTSIDE://localhost:{outside[1]}" in given["LOGSTORE_ADVERTISE"]
        assert f"127.0.0.1:{outside[1]}:{outside[1]}" in published
    ports = [port for name in BROKERS for port in services[name]["ports"]]
    assert len(set(ports)) == len(ports) == 2 * len(BROKERS)
